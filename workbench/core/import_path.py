"""The module search path of the command line: the current folder comes last.

A downloaded plan stands beside whatever else was downloaded, and a `panel.py` or `json.py` there must not be imported in place of the
real one. `--model mine:build` finds `mine.py` there all the same. This is imported before anything else of the workbench, and imports
nothing that Python has not loaded already: with `python -m`, or an empty entry in PYTHONPATH, Python puts that folder first.
"""

import os
import sys


def use_current_folder_last() -> None:
    """Move the current folder to the end of the module path. Where this package itself is in it, a checkout, it keeps its place."""
    try:
        here = os.path.realpath(os.getcwd())  # noqa: PTH109 - pathlib is not loaded yet
    except OSError:
        return  # the folder was removed
    folders = [os.path.realpath(each or here) for each in sys.path]
    package = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))  # noqa: PTH120
    if here == os.path.dirname(package) and here in folders:  # noqa: PTH120
        return
    sys.path[:] = [*(each for each, folder in zip(sys.path, folders, strict=True) if folder != here), here]


def python_path() -> str:
    """This process's module search path as PYTHONPATH, for a process that is to import what this one can. An empty entry means the current
    folder to Python, and is written out."""
    return os.pathsep.join(each or os.getcwd() for each in sys.path)  # noqa: PTH109 - pathlib is not loaded yet


def is_command_line() -> bool:
    """Whether this process was started as `workbench`, or with `python -m workbench`, which is in `workbench.cli`."""
    module = sys.orig_argv[sys.orig_argv.index("-m") + 1 :][:1] if "-m" in sys.orig_argv else []
    return module in (["workbench"], ["workbench.cli"]) or os.path.basename((sys.argv or [""])[0]) == "workbench"  # noqa: PTH119


if is_command_line():
    use_current_folder_last()
