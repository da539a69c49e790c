"""Texts and JSON states for golden files: short blocks as they are, long ones as a digest, so that forty plans fit in half a megabyte.

A digest says which block changed; the block before the change is what the commit before prints.
"""

import base64
import json
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

SHOWN = 100  # characters of JSON that are written as they are
DEPTH = 2  # levels of a JSON value that have a line per entry
MOST_ENTRIES = 24  # of such a level; a longer list is one digest
MOST_LINES = 48  # of a text that are written as they are: its first paragraphs
PACKED = {"starts": "d", "seconds": "f", "shares": "f"}  # columns of floating-point numbers that a chart sends in base64
NOTHING = 1e-15  # what is left of a difference of equal seconds
_SOURCE = re.compile(r"[\w/.-]*\w\.py:\d+")
_POINTS = re.compile(r'(?<= points=")[^"]*')  # of the curves between the boxes of a graph: processors round them apart
_NUMBERED = re.compile(r"p\d{4,}")  # what Bokeh names its models: counted over the whole process


def frozen_text(text: str) -> str:
    """The first paragraphs of a text, and a digest of each other one after its first line."""
    shown, lines = [], 0
    for paragraph in _steady(text).rstrip("\n").split("\n\n"):
        rows = paragraph.split("\n")
        lines += len(rows)
        is_short = lines <= MOST_LINES or len(rows) <= 2
        shown.append(paragraph if is_short else f"{rows[0]}\n{_digest(paragraph)} of {len(rows)} lines")
    return "\n\n".join(shown)


def frozen_json(value: Any) -> str:
    """One line per block of a JSON value: its path, and the block or its digest. Numbers have six significant digits."""
    return "\n".join(_block_lines(_stable(value), "", 0))


def _block_lines(value: Any, path: str, depth: int) -> Iterator[str]:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    entries = _entries(value)
    if depth == 0 or (len(text) > SHOWN and depth < DEPTH and 0 < len(entries) <= MOST_ENTRIES):
        for name, entry in entries.items():
            yield from _block_lines(entry, f"{path}.{name}" if path else name, depth + 1)
    else:
        yield f"{path} {text}" if len(text) <= SHOWN else f"{path} {_digest(text)} of {len(text):,} characters"


def _entries(value: Any) -> dict[str, Any]:
    """The parts of an object, or of a list by number."""
    if isinstance(value, Mapping):
        return {str(name): value[name] for name in sorted(value)}
    return {str(number): entry for number, entry in enumerate(value)} if isinstance(value, list) else {}


def _stable(value: Any) -> Any:
    """The value without lines of source files and Bokeh's identifiers, and with six significant digits of each number, because the last
    ones differ between processors."""
    if isinstance(value, str):
        return "NUMBERED" if _NUMBERED.fullmatch(value) else _steady(value)
    if isinstance(value, float):
        return float(f"{value:.6g}") if abs(value) > NOTHING else 0.0
    if isinstance(value, Mapping):
        is_chart = "firsts" in value  # the columns of its spans are packed
        kept = {name: entry for name, entry in value.items() if name != "defs"}  # Bokeh's of Panel's models, where Panel was imported
        return {name: _stable(_unpacked(name, entry) if is_chart else entry) for name, entry in kept.items()}
    return [*map(_stable, value)] if isinstance(value, Sequence) else value


def _unpacked(name: str, entry: Any) -> Any:
    """The numbers of a packed column of a chart; any other entry as it is."""
    is_packed = name in PACKED and isinstance(entry, str)
    return [float(f"{value:.5g}") for value in array(PACKED[name], base64.b64decode(entry))] if is_packed else entry


def _steady(text: str) -> str:
    """The text without the lines of source files, which move with each edit of a model, and without the points of curves."""
    return _POINTS.sub("", _SOURCE.sub("SOURCE", text))


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:12]
