"""The front end: one ES module that anywidget and Panel both host. Plain files joined here: nothing to build, nothing to fetch."""

import hashlib
import json
from functools import cache
from pathlib import Path

from workbench.widgets.glossary.glossary import glossary_state

_STATIC = Path(__file__).parent / "static"
_STYLES = (
    "style.css",
    "panels.css",
    "help.css",
    "select.css",
    "picture.css",
    "tensors.css",
    "axes.css",
    "why.css",
    "history.css",
    "replay.css",
    "recipes.css",
    "resharding.css",
    "picking.css",
    "stages.css",
    "gantt.css",
    "fleet.css",
)
_SCRIPTS = (
    *(
        "cut.js",
        "parts.js",
        "dom.js",
        "theme.js",
        "help.js",
        "tour.js",
        "cells.js",
        "board.js",
        "drag.js",
        "menus.js",
        "sort.js",
        "picture.js",
        "hardware.js",
    ),
    *(
        "select.js",
        "tensors.js",
        "axes.js",
        "why.js",
        "picking.js",
        "replay.js",
        "files.js",
        "history.js",
        "recipes.js",
        "resharding.js",
        "curves.js",
        "run.js",
        "stages.js",
        "stage_drag.js",
    ),
    *("gantt.js", "gantt_draw.js", "fleet_draw.js", "losses.js", "fleet_parts.js", "fleet.js", "main.js"),
)


@cache
def module_text() -> str:
    """The scripts in order, with the style sheets and the glossary as constants before them. `main.js` holds the only `export`."""
    style = "\n".join(map(_text, _STYLES))
    return "\n".join([f"const STYLE = {json.dumps(style)};", f"const GLOSSARY = {json.dumps(glossary_state())};", *map(_text, _SCRIPTS)])


PARTS = ("board", "table", "live")


@cache
def cell_module_text() -> str:
    """The few lines that a notebook saves with a board; they ask the kernel for the rest."""
    version = hashlib.sha256(module_text().encode()).hexdigest()[:12]
    return f"const VERSION = {json.dumps(version)}, PARTS = {json.dumps(PARTS)};\n{_text('cell.js')}"


def _text(name: str) -> str:
    return (_STATIC / name).read_text(encoding="utf-8")
