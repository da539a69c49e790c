"""Processes of others that import jsonschema do so without the 38 grammars of addresses, which take two seconds of processor time each."""

import os
from pathlib import Path

_STAND_IN = 'raise ImportError("left out by the tests")\n'


def without_grammars(folder: Path, *others: Path | str) -> str:
    """A PYTHONPATH for such a process, with `others` in front; `folder` gets a module in the place of the grammars."""
    (folder / "rfc3987_syntax.py").write_text(_STAND_IN, encoding="utf-8")
    return os.pathsep.join([*map(str, others), str(folder)])
