"""Menu items for annotations by hand: open and closed dimensions, priorities, excluded axes, partial sums, groups, barriers.

Each item is a gesture, and is checked by trying its edit: so the mark before and the refusal after agree.
"""

from collections.abc import Callable, Iterator
from typing import Any

from workbench.core.path_patterns import matches
from workbench.core.sharding import base_axis
from workbench.errors import WorkbenchError
from workbench.plan.edits import Edit
from workbench.plan.plan import Plan
from workbench.reports.report import Report
from workbench.widgets.board.chip_menus import choices, heading, item, option
from workbench.widgets.board.gesture_target import LINE, GestureTarget
from workbench.widgets.board.layer_folding import is_named
from workbench.widgets.board.tensor_edits import COMPLETE_SUMS_REASON, barrier_at, keep_out_edit, open_edit
from workbench.widgets.gestures.gesture import Gesture
from workbench.widgets.gestures.tensor_gestures import (
    BarrierGesture,
    GroupGesture,
    KeepOutGesture,
    OpenGesture,
    PrioritizeGesture,
    RoundGesture,
    UnreducedGesture,
)
from workbench.widgets.tabs.tensor_table import RESULT, TENSOR

PRIORITIES = (0, 1, 2, 3)
MOST_OFFERED = 40  # values to group with
_PASSES = (("both ways", ""), ("forward", "forward"), ("backward", "backward"), ("none", "none"))


def annotation_items(plan: Plan, report: Report, thing: GestureTarget, place: int, name: str) -> Iterator[dict[str, Any]]:
    """Items about how one tensor or value takes part in propagation; `name` is the name of the dimension."""
    yield heading("In propagation")
    yield from _openings(plan, report, thing, place, name)
    if thing.given.dims[place] != ():
        now, here = thing.given.priority(place), thing.address(place)
        yield rounds(f"Priority of {name}", now, lambda priority: RoundGesture(**here, priority=priority))
    yield from whole_items(plan, report, thing)


def whole_items(plan: Plan, report: Report, thing: GestureTarget) -> Iterator[dict[str, Any]]:
    """Items about all its dimensions at once: partial sums, excluded axes, groups, barriers."""
    here = thing.address(0)
    yield choices("Partial sum over", [_partial(plan, report, thing, axis) for axis in plan.mesh.names], many=True)
    if not thing.given.is_closed:
        yield choices("Keep out", [_kept_out(plan, thing, axis) for axis in plan.mesh.names], many=True)
    if thing.kind == RESULT:
        return
    alike = list(_alike(plan, report, thing))
    if alike:
        ask = {"label": "Same sharding as", "value": "", "verb": "Group", "options": alike}
        yield item("Group with another value…", GroupGesture(**here), ask=ask)
    now = barrier_at(plan, thing)[1]
    passes = [option(label, BarrierGesture(**here, allows=allows), checked=allows == now) for label, allows in _PASSES]
    yield choices("Propagation barrier", passes)


def rule_items(plan: Plan, dim: str) -> list[dict[str, Any]]:
    """Items for the user priority of a dimension's rule, that is, the round in which it propagates."""
    if not plan.layout.rule(dim):
        return []
    return [rounds("Propagation priority", plan.layout.priority(dim), lambda priority: PrioritizeGesture(dim, priority=priority))]


def rounds(label: str, now: int, gesture: Callable[[int], Gesture]) -> dict[str, Any]:
    """The rounds to choose from; 0 is the first."""
    named = dict.fromkeys((*PRIORITIES, now))
    return choices(label, [option(str(each), gesture(each), checked=each == now) for each in named])


def _openings(plan: Plan, report: Report, thing: GestureTarget, place: int, name: str) -> Iterator[dict[str, Any]]:
    axes, is_open = thing.given.dims[place], thing.given.is_open(place)
    if axes:
        label = f"No further axes on {name}" if is_open else f"Allow further axes on {name}: {'+'.join(axes)}?"
    elif thing.kind == TENSOR:
        label = f"Keep {name} whole: closed" if is_open else f"Leave {name} to propagation: ?"
    else:
        return
    gesture = OpenGesture(**thing.address(place), open=not is_open)
    yield item(label, gesture, _why_not(plan, lambda: open_edit(gesture, plan, report)))


def _kept_out(plan: Plan, thing: GestureTarget, axis: str) -> dict[str, Any]:
    is_out = axis in thing.given.replicated
    gesture = KeepOutGesture(**thing.address(0), axis=axis, out=not is_out)
    return option(axis, gesture, _why_not(plan, lambda: keep_out_edit(gesture, thing)), checked=is_out)


def _partial(plan: Plan, report: Report, thing: GestureTarget, axis: str) -> dict[str, Any]:
    is_left = axis in thing.given.unreduced
    reason = None if is_left or plan.mesh[axis] == 1 else _why_no_sum(report, thing, axis)
    return option(axis, UnreducedGesture(**thing.address(0), axis=axis, left=not is_left), reason, checked=is_left)


def _why_no_sum(report: Report, thing: GestureTarget, axis: str) -> str | None:
    """Why it cannot be a partial sum over an axis, as far as the present report shows; the partitioner decides."""
    if not thing.is_value:
        return COMPLETE_SUMS_REASON
    if thing.kind == LINE or any(sharding.unreduced for _, sharding in report.plan.layout.constraints):
        return None  # a sum of partial sums is a partial sum as well
    reduced = (each for each in report.collectives if each.kind in ("all-reduce", "reduce-scatter") and is_named(thing.subject, each.path))
    if any(axis in map(base_axis, each.axes) for each in reduced):
        return None
    return f"every device has the complete value: no partial sum over {axis}"


def _why_not(plan: Plan, make: Callable[[], Edit]) -> str | None:
    """Why an edit would be refused; empty if it would not."""
    try:
        make().apply(plan)
    except WorkbenchError as error:
        return error.message.replace("`", "")
    return None


def _alike(plan: Plan, report: Report, thing: GestureTarget) -> Iterator[str]:
    """Values of the same shape, as a group names them; for an argument, other arguments, because the values may not be computed yet."""
    values = [f"@{value.path}" for value in report.values if value.shape == thing.shape] if thing.is_value else []
    arguments = [tensor.path for tensor in plan.program.arguments if tensor.shape == thing.shape]
    others = [place for place in dict.fromkeys([*values, *arguments]) if not matches(thing.pattern, place.removeprefix("@"))]
    yield from others[:MOST_OFFERED]
