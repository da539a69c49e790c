"""The front end: one ES module that anywidget and Panel both host. Plain files joined here: nothing to build, nothing to fetch."""

import json
from functools import cache
from pathlib import Path

_STATIC = Path(__file__).parent / "static"
_STYLES = ("style.css",)
_SCRIPTS = ("dom.js", "cells.js", "board.js", "drag.js", "menus.js", "hardware.js", "run.js", "main.js")


@cache
def module_text() -> str:
    """The scripts in order, with the style sheets as a constant before them. `main.js` holds the only `export`."""
    style = "\n".join(map(_text, _STYLES))
    return "\n".join([f"const STYLE = {json.dumps(style)};", *map(_text, _SCRIPTS)])


def _text(name: str) -> str:
    return (_STATIC / name).read_text(encoding="utf-8")
