"""The front end: one ES module hosted by anywidget and Panel, bundled by `tools/bundle.py`."""

import hashlib
import json
from functools import cache
from pathlib import Path

from workbench.widgets.glossary.glossary import glossary_state

_BUNDLES = Path(__file__).parent / "static" / "bundle"


@cache
def module_text() -> str:
    """Return the board's module, preceded by the style sheets and the glossary, which `python_constants.js` reads."""
    return f"{_given()}\n{_text('board.js')}"


def _given() -> str:
    return f"const GIVEN = {json.dumps({'style': _text('board.css'), 'glossary': glossary_state()})};"


@cache
def recorded_script() -> str:
    """Return a script that shows the recording of each `.recorded-board` element, without a server (`recorded/`)."""
    board, recorded = (code[: code.rindex("export {")] for code in (_text("board.js"), _text("recorded.js")))
    return f"(() => {{\n{_given()}\nconst BOARD = (() => {{\n{board}\nreturn main_default;\n}})();\n{recorded}\n}})();\n"


PARTS = ("board", "table", "live")


@cache
def cell_module_text() -> str:
    """Return the short module stored with a board in a notebook; it loads the rest from the kernel."""
    version = hashlib.sha256(module_text().encode()).hexdigest()[:12]
    return f"const VERSION = {json.dumps(version)}, PARTS = {json.dumps(PARTS)};\n{_text('cell.js')}"


def _text(name: str) -> str:
    return (_BUNDLES / name).read_text(encoding="utf-8")
