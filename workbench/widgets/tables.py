"""The tables under the board, one tab at a time, as JSON: columns, and rows of cells.

A cell is a text, or one of `{"text", "title", "tone"}`, `{"path", "count"}` (cut at its front if it is long),
`{"dims": [...]}` (named dimensions coloured by the axes they lie on), `{"axes": [...]}` (mesh axes), `{"share": 0..1, "text"}`
(a bar) and `{"edits": [...]}` (buttons that make an edit).
"""

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

from workbench.paths import template
from workbench.report import KINDS, Collective, Placement, Report, Value
from workbench.sharding import Sharding, base_axis
from workbench.units import format_bytes
from workbench.widgets.figures import memory_parts

MOST_ROWS = 300
MOST_VALUES = 200
Cell = Any
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    label: str
    number: bool = False


def table_state(report: Report, tab: str, search: str = "", colours: dict[str, int] | None = None) -> dict[str, Any]:
    """The blocks of one tab. `search` narrows the intermediate values, which are only computed when their tab is open."""
    paint = _Paint(colours or {})
    blocks = {
        "tensors": lambda: _tensors(report, paint),
        "communication": lambda: _communication(report, paint),
        "memory": lambda: _memory(report),
        "values": lambda: _values(report, search, paint),
        "notes": lambda: _notes(report),
    }
    open_tab = tab if tab in blocks else "tensors"
    return {"tab": open_tab, "search": search if open_tab == "values" else None, "blocks": blocks[open_tab]()}


def block(title: str, columns: tuple[Column, ...], rows: list[Row], note: str = "") -> dict[str, Any]:
    """One table."""
    return {"title": title, "columns": [{"label": each.label, "number": each.number} for each in columns], "rows": rows, "note": note}


def row(key: str, *cells: Cell) -> Row:
    return {"key": key, "cells": list(cells)}


@dataclass(frozen=True, slots=True)
class _Paint:
    """Cells in the colours of the mesh axes."""

    colours: dict[str, int]

    def axes(self, axes: tuple[str, ...]) -> Cell:
        return {"axes": [{"name": axis, "colour": self.colours.get(base_axis(axis))} for axis in axes]}

    def dims(self, names: tuple[str, ...], shape: tuple[int, ...], sharding: Sharding) -> Cell:
        entries = zip(names, shape, sharding.dims, strict=True)
        return {
            "dims": [
                {
                    "name": name or str(size),
                    "title": f"{name or 'unnamed'} = {size}, " + (f"split over {' then '.join(axes)}" if axes else "whole on every device"),
                    "colours": [self.colours.get(base_axis(axis)) for axis in axes or ()],
                }
                for name, size, axes in entries
            ]
        }


def _tensors(report: Report, paint: _Paint) -> list[dict[str, Any]]:
    mine = (Column("argument"), Column("dimensions"), Column("per device"), Column("bytes", number=True))
    columns = (*mine, Column("global shape"), Column("role"), Column("dtype"))
    alike: dict[tuple[Any, ...], list[Placement]] = {}
    for placed in report.arguments:
        tensor = placed.tensor
        kind = (template(tensor.path), tensor.shape, tensor.dtype, tensor.dims, tensor.role, placed.sharding)
        alike.setdefault(kind, []).append(placed)
    rows = [_tensor_row(group, paint) for group in alike.values()]
    return [block("", columns, rows[:MOST_ROWS], _rest(len(rows), MOST_ROWS))]


def _tensor_row(group: list[Placement], paint: _Paint) -> Row:
    first, count = group[0], len(group)
    tensor = first.tensor
    path = template(tensor.path) if count > 1 else tensor.path
    total = sum(placed.local_bytes for placed in group)
    each = f"{count} x {format_bytes(first.local_bytes)} on each device" if count > 1 else f"{total:,} bytes on each device"
    return row(
        f"{path} {tensor.shape} {first.sharding}",
        {"path": path, "count": f"×{count}" if count > 1 else "", "title": tensor.path},
        paint.dims(tensor.dims, tensor.shape, first.sharding),
        {"text": _shape(first.local_shape), "tone": "same" if first.local_shape == tensor.shape else ""},
        {"text": format_bytes(total), "title": each},
        _shape(tensor.shape),
        {"text": tensor.role.value, "tone": "muted"},
        _dtype(tensor.dtype),
    )


def _communication(report: Report, paint: _Paint) -> list[dict[str, Any]]:
    if not report.collectives:
        return [block("", (), [], "Shardy inserts no collective: no operation of the step needs another device.")]
    return [_totals(report, paint), _operations(report, paint)]


def _totals(report: Report, paint: _Paint) -> dict[str, Any]:
    """One row for each set of mesh axes, one column for each kind that occurs."""
    totals = report.by_axis_and_kind
    kinds = [kind for kind in KINDS if any(key[1] == kind for key in totals)]
    rows = []
    for axes in dict.fromkeys(axes for axes, _ in totals):
        counts = [totals.get((axes, kind), 0) for kind in kinds]
        cells = (*map(_payload, counts), format_bytes(sum(counts)))
        rows.append((sum(counts), row("+".join(axes), paint.axes(axes), *cells)))
    rows.sort(key=lambda pair: -pair[0])
    columns = (Column("mesh axes"), *(Column(kind, number=True) for kind in kinds), Column("all kinds", number=True))
    return block("Payload per device and step, by axis and kind", columns, [each for _, each in rows])


