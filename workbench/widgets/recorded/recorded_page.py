"""A recording as HTML: an element for a page of its own or of a documentation site, with one script for all of them."""

import base64
import gzip
import json
import os
from collections.abc import Iterable
from html import escape

from workbench.widgets.front_end import recorded_script
from workbench.widgets.recorded.record_board import BoardRecording

MOST_BYTES = 300 << 10
"""Of one recording as it is sent: a page should be there within a second."""


MOVES_VARIABLE = "WORKBENCH_RECORD_MOVES"
"""The environment variable that has the boards of a notebook recorded, so many drops deep: a documentation site's build sets it."""


def recorded_moves() -> int:
    """How many drops deep the boards of a notebook are recorded; 0 where a kernel answers them."""
    found = os.environ.get(MOVES_VARIABLE, "")
    return int(found) if found.isdecimal() and len(found) < 2 else 0


def pack(recording: BoardRecording) -> str:
    """The recording as text: JSON, gzipped, in base64. The same recording gives the same text."""
    text = json.dumps(recording.record(), separators=(",", ":"), ensure_ascii=False)
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def recorded_element(recording: BoardRecording, ways: Iterable[str] = ()) -> str:
    """The element that `recorded_script` fills; `ways` are said where something is asked that was not recorded."""
    said = escape("|".join(ways), quote=True)
    note = "<noscript>This board needs JavaScript.</noscript>"
    return f'<div class="recorded-board" data-ways="{said}">{note}<script type="text/plain">{pack(recording)}</script></div>'


def recorded_page(recording: BoardRecording, title: str, ways: Iterable[str] = ()) -> str:
    """A page of its own, which opens from a file and fetches nothing."""
    script = recorded_script().replace("</script", "<\\/script")
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>body{{margin:12px}}</style>\n<body>{recorded_element(recording, ways)}\n"
        f"<script>{script}</script></body></html>\n"
    )
