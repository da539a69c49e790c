"""Two plans side by side, as blocks: which decisions differ, in the colours of the mesh axes, and what that costs or saves."""

from workbench.analysis.plan_diff import Change, FigureChange, PlanDiff, PlanSetting, TrafficChange, decided_text, delta_text, figure_text
from workbench.core.sharding import Sharding, base_axis
from workbench.widgets.board.board_state import axis_colours
from workbench.widgets.tabs.blocks import Block, Cell, Column, Paint, Row, block, byte_cell, note_block, rest_text, row

MOST_ROWS = 40


def diff_blocks(diff: PlanDiff) -> list[Block]:
    """Changes, figures, traffic, placements; blocks without rows are left out."""
    if not diff.changes:
        return [note_block("The two plans decide everything alike."), _figures(diff)]
    paint = Paint(diff_colours(diff))
    blocks = [_changes(diff, paint), _figures(diff), _traffic(diff, paint), _placements(diff, paint)]
    return [each for each in blocks if each["rows"]]


def diff_colours(diff: PlanDiff) -> dict[str, int]:
    """The axes of the second plan in its colours; one that only the first plan has keeps the colour it has there."""
    return {**axis_colours(diff.before.plan), **axis_colours(diff.after.plan)}


def _changes(diff: PlanDiff, paint: Paint) -> Block:
    columns = (Column("changed"), Column(""), Column("A"), Column(""), Column("B"))
    rows = [_change_row(each, paint) for each in diff.changes[:MOST_ROWS]]
    return block("", columns, rows, rest_text(len(diff.changes), MOST_ROWS))


def _change_row(change: Change, paint: Paint) -> Row:
    is_axis = change.kind == "mesh axis"
    subject: Cell = paint.axes((change.subject,)) if is_axis else {"text": change.subject, "tone": "strong"}
    sides = [_decision_cell(change.kind, each, paint) for each in (change.before, change.after)]
    arrow = {"text": "→", "tone": "muted"}
    return row(f"{change.kind} {change.subject}", {"text": change.kind, "tone": "muted"}, subject, sides[0], arrow, sides[1])


def _decision_cell(kind: str, decision: PlanSetting, paint: Paint) -> Cell:
    if decision is None:
        return {"text": decided_text(kind, None), "tone": "muted"}
    if isinstance(decision, tuple):
        return paint.axes(decision)
    return _sharding(decision, paint) if isinstance(decision, Sharding) else decided_text(kind, decision)


def _sharding(sharding: Sharding, paint: Paint, names: tuple[str, ...] = ()) -> Cell:
    """A tag per dimension, in the colours of the axes it is sharded over: with its name if known, else with the axes; `?` is open."""
    tags = [
        {
            "name": names[place] if place < len(names) else "?" if dim is None else "+".join(dim) or "-",
            "title": "left to propagation" if dim is None else f"split over {' then '.join(dim)}" if dim else "whole on every device",
            "colours": [paint.colours.get(base_axis(axis)) for axis in dim or ()],
        }
        for place, dim in enumerate(sharding.dims)
    ]
    return {"dims": tags} if tags else "scalar"


def _figures(diff: PlanDiff) -> Block:
    columns = (Column("per device and step"), Column("A", number=True), Column("B", number=True), Column("B is", number=True), Column(""))
    rows = [
        row(
            each.name,
            {"text": each.name, "tone": "strong" if each.name in ("peak memory", "sent", "step") else ""},
            _number(each.unit, each.before),
            _number(each.unit, each.after),
            {"text": delta_text(each), "tone": _tone(each.delta)},
            _pair_cell(each.before or 0, each.after or 0),
        )
        for each in diff.figures
        if each.before or each.after
    ]
    return block("", columns, rows)


def _number(unit: str, value: float | None) -> Cell:
    if value is None:
        return {"text": "–", "tone": "muted"}
    return {"text": figure_text(unit, value), "title": f"{value:,.0f} {unit}" if unit != "seconds" else f"{value:.3e} s"}


def _traffic(diff: PlanDiff, paint: Paint) -> Block:
    sides = (Column("payload of A", number=True), Column("of B", number=True), Column("B is", number=True))
    columns = (Column("mesh axes"), Column("collective"), *sides, Column(""))
    rows = [_traffic_row(each, paint) for each in diff.traffic if each.delta]
    return block("Payload per device and step that changed", columns, rows[:MOST_ROWS], rest_text(len(rows), MOST_ROWS))


def _traffic_row(each: TrafficChange, paint: Paint) -> Row:
    change = FigureChange("", "bytes", each.before, each.after)
    return row(
        f"{each.axes} {each.kind}",
        paint.axes(each.axes),
        each.kind,
        byte_cell(each.before),
        byte_cell(each.after),
        {"text": delta_text(change), "tone": _tone(each.delta)},
        _pair_cell(each.before, each.after),
    )


def _placements(diff: PlanDiff, paint: Paint) -> Block:
    columns = (
        Column("argument sharded otherwise"),
        Column("A"),
        Column("B"),
        Column("bytes of A", number=True),
        Column("of B", number=True),
    )
    rows = [
        row(
            f"{each.path} {each.before} {each.after}",
            {"path": each.path, "count": f"×{each.tensors}" if each.tensors > 1 else ""},
            _sharding(each.before, paint, each.dims) if each.before else {"text": "not there", "tone": "muted"},
            _sharding(each.after, paint, each.dims) if each.after else {"text": "not there", "tone": "muted"},
            byte_cell(each.bytes_before),
            byte_cell(each.bytes_after),
        )
        for each in diff.placements[:MOST_ROWS]
    ]
    return block("", columns, rows, rest_text(len(diff.placements), MOST_ROWS))


def _tone(delta: float) -> str:
    """The tone of a change: less is better for everything counted here."""
    return "muted" if not delta else "good" if delta < 0 else "bad"


def _pair_cell(before: float, after: float) -> Cell:
    """Two bars, one under the other, on one scale."""
    most = max(before, after) or 1
    return {"pair": [round(before / most, 4), round(after / most, 4)], "tone": _tone(after - before)}
