"""The front end: one ES module that anywidget and Panel both host. Plain files joined here: nothing to build, nothing to fetch."""

import json
from functools import cache
from pathlib import Path

from workbench.widgets.glossary import glossary_state

_STATIC = Path(__file__).parent / "static"
_STYLES = ("style.css", "panels.css", "help.css", "select.css", "tensors.css", "axes.css", "why.css", "history.css")
_SCRIPTS = ("dom.js", "theme.js", "help.js", "tour.js", "cells.js", "board.js", "drag.js", "menus.js", "hardware.js", "select.js", "tensors.js", "axes.js", "why.js", "files.js", "history.js", "curves.js", "run.js", "main.js")


@cache
def module_text() -> str:
    """The scripts in order, with the style sheets and the glossary as constants before them. `main.js` holds the only `export`."""
    style = "\n".join(map(_text, _STYLES))
    return "\n".join([f"const STYLE = {json.dumps(style)};", f"const GLOSSARY = {json.dumps(glossary_state())};", *map(_text, _SCRIPTS)])


def _text(name: str) -> str:
    return (_STATIC / name).read_text(encoding="utf-8")
