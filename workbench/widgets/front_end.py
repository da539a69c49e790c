"""The front end: one ES module that anywidget and Panel both host, bundled by `tools/bundle.py` from the modules in `static`."""

import hashlib
import json
from functools import cache
from pathlib import Path

from workbench.widgets.glossary.glossary import glossary_state

_BUNDLES = Path(__file__).parent / "static" / "bundle"


@cache
def module_text() -> str:
    """The board's module, preceded by what Python gives it: the style sheets and the glossary, which `python_constants.js` reads."""
    return f"{_given()}\n{_text('board.js')}"


def _given() -> str:
    """What Python gives the board's module."""
    return f"const GIVEN = {json.dumps({'style': _text('board.css'), 'glossary': glossary_state()})};"


@cache
def recorded_script() -> str:
    """A script for a page of recordings (`recorded/`), which needs no server: it shows the one of each element `.recorded-board`."""
    board, recorded = (code[: code.rindex("export {")] for code in (_text("board.js"), _text("recorded.js")))
    return f"(() => {{\n{_given()}\nconst BOARD = (() => {{\n{board}\nreturn main_default;\n}})();\n{recorded}\n}})();\n"


PARTS = ("board", "table", "live")


@cache
def cell_module_text() -> str:
    """The few lines that a notebook stores with a board; they ask the kernel for the rest."""
    version = hashlib.sha256(module_text().encode()).hexdigest()[:12]
    return f"const VERSION = {json.dumps(version)}, PARTS = {json.dumps(PARTS)};\n{_text('cell.js')}"


def _text(name: str) -> str:
    return (_BUNDLES / name).read_text(encoding="utf-8")
