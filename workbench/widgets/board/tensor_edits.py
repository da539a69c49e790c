"""Edits of one tensor: from a gesture on a chip of the tables to an `Override` or a `Constrain`, and back to the rules."""

from collections.abc import Mapping

from workbench.core.sharding import Sharding
from workbench.errors import LayoutError
from workbench.plan.edits import Edit
from workbench.plan.plan import Plan
from workbench.plan.sharding_faults import AxisTwice, Fault, sharding_faults
from workbench.reports.report import Report
from workbench.widgets.board.drops import dropped_axes
from workbench.widgets.board.gesture_target import GestureTarget, resolve_target
from workbench.widgets.gestures.one_tensor import ByRulesGesture, OpenDimGesture, OwnGesture, OwnWholeGesture, TensorGesture
from workbench.widgets.gestures.table import EditMaker, Kind, means
from workbench.widgets.tabs.tensors import TENSOR


def _own(gesture: OwnGesture, plan: Plan, report: Report) -> Edit:
    """A dimension of one tensor dropped on an axis: for that tensor alone."""
    thing = resolve_target(gesture, plan, report)
    place = place_of(gesture, thing)
    axes = dropped_axes(thing.axes[place], gesture.source or "", gesture.target, add=gesture.add)
    return thing.edit(thing.with_dim(place, axes))


def _own_whole(gesture: OwnWholeGesture, plan: Plan, report: Report) -> Edit:
    """Explicitly replicated on every device."""
    thing = resolve_target(gesture, plan, report)
    return thing.edit(Sharding.whole(len(thing.dims)))


def _open_dim(gesture: OpenDimGesture, plan: Plan, report: Report) -> Edit:
    """A dimension left to propagation; the constraint of a value is removed with the last dimension that it constrains."""
    thing = resolve_target(gesture, plan, report)
    return thing.edit(unless_empty(thing, thing.with_dim(place_of(gesture, thing), None)))


def unless_empty(thing: GestureTarget, sharding: Sharding) -> Sharding | None:
    """`None` for a constraint, or the override of a result, that asks for nothing."""
    says_nothing = sharding == Sharding((None,) * len(sharding.dims))
    return None if thing.kind != TENSOR and thing.own and says_nothing else sharding


def _by_rules(gesture: ByRulesGesture, plan: Plan, report: Report) -> Edit:
    """Leave it to the rules or propagation."""
    thing = resolve_target(gesture, plan, report)
    if not thing.own:
        by = "the rules" if thing.kind == TENSOR else "propagation"
        raise LayoutError(f"`{thing.subject}` is placed by {by} already.", ["drop one of its dimensions with “only this tensor” chosen"])
    return thing.edit(None)


def drop_error(thing: GestureTarget, mesh: Mapping[str, int], place: int, axes: tuple[str, ...]) -> str | None:
    """Why one tensor may not be sharded so, short enough for a drop zone; `None` if it may. A value may be uneven: XLA pads it."""
    faults = [each for each in sharding_faults(thing.shape, thing.dims_with(place, axes), mesh) if place in _places(each)]
    twice = [(min(_places(each) - {place}), axes.index(each.axis), each.axis) for each in faults if isinstance(each, AxisTwice)]
    if twice:  # an axis that another dimension has is reported first, as by the edit
        other, _, axis = min(twice)
        return f"{thing.dims[other] or thing.shape[other]} is on {axis}"
    return str(faults[0]) if faults and not thing.is_value else None


def _places(fault: Fault) -> set[int]:
    """The dimensions an error is about."""
    return {fault.place, fault.earlier} if isinstance(fault, AxisTwice) else {fault.place}


def place_of(gesture: TensorGesture, thing: GestureTarget) -> int:
    """Which dimension the gesture names."""
    place = gesture.place
    if place is None or not 0 <= place < len(thing.dims):
        raise LayoutError(f"`{thing.subject}` has no dimension number {str(place)[:20]}.", ["reload the page"])
    return place


TENSOR_EDITS: dict[Kind, EditMaker] = dict(
    [
        means(OwnGesture, _own),
        means(OwnWholeGesture, _own_whole),
        means(OpenDimGesture, _open_dim),
        means(ByRulesGesture, _by_rules),
    ]
)
