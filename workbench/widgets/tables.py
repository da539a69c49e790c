"""The tables and pictures under the board, one tab at a time."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from workbench.device_trace import Trace
from workbench.paths import template
from workbench.report import Placement, Report, Value
from workbench.units import format_bytes
from workbench.visualize import memory_over_step, timeline
from workbench.widgets.blocks import Block, Column, Paint, Row, block, dtype_cell, note_block, picture_block, rest_text, row
from workbench.widgets.communication import communication_blocks
from workbench.widgets.compared import compared_blocks
from workbench.widgets.evidence import Evidence
from workbench.widgets.figures import ROLES, memory_parts

MOST_ROWS = 300
MOST_VALUES = 200
MOST_ALIVE = 24


@dataclass(frozen=True, slots=True)
class Facts:
    """What the tabs tell of: a report, what a compilation and a run say of it, and the colours of the mesh axes."""

    report: Report
    evidence: Evidence | None = None
    trace: Trace | None = None
    colours: dict[str, int] = field(default_factory=dict)


def table_state(facts: Facts, tab: str, search: str = "") -> dict[str, Any]:
    """The blocks of one tab. `search` narrows the intermediate values; what an unopened tab needs is not computed."""
    paint, report = Paint(facts.colours), facts.report
    blocks: dict[str, Callable[[], list[Block]]] = {
        "tensors": lambda: _tensors(report, paint),
        "communication": lambda: communication_blocks(report, paint),
        "memory": lambda: _memory(facts),
        "timeline": lambda: _timeline(facts),
        "compared": lambda: compared_blocks(facts.evidence, paint),
        "values": lambda: _values(report, search, paint),
        "notes": lambda: _notes(report),
    }
    open_tab = tab if tab in blocks else "tensors"
    return {"tab": open_tab, "search": search if open_tab == "values" else None, "blocks": blocks[open_tab]()}


def _tensors(report: Report, paint: Paint) -> list[Block]:
    mine = (Column("argument"), Column("dimensions"), Column("per device"), Column("bytes", number=True))
    columns = (*mine, Column("global shape"), Column("role"), Column("dtype"))
    alike: dict[tuple[Any, ...], list[Placement]] = {}
    for placed in report.arguments:
        tensor = placed.tensor
        kind = (template(tensor.path), tensor.shape, tensor.dtype, tensor.dims, tensor.role, placed.sharding)
        alike.setdefault(kind, []).append(placed)
    rows = [_tensor_row(group, paint) for group in alike.values()]
    return [block("", columns, rows[:MOST_ROWS], rest_text(len(rows), MOST_ROWS))]


def _tensor_row(group: list[Placement], paint: Paint) -> Row:
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
        dtype_cell(tensor.dtype),
    )


def _memory(facts: Facts) -> list[Block]:
    """The step as a picture, what is alive at its peak, and the peak by role."""
    report, found = facts.report, facts.evidence
    compiled = found.comparison.compiled if found and not found.stale else None
    if not report.memory_curve.paths:
        return [_roles(report)]
    return [picture_block(memory_over_step(report, compiled, listed=0)), _alive(report), _roles(report)]


def _alive(report: Report) -> Block:
    alive, peak = report.alive, report.memory.peak or 1
    columns = (Column("alive at the peak"), Column("role"), Column("share of the peak"), Column("per device", number=True))
    places = {role: place for place, role in enumerate(ROLES)}
    rows = [
        row(
            f"{each.path} {each.role}",
            {"path": each.path, "count": f"×{each.count}" if each.count > 1 else ""},
            {"text": each.role.value, "tone": "muted"},
            {"share": round(min(each.bytes / peak, 1.0), 6), "shade": places[each.role], "text": f"{each.bytes / peak:.1%}"},
            {"text": format_bytes(each.bytes), "title": f"{each.bytes:,} bytes"},
        )
        for each in alive[:MOST_ALIVE]
    ]
    return block("", columns, rows, rest_text(len(alive), MOST_ALIVE))


def _roles(report: Report) -> Block:
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
    if report.memory.host:
        there = format_bytes(report.memory.host)
        traffic += f" It keeps {there} in the host's memory, and moves {format_bytes(report.host_traffic)} there and back."
    return block("By role", columns, rows, traffic)


def _timeline(facts: Facts) -> list[Block]:
    if facts.report.timeline is None and facts.trace is None:
        return [note_block("Choose hardware to see when each kernel and collective of a step would run, or run the plan here.")]
    return [picture_block(timeline(facts.report, facts.trace))]


def _values(report: Report, search: str, paint: Paint) -> list[Block]:
    shapes = (Column("per device"), Column("global shape"))
    columns = (Column("value"), Column("dimensions"), *shapes, Column("times", number=True), Column("dtype"), Column("line"))
    words = search.lower().split()
    found = [value for value in report.values if all(word in _haystack(value) for word in words)]
    rows = [_value_row(place, value, paint) for place, value in enumerate(found[:MOST_VALUES])]
    note = rest_text(len(found), MOST_VALUES, " Search to see others.") or (
        "" if found else f"No intermediate value matches “{search[:80]}”."
    )
    return [block("", columns, rows, note)]


def _haystack(value: Value) -> str:
    return f"{value.path} {value.kind} {' '.join(value.dims)} {value.source}".lower()


def _value_row(place: int, value: Value, paint: Paint) -> Row:
    return row(
        f"{place} {value.path} {value.shape} {value.sharding}",
        {"path": value.path, "title": f"{value.kind} · {value.path}"},
        paint.dims(value.dims, value.shape, value.sharding),
        {"text": _shape(value.local_shape), "tone": "same" if value.local_shape == value.shape else ""},
        _shape(value.shape),
        f"{value.count:,}",
        dtype_cell(value.dtype),
        {"text": value.source, "tone": "muted"},
    )


def _notes(report: Report) -> list[Block]:
    if not report.diagnostics:
        return [note_block("Nothing to mind in this plan.")]
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


def _shape(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) or "scalar"
