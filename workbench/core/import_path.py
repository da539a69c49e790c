"""Move the current folder to the end of the command line's module search path.

A downloaded plan may lie beside a `panel.py` or `json.py`, which must not be imported instead of the real module, while
`--model mine:build` must still find `mine.py`. This module is imported before the rest of the workbench and imports
only modules that Python has already loaded, because `python -m` and an empty PYTHONPATH entry put that folder first.
"""

import os
import sys


def use_current_folder_last() -> None:
    """Move the current folder to the end of the module path, unless it contains this package (a checkout)."""
    try:
        current = os.path.realpath(os.getcwd())  # noqa: PTH109 - pathlib is not loaded yet
    except OSError:
        return  # the folder was removed
    folders = [os.path.realpath(entry or current) for entry in sys.path]
    package = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))  # noqa: PTH120
    if current == os.path.dirname(package) and current in folders:  # noqa: PTH120
        return
    sys.path[:] = [*(entry for entry, folder in zip(sys.path, folders, strict=True) if folder != current), current]


def python_path() -> str:
    """Return this process's module search path as PYTHONPATH, with the current folder's empty entries written out."""
    return os.pathsep.join(entry or os.getcwd() for entry in sys.path)  # noqa: PTH109 - pathlib is not loaded yet


def is_command_line() -> bool:
    """Return whether this process was started as `workbench` or with `python -m workbench`."""
    module = sys.orig_argv[sys.orig_argv.index("-m") + 1 :][:1] if "-m" in sys.orig_argv else []
    return module in (["workbench"], ["workbench.cli"]) or os.path.basename((sys.argv or [""])[0]) == "workbench"  # noqa: PTH119


if is_command_line():
    use_current_folder_last()
