"""Menu items for annotations. Each item's edit is tried first, so the reason shown is the error that it would raise."""

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
from workbench.widgets.board.tensor_edits import COMPLETE_SUMS_REASON, barrier_at, exclude_axis_edit, open_edit
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
    """Menu items for the propagation of one tensor or value; `name` is the dimension's name."""
    yield heading("In propagation")
    yield from _openings(plan, report, thing, place, name)
    if thing.given.dims[place] != ():
        now, address = thing.given.priority(place), thing.address(place)
        yield rounds(f"Priority of {name}", now, lambda priority: RoundGesture(**address, priority=priority))
    yield from value_items(plan, report, thing)


def value_items(plan: Plan, report: Report, thing: GestureTarget) -> Iterator[dict[str, Any]]:
    """Menu items about all dimensions at once: partial sums, excluded axes, groups, barriers."""
    address = thing.address(0)
    yield choices("Partial sum over", [_partial(plan, report, thing, axis) for axis in plan.mesh.names], many=True)
    if not thing.given.is_closed:
        yield choices("Keep out", [_kept_out(plan, thing, axis) for axis in plan.mesh.names], many=True)
    if thing.kind == RESULT:
        return
    alike = list(_alike(plan, report, thing))
    if alike:
        ask = {"label": "Same sharding as", "value": "", "verb": "Group", "options": alike}
        yield item("Group with another value…", GroupGesture(**address), ask=ask)
    now = barrier_at(plan, thing)[1]
    passes = [option(label, BarrierGesture(**address, allows=allows), checked=allows == now) for label, allows in _PASSES]
    yield choices("Propagation barrier", passes)


def rule_items(plan: Plan, dim: str) -> list[dict[str, Any]]:
    """Menu items for the user priority of a dimension's rule, that is, the round in which it propagates."""
    if not plan.layout.rule(dim):
        return []
    return [rounds("Propagation priority", plan.layout.priority(dim), lambda priority: PrioritizeGesture(dim, priority=priority))]


def rounds(label: str, now: int, gesture: Callable[[int], Gesture]) -> dict[str, Any]:
    """Choices of a propagation round; 0 is the first."""
    named = dict.fromkeys((*PRIORITIES, now))
    return choices(label, [option(str(priority), gesture(priority), checked=priority == now) for priority in named])


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
    return option(axis, gesture, _why_not(plan, lambda: exclude_axis_edit(gesture, thing)), checked=is_out)


def _partial(plan: Plan, report: Report, thing: GestureTarget, axis: str) -> dict[str, Any]:
    is_left = axis in thing.given.unreduced
    reason = None if is_left or plan.mesh[axis] == 1 else _why_no_sum(report, thing, axis)
    return option(axis, UnreducedGesture(**thing.address(0), axis=axis, left=not is_left), reason, checked=is_left)


def _why_no_sum(report: Report, thing: GestureTarget, axis: str) -> str | None:
    """Return why the target cannot be a partial sum over an axis by this report; the partitioner decides."""
    if not thing.is_value:
        return COMPLETE_SUMS_REASON
    if thing.kind == LINE or any(sharding.unreduced for _, sharding in report.plan.layout.constraints):
        return None  # a sum of partial sums is itself a partial sum
    reduced = (
        collective
        for collective in report.collectives
        if collective.kind in ("all-reduce", "reduce-scatter") and is_named(thing.subject, collective.path)
    )
    if any(axis in map(base_axis, collective.axes) for collective in reduced):
        return None
    return f"every device has the complete value: no partial sum over {axis}"


def _why_not(plan: Plan, make: Callable[[], Edit]) -> str | None:
    try:
        make().apply(plan)
    except WorkbenchError as error:
        return error.message.replace("`", "")
    return None


def _alike(plan: Plan, report: Report, thing: GestureTarget) -> Iterator[str]:
    """Yield values of the same shape, as a group names them; for an argument only arguments."""
    values = [f"@{value.path}" for value in report.values if value.shape == thing.shape] if thing.is_value else []
    arguments = [tensor.path for tensor in plan.program.arguments if tensor.shape == thing.shape]
    others = [place for place in dict.fromkeys([*values, *arguments]) if not matches(thing.pattern, place.removeprefix("@"))]
    yield from others[:MOST_OFFERED]
