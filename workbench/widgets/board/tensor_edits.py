"""Edits of one tensor: from a gesture on a chip of the tables to an `Override` or a `Constrain`, and back to the rules."""

from collections.abc import Mapping

from workbench.core.sharding import Sharding
from workbench.errors import LayoutError
from workbench.plan.edits import Edit
from workbench.plan.plan import Plan
from workbench.plan.sharding_legality import AxisTwice, Fault, sharding_faults
from workbench.reports.report import Report
from workbench.widgets.board.drop_legality import dropped_axes
from workbench.widgets.board.gesture_target import GestureTarget, resolve_target
from workbench.widgets.gestures.gesture_handlers import EditMaker, Kind, means
from workbench.widgets.gestures.one_tensor import ByRulesGesture, OpenDimGesture, OwnGesture, OwnWholeGesture, TensorGesture
from workbench.widgets.tabs.tensors import TENSOR


def _shard_one_tensor(gesture: OwnGesture, plan: Plan, report: Report) -> Edit:
    """A dimension of one tensor dropped on an axis: for that tensor alone."""
    target = resolve_target(gesture, plan, report)
    place = place_of(gesture, target)
    axes = dropped_axes(target.axes[place], gesture.source or "", gesture.target, add=gesture.add)
    return target.edit(target.with_dim(place, axes))


def _replicate_one_tensor(gesture: OwnWholeGesture, plan: Plan, report: Report) -> Edit:
    """Explicitly replicated on every device."""
    target = resolve_target(gesture, plan, report)
    return target.edit(Sharding.whole(len(target.dims)))


def _open_dim(gesture: OpenDimGesture, plan: Plan, report: Report) -> Edit:
    """A dimension left to propagation; the constraint of a value is removed with the last dimension that it constrains."""
    target = resolve_target(gesture, plan, report)
    return target.edit(unless_empty(target, target.with_dim(place_of(gesture, target), None)))


def unless_empty(target: GestureTarget, sharding: Sharding) -> Sharding | None:
    """`None` for a constraint, or the override of a result, that asks for nothing."""
    says_nothing = sharding == Sharding((None,) * len(sharding.dims))
    return None if target.kind != TENSOR and target.own and says_nothing else sharding


def _clear_override(gesture: ByRulesGesture, plan: Plan, report: Report) -> Edit:
    """Leave it to the rules or propagation."""
    target = resolve_target(gesture, plan, report)
    if not target.own:
        by = "the rules" if target.kind == TENSOR else "propagation"
        raise LayoutError(f"`{target.subject}` is placed by {by} already.", ["drop one of its dimensions with “only this tensor” chosen"])
    return target.edit(None)


def drop_error(target: GestureTarget, mesh: Mapping[str, int], place: int, axes: tuple[str, ...]) -> str | None:
    """Why one tensor may not be sharded so, short enough for a drop zone; `None` if it may. A value may be uneven: XLA pads it."""
    faults = [each for each in sharding_faults(target.shape, target.dims_with(place, axes), mesh) if place in _places(each)]
    twice = [(min(_places(each) - {place}), axes.index(each.axis), each.axis) for each in faults if isinstance(each, AxisTwice)]
    if twice:  # an axis that another dimension has is reported first, as by the edit
        other, _, axis = min(twice)
        return f"{target.dims[other] or target.shape[other]} is on {axis}"
    return str(faults[0]) if faults and not target.is_value else None


def _places(fault: Fault) -> set[int]:
    """The dimensions an error is about."""
    return {fault.place, fault.earlier} if isinstance(fault, AxisTwice) else {fault.place}


def place_of(gesture: TensorGesture, target: GestureTarget) -> int:
    """Which dimension the gesture names."""
    place = gesture.place
    if place is None or not 0 <= place < len(target.dims):
        raise LayoutError(f"`{target.subject}` has no dimension number {str(place)[:20]}.", ["reload the page"])
    return place


TENSOR_EDITS: dict[Kind, EditMaker] = dict(
    [
        means(OwnGesture, _shard_one_tensor),
        means(OwnWholeGesture, _replicate_one_tensor),
        means(OpenDimGesture, _open_dim),
        means(ByRulesGesture, _clear_override),
    ]
)
