"""Intermediate values with Shardy's shardings, repeated layers folded into one row; each can be constrained."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from workbench.core.layout import Layout
from workbench.core.path_patterns import selects
from workbench.reports.placement import Value
from workbench.reports.report import Report
from workbench.widgets.board.annotation_marks import tags_of
from workbench.widgets.board.layer_folding import fold_paths, is_named, template
from workbench.widgets.tabs.table_blocks import Block, Cell, Column, Paint, Row, block, dtype_cell, note_block, rest_text, row
from workbench.widgets.tabs.tensor_table import VALUE, argument_blocks, chips, shape_text

MOST_VALUES = 200
MOST_SELECTED = 4
_COLUMNS = (
    Column("value"),
    Column("dimensions", title="drag onto a mesh axis"),
    Column("per device"),
    Column("global shape"),
    Column("times", number=True, title="computed per step"),
    Column("dtype"),
    Column("line", title="click to annotate its values"),
)


@dataclass(frozen=True, slots=True)
class Alike:
    """Equal values of repeated layers with equal sharding."""

    first: Value
    subject: str
    label: str
    count: int


def value_blocks(report: Report, paint: Paint, search: str = "") -> list[Block]:
    """Build a table of the values that match all words of `search`, in program order."""
    groups = list(alike_values(report.values, search.lower().split()))
    rows = [_row(report.plan.layout, place, group, paint) for place, group in enumerate(groups[:MOST_VALUES])]
    note = rest_text(len(groups), MOST_VALUES, " Search to see others.") or (
        "" if groups else f"No intermediate value matches “{search[:80]}”."
    )
    return [block("", _COLUMNS, rows, note)]


def selected_blocks(report: Report, paint: Paint, selected: str) -> list[Block]:
    """Return the values and arguments of a graph box, with chips to annotate them; a hint without a selection."""
    values = [value for value in report.values if is_named(selected, value.path)] if selected else []
    layout = report.plan.layout
    selection = list(alike_values(values))[:MOST_SELECTED]
    if selection:
        rows = [_row(layout, place, group, paint) for place, group in enumerate(selection)]
        return [block("Selected", _COLUMNS, rows, "Open a chip's menu, or drop it on an axis of the board.")]
    if selected and (arguments := argument_blocks(report, paint, selected)):
        return arguments
    return [note_block("Click a box to annotate its value here: open a chip's menu, or drop it on an axis of the board.")]


def alike_values(values: Iterable[Value], words: Collection[str] = ()) -> Iterator[Alike]:
    groups: dict[object, list[Value]] = {}
    for value in values:
        if not words or all(word in _haystack(value) for word in words):
            kind = (template(value.path), value.kind, value.dtype, value.shape, value.dims, value.sharding, value.source)
            groups.setdefault(kind, []).append(value)
    for members in groups.values():
        subject, label = fold_paths(list(dict.fromkeys(value.path for value in members)))
        yield Alike(members[0], subject, label, sum(value.count for value in members))


def constraint_on(layout: Layout, path: str, rank: int, source: str = "") -> str:
    """Return the pattern of the last constraint that applies to a value; empty without one."""
    return next(
        (pattern for pattern, sharding in reversed(layout.constraints) if len(sharding.dims) == rank and selects(pattern, path, source)), ""
    )


def _haystack(value: Value) -> str:
    return f"{value.path} {value.kind} {' '.join(value.dims)} {value.source}".lower()


def _row(layout: Layout, place: int, each: Alike, paint: Paint) -> Row:
    value = each.first
    constraint = constraint_on(layout, value.path, len(value.shape), value.source)
    label, requested = (f"constraint {constraint}", dict(layout.constraints)[constraint]) if constraint else ("", None)
    return row(
        f"{place} {each.subject} {value.shape} {value.sharding}",
        {"path": each.label, "title": f"{value.kind} · {each.label}"},
        {
            **chips(VALUE, each.subject, value.dims, value.shape, value.sharding.dims, paint, label, requested),
            "tags": tags_of(layout, value.path, value.source),
        },
        {"text": shape_text(value.local_shape), "tone": "same" if value.local_shape == value.shape else ""},
        shape_text(value.shape),
        {"text": f"{each.count:,}", "why": f"value {each.subject}"},
        dtype_cell(value.dtype),
        line_cell(value.path, value.source, len(value.shape)),
        subject=each.subject,
    )


def line_cell(path: str, line: str, rank: int) -> Cell:
    """Build a source line cell, selectable in the forward pass, where a constraint may name the line."""
    return {"text": line, "tone": "muted", **({"line": line, "rank": rank} if line and selects(line, path, line) else {})}
