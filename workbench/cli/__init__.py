"""Command line: `workbench` and `python -m workbench.cli`."""
