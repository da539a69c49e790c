"""The user's lines around the one that what is selected comes from, and what else comes from it.

Which file is read says the program: its own module, made by tracing in this installation, names it. A gesture selects a record of the
report or a line that one has, a document names neither, and no text of either becomes a path.
"""

import linecache
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from workbench.core.path_patterns import template
from workbench.propagation.source_files import source_files
from workbench.reports.report import Report

AROUND = 5  # lines on each side
MOST_LINKED = 500
MOST_CHARACTERS = 200  # of a line


def source_state(report: Report, selected: str) -> dict[str, Any] | None:
    """Ten lines around the selected path's own, or around the selected line; `None` where it has none. `linked` are the paths that come
    from a selected line."""
    if not selected:
        return None
    lines = set(_lines(report))
    is_line = selected in lines
    line = selected if is_line else _line_of(report, selected)
    if not line:
        return None
    name, _, number = line.rpartition(":")
    linked = [path for path, source in _records(report) if source == line] if is_line else []
    return {
        "line": line,
        "number": int(number),
        "lines": [
            {"number": place, "text": text[:MOST_CHARACTERS], "subject": f"{name}:{place}" if f"{name}:{place}" in lines else ""}
            for place, text in _around(report, name, int(number))
        ],
        "linked": [*dict.fromkeys(each for path in linked for each in (path, template(path)))][:MOST_LINKED],
    }


def _records(report: Report) -> Iterator[tuple[str, str]]:
    """The path and the line of each kernel, collective and operation."""
    yield from ((each.path, each.source) for each in report.kernel_costs)
    yield from ((each.path, each.source) for each in report.collectives)
    yield from ((each.path, each.source) for each in report.plan.program.operations)


def _lines(report: Report) -> Iterator[str]:
    return (source for _, source in _records(report) if source)


def _line_of(report: Report, selected: str) -> str:
    """The line of the first record of this path, else of one in this scope."""
    below = f"{selected}/"
    inside = ""
    for path, source in _records(report):
        if source and selected in (path, template(path)):
            return source
        if source and not inside and path.startswith(below):
            inside = source
    return inside


def _around(report: Report, name: str, number: int) -> Iterator[tuple[int, str]]:
    file = source_files(report.plan.program).get(name, "")
    if not (file.startswith("<") or Path(file).is_absolute()):
        return
    linecache.checkcache(file)
    text = linecache.getlines(file)
    for place in range(max(number - AROUND, 1), min(number + AROUND, len(text)) + 1):
        yield place, text[place - 1].rstrip("\r\n")