def _operations(report: Report, paint: _Paint) -> dict[str, Any]:
    columns = (
        Column("collective"),
        Column("mesh axes"),
        Column("payload", number=True),
        Column("times", number=True),
        Column("sent a step", number=True),
        Column("scope"),
        Column("line"),
    )
    alike: Counter[Collective] = Counter(report.collectives)
    ordered = sorted(alike, key=lambda each: -each.total_sent * alike[each])
    rows = [_operation_row(each, alike[each], paint) for each in ordered[:MOST_ROWS]]
    return block("Operations, most bytes first", columns, rows, _rest(len(ordered), MOST_ROWS))


def _operation_row(each: Collective, times: int, paint: _Paint) -> Row:
    return row(
        f"{each}",
        each.kind,
        paint.axes(each.axes),
        {"text": format_bytes(each.payload), "title": f"{each.payload:,} bytes on one device, one execution"},
        f"{each.count * times:,}",
        {"text": format_bytes(each.total_sent * times), "title": f"{each.total_sent * times:,} bytes leave each device in a step"},
        {"path": each.path},
        {"text": each.source, "tone": "muted"},
    )


def _memory(report: Report) -> list[dict[str, Any]]:
    columns = (Column("role"), Column("share of the peak"), Column("per device", number=True), Column("bytes", number=True))
    counts = {role.value: count for role, count in report.memory.by_role.items()}
    rows = [
        row(
            part["role"],
            part["role"],
            {"share": part["share"], "shade": part["shade"], "text": f"{part['share']:.1%}"},
            part["text"],
            {"text": f"{counts[part['role']]:,}", "tone": "muted"},
        )
        for part in memory_parts(report)
    ]
    rows.append(
        row("peak", {"text": "peak of the step", "tone": "strong"}, "", format_bytes(report.memory.peak), f"{report.memory.peak:,}")
    )
    traffic = f"One device reads and writes {format_bytes(report.traffic)} in its memory in a step."
    return [block("", columns, rows, traffic)]


def _values(report: Report, search: str, paint: _Paint) -> list[dict[str, Any]]:
    shapes = (Column("per device"), Column("global shape"))
    columns = (Column("value"), Column("dimensions"), *shapes, Column("times", number=True), Column("dtype"), Column("line"))
    words = search.lower().split()
    found = [value for value in report.values if all(word in _haystack(value) for word in words)]
    rows = [_value_row(place, value, paint) for place, value in enumerate(found[:MOST_VALUES])]
    note = _rest(len(found), MOST_VALUES, " Search to see others.") or ("" if found else f"No intermediate value matches “{search[:80]}”.")
    return [block("", columns, rows, note)]


def _haystack(value: Value) -> str:
    return f"{value.path} {value.kind} {' '.join(value.dims)} {value.source}".lower()


def _value_row(place: int, value: Value, paint: _Paint) -> Row:
    return row(
        f"{place} {value.path} {value.shape} {value.sharding}",
        {"path": value.path, "title": f"{value.kind} · {value.path}"},
        paint.dims(value.dims, value.shape, value.sharding),
        {"text": _shape(value.local_shape), "tone": "same" if value.local_shape == value.shape else ""},
        _shape(value.shape),
        f"{value.count:,}",
        _dtype(value.dtype),
        {"text": value.source, "tone": "muted"},
    )


def _notes(report: Report) -> list[dict[str, Any]]:
    if not report.diagnostics:
        return [block("", (), [], "Nothing to mind in this plan.")]
    rows = [
        row(
            f"{place} {note.subject}",
            {"text": note.kind, "tone": "warn"},
            {"text": note.message, "wrap": True},
            {"edits": [str(edit) for edit in note.edits]},
        )
        for place, note in enumerate(report.diagnostics)
    ]
    return [block("", (Column("kind"), Column("what to mind"), Column("what would mend it")), rows)]


def collectives_block(
    predicted: dict[tuple[tuple[str, ...], str], int],
    compiled: dict[tuple[tuple[str, ...], str], int],
    colours: dict[str, int],
    note: str = "",
) -> dict[str, Any]:
    """Predicted against compiled payload bytes, by mesh axes and kind."""
    paint = _Paint(colours)
    columns = (
        Column("mesh axes"),
        Column("kind"),
        Column("predicted", number=True),
        Column("compiled", number=True),
        Column("compiled ÷ predicted", number=True),
    )
    keys = sorted(dict.fromkeys((*predicted, *compiled)), key=lambda key: -max(predicted.get(key, 0), compiled.get(key, 0)))
    rows = []
    for axes, kind in keys:
        ours, theirs = predicted.get((axes, kind), 0), compiled.get((axes, kind), 0)
        ratio = (
            {"text": "equal", "tone": "good"}
            if ours == theirs
            else {"text": f"{theirs / ours:.2f}×" if ours else "not predicted", "tone": "warn"}
        )
        rows.append(row(f"{axes} {kind}", paint.axes(axes), kind, _payload(ours), _payload(theirs), ratio))
    return block("Collectives, payload per device and step", columns, rows, note)


def _dtype(name: str) -> Cell:
    """`float32` as `f32`, the way JAX prints it."""
    return {"text": re.sub(r"^(b?)(float|int|uint|complex)", lambda found: found[1] + found[2][0], name), "title": name, "tone": "muted"}


def _payload(count: int) -> Cell:
    return {"text": format_bytes(count), "title": f"{count:,} bytes"} if count else {"text": "–", "tone": "muted"}


def _shape(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) or "scalar"


def _rest(count: int, most: int, advice: str = "") -> str:
    return f"The first {most} of {count:,}.{advice}" if count > most else ""
