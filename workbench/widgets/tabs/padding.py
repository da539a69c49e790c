"""Padding as blocks: which dimensions do not divide, the waste in memory and arithmetic, the sizes that divide, and edits."""

from collections.abc import Iterator

from workbench.core.sharding import Sharding
from workbench.core.text_tables import group_items
from workbench.reports.padding import Padding
from workbench.reports.report import Report
from workbench.units import format_count
from workbench.widgets.tabs.blocks import Block, Column, Paint, Row, block, byte_cell, rest_text, row

MOST_ROWS = 24
MASKED = "What is padded is masked: results are right, and memory and arithmetic are spent all the same."


def padding_blocks(report: Report, paint: Paint) -> Iterator[Block]:
    """One row for each dimension of one size on the same axes, the most wasteful first; nothing where every dimension divides."""
    if not report.padding:
        return
    groups = group_items(report.padding, lambda each: (each.dim, each.size, each.axes))
    groups.sort(key=lambda group: -sum(each.wasted_bytes * each.count for each in group))
    columns = (
        Column("padded"),
        Column("parts"),
        Column("wasted", number=True, title="share of the bytes of the largest value that is padding, over all devices"),
        Column("wasted bytes", number=True, title="on one device, of all values of a step"),
        Column("wasted FLOP", number=True, title="of products, on one device and step"),
        Column("largest value"),
        Column("sizes that divide"),
        Column("what avoids it"),
    )
    rows = [_row(report, group, paint) for group in groups[:MOST_ROWS]]
    note = f"{MASKED} {rest_text(len(groups), MOST_ROWS)}".strip()
    yield block("Padded: dimensions that do not divide evenly", columns, rows, note)


def _row(report: Report, group: list[Padding], paint: Paint) -> Row:
    first = group[0]
    bytes_wasted = sum(each.wasted_bytes * each.count for each in group)
    flops = sum(each.wasted_flops * each.count for each in group)
    name = first.dim if first.dim not in ("", "_") else ""
    edits = [
        str(edit)
        for note in report.diagnostics
        if note.kind == "padding" and note.message.startswith(first.arithmetic)
        for edit in note.edits
    ]
    down, up = first.nearest
    return row(
        f"{first.dim} {first.size} {first.axes}",
        paint.sharding_cell(Sharding((first.axes,)), (f"{name}={first.size}" if name else str(first.size),)),
        {"stack": [f"{first.parts} parts of {first.part}", {"text": _slots(first), "tone": "muted"}], "title": first.arithmetic},
        f"{first.share:.0%}",
        byte_cell(bytes_wasted),
        {"text": format_count(flops), "title": f"{flops:,} FLOP"} if flops else {"text": "–", "tone": "muted"},
        {
            "stack": [
                {"path": first.path, "count": f"and {len(group) - 1} more" if len(group) > 1 else ""},
                {"text": first.source, "tone": "muted"},
            ]
        },
        {"text": f"{down:,} or {up:,}" if down else f"{up:,}", "title": first.way_out},
        {"edits": edits} if edits else {"text": "another size", "tone": "muted", "title": first.way_out},
        subject=first.path,
    )


def _slots(each: Padding) -> str:
    idle = f", {each.idle} empty" if each.idle else ""
    return f"{each.slots} slots for {each.size}{idle}"
