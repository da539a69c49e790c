"""The user's lines around the one that what is selected comes from, and what else comes from it.

Which file is read says the program: its own module, made by tracing in this installation, names it. A gesture selects a record of the
report or a line that one has, a document names neither, and no text of either becomes a path.
"""

import linecache
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from workbench.core.path_patterns import template
from workbench.core.sharding import Sharding
from workbench.core.source_annotations import ManualRegion, SourceConstraint, SourceType
from workbench.propagation.prepared_program import source_files
from workbench.reports.report import Report
from workbench.widgets.tabs.table_blocks import Block, Cell, Column, Paint, Row, block, rest_text, row

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


# The traced function's own sharding annotations, as blocks: its constraints, explicit types and `shard_map` regions.

MOST_ROWS = 40
MOST_SIDES = 6  # operands or results of one region
ABOUT_SOURCE = (
    "Set by the traced function: a constraint overrides the layout, an explicit type sets the sharding of its argument, and "
    "the function itself shards and communicates along the manual axes of a shard_map."
)


def source_annotation_blocks(report: Report, paint: Paint) -> Iterator[Block]:
    """One block, or none where the function has no annotations."""
    annotations = report.source_annotations
    if not annotations:
        return
    over = " ".join(f"{name}:{size}" for name, size in annotations.mesh)
    rows = [
        *(_region(place, each, paint) for place, each in enumerate(annotations.regions)),
        *(_constraint(place, each, paint) for place, each in enumerate(annotations.constraints)),
        *(_type(each, paint) for each in annotations.types),
    ]
    columns = (
        Column("of the function"),
        Column("where"),
        Column("sharding", title="the sharding of its dimensions, in order"),
        Column("line"),
    )
    title = f"Sharded by the function itself{f', over {over}' if over else ''}"
    yield block(title, columns, rows[:MOST_ROWS], f"{ABOUT_SOURCE} {rest_text(len(rows), MOST_ROWS)}".strip())


def _region(place: int, region: ManualRegion, paint: Paint) -> Row:
    what = {"stack": ["shard_map", {**paint.axes(region.axes), "lead": "manual over"}]}
    ways = {"stack": [*_side("in", region.incoming, paint), *_side("out", region.outgoing, paint)]}
    return row(f"region {place} {region.path}", what, {"path": region.path}, ways, _line(region.source), subject=region.path)


def _side(word: str, shardings: tuple[Sharding, ...], paint: Paint) -> Iterator[Cell]:
    for sharding in shardings[:MOST_SIDES]:
        lies = paint.sharding_cell(sharding)
        yield {**lies, "lead": word} if isinstance(lies, dict) else f"{word} {lies}"
    if len(shardings) > MOST_SIDES:
        yield {"text": f"{word}: {len(shardings) - MOST_SIDES} more", "tone": "muted"}


def _constraint(place: int, each: SourceConstraint, paint: Paint) -> Row:
    what: Cell = {"stack": ["constraint", {**paint.axes(each.manual), "lead": "in a shard_map over"}]} if each.manual else "constraint"
    value = {"path": each.path, "count": f"×{each.times}" if each.times > 1 else ""}
    lies = paint.sharding_cell(each.sharding, tuple(map(str, each.shape)))
    return row(f"constraint {place} {each.path}", what, value, lies, _line(each.source), subject=each.path)


def _type(each: SourceType, paint: Paint) -> Row:
    return row(f"type {each.path}", "explicit type", {"path": each.path}, paint.sharding_cell(each.sharding), "", subject=each.path)


def _line(source: str) -> Cell:
    return {"text": source, "tone": "muted"}
