"""The traced function's own sharding annotations, as blocks: its constraints, explicit types and `shard_map` regions."""

from collections.abc import Iterator

from workbench.core.sharding import Sharding
from workbench.core.source_annotations import ManualRegion, SourceConstraint, SourceType
from workbench.reports.report import Report
from workbench.widgets.tabs.blocks import Block, Cell, Column, Paint, Row, block, rest_text, row

MOST_ROWS = 40
MOST_SIDES = 6  # operands or results of one region
ABOUT_SOURCE = (
    "The function itself sets this: a constraint holds whatever the layout says, an explicit type asks for a sharding of its argument, and "
    "along the manual axes of a shard_map the function does its own sharding and its own communication."
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
    title = f"What the function itself lays out{f', over {over}' if over else ''}"
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
