"""The command line, as `workbench` and as `python -m workbench.cli`."""
