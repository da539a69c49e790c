"""Source lines around the selected path. Only files named by the traced program are read, never paths from a gesture."""

import linecache
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from workbench.core.path_patterns import template
from workbench.core.sharding import Sharding
from workbench.core.source_annotations import ManualRegion, SourceConstraint
from workbench.propagation.prepared_program import source_files
from workbench.reports.report import Report
from workbench.widgets.tabs.table_blocks import Block, Cell, Column, Paint, Row, block, rest_text, row

AROUND = 5  # lines on each side
MOST_LINKED = 500
MOST_CHARACTERS = 200  # of a line


def source_state(report: Report, selected: str) -> dict[str, Any] | None:
    """Return ten lines around the selection's line, `None` without one; `linked` paths come from that line."""
    if not selected:
        return None
    lines = {source for _, source in _records(report) if source}
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
        "linked": [*dict.fromkeys(linked_path for path in linked for linked_path in (path, template(path)))][:MOST_LINKED],
    }


def _records(report: Report) -> Iterator[tuple[str, str]]:
    yield from ((record.path, record.source) for record in report.kernel_costs)
    yield from ((record.path, record.source) for record in report.collectives)
    yield from ((record.path, record.source) for record in report.plan.program.operations)


def _line_of(report: Report, selected: str) -> str:
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


# Sharding annotations in the traced function: constraints, explicit types and `shard_map` regions.

MOST_ROWS = 40
MOST_SIDES = 6  # operands or results of one region
ABOUT_SOURCE = (
    "Set by the traced function: a constraint overrides the layout, an explicit type sets the sharding of its argument, and "
    "the function itself shards and communicates along the manual axes of a shard_map."
)


def source_annotation_blocks(report: Report, paint: Paint) -> Iterator[Block]:
    annotations = report.source_annotations
    if not annotations:
        return
    over = " ".join(f"{name}:{size}" for name, size in annotations.mesh)
    rows = [
        *(_region(place, annotation, paint) for place, annotation in enumerate(annotations.regions)),
        *(_constraint(place, annotation, paint) for place, annotation in enumerate(annotations.constraints)),
        *(
            row(f"type {typed.path}", "explicit type", {"path": typed.path}, paint.sharding_cell(typed.sharding), "", subject=typed.path)
            for typed in annotations.types
        ),
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
    kind = {"stack": ["shard_map", {**paint.axes(region.axes), "lead": "manual over"}]}
    ways = {"stack": [*_side("in", region.incoming, paint), *_side("out", region.outgoing, paint)]}
    return row(f"region {place} {region.path}", kind, {"path": region.path}, ways, _line(region.source), subject=region.path)


def _side(word: str, shardings: tuple[Sharding, ...], paint: Paint) -> Iterator[Cell]:
    for sharding in shardings[:MOST_SIDES]:
        cell = paint.sharding_cell(sharding)
        yield {**cell, "lead": word} if isinstance(cell, dict) else f"{word} {cell}"
    if len(shardings) > MOST_SIDES:
        yield {"text": f"{word}: {len(shardings) - MOST_SIDES} more", "tone": "muted"}


def _constraint(place: int, each: SourceConstraint, paint: Paint) -> Row:
    kind: Cell = {"stack": ["constraint", {**paint.axes(each.manual), "lead": "in a shard_map over"}]} if each.manual else "constraint"
    value = {"path": each.path, "count": f"×{each.times}" if each.times > 1 else ""}
    sharding_cell = paint.sharding_cell(each.sharding, tuple(map(str, each.shape)))
    return row(f"constraint {place} {each.path}", kind, value, sharding_cell, _line(each.source), subject=each.path)


def _line(source: str) -> Cell:
    return {"text": source, "tone": "muted"}
