"""Edits of one tensor: a gesture on a table chip becomes an `Override` or a `Constrain`, or removes it."""

from collections.abc import Mapping
from dataclasses import replace

from workbench.core.layout_text import group_text
from workbench.core.path_patterns import matches
from workbench.core.sharding import Sharding
from workbench.errors import LayoutError
from workbench.plan.edits import Edit
from workbench.plan.plan import Plan
from workbench.plan.propagation_edits import GroupValues, SetBarrier, UngroupValues
from workbench.plan.sharding_legality import AxisTwice, Fault, sharding_faults
from workbench.reports.report import Report
from workbench.widgets.board.annotation_marks import is_at
from workbench.widgets.board.drop_legality import dropped_axes
from workbench.widgets.board.gesture_target import GestureTarget, resolve_target
from workbench.widgets.gestures import tensor_gestures as gestures
from workbench.widgets.gestures.gesture import EditMaker, Kind, edits_of, means
from workbench.widgets.tabs.tensor_table import TENSOR


def _shard_one_tensor(gesture: gestures.OwnGesture, plan: Plan, report: Report) -> Edit:
    target = resolve_target(gesture, plan, report)
    place = place_of(gesture, target)
    axes = dropped_axes(target.axes[place], gesture.source or "", gesture.target, add=gesture.add)
    return target.edit(target.with_dim(place, axes))


def _replicate_one_tensor(gesture: gestures.OwnWholeGesture, plan: Plan, report: Report) -> Edit:
    target = resolve_target(gesture, plan, report)
    return target.edit(Sharding.whole(len(target.dims)))


def _open_dim(gesture: gestures.OpenDimGesture, plan: Plan, report: Report) -> Edit:
    """Leave a dimension to propagation; a value's constraint is removed with the last dimension that it constrains."""
    target = resolve_target(gesture, plan, report)
    return target.edit(none_if_empty(target, target.with_dim(place_of(gesture, target), None)))


def none_if_empty(target: GestureTarget, sharding: Sharding) -> Sharding | None:
    """Return `None` for an empty constraint, or an empty override of a result."""
    is_empty = sharding == Sharding((None,) * len(sharding.dims))
    return None if target.kind != TENSOR and target.own and is_empty else sharding


def _clear_override(gesture: gestures.ByRulesGesture, plan: Plan, report: Report) -> Edit:
    target = resolve_target(gesture, plan, report)
    if not target.own:
        by = "the rules" if target.kind == TENSOR else "propagation"
        raise LayoutError(f"`{target.subject}` is already sharded by {by}.", ["choose “only this tensor” and drop one of its dimensions"])
    return target.edit(None)


def drop_error(target: GestureTarget, mesh: Mapping[str, int], place: int, axes: tuple[str, ...]) -> str | None:
    """Return why a tensor may not be sharded this way; `None` if it may. Values may be uneven: XLA pads them."""
    faults = [fault for fault in sharding_faults(target.shape, target.dims_with(place, axes), mesh) if place in _places(fault)]
    twice = [(min(_places(fault) - {place}), axes.index(fault.axis), fault.axis) for fault in faults if isinstance(fault, AxisTwice)]
    if twice:  # an axis used by another dimension is reported first, as by the edit
        other, _, axis = min(twice)
        return f"{target.dims[other] or target.shape[other]} is on {axis}"
    return str(faults[0]) if faults and not target.is_value else None


def _places(fault: Fault) -> set[int]:
    return {fault.place, fault.earlier} if isinstance(fault, AxisTwice) else {fault.place}


def place_of(gesture: gestures.TensorGesture, target: GestureTarget) -> int:
    place = gesture.place
    if place is None or not 0 <= place < len(target.dims):
        raise LayoutError(f"`{target.subject}` has no dimension number {str(place)[:20]}.", ["reload the page"])
    return place


TENSOR_EDITS: dict[Kind, EditMaker] = edits_of(
    means(gestures.OwnGesture, _shard_one_tensor),
    means(gestures.OwnWholeGesture, _replicate_one_tensor),
    means(gestures.OpenDimGesture, _open_dim),
    means(gestures.ByRulesGesture, _clear_override),
)


# Annotations other than placements: from a gesture on a tensor or value to an edit.

COMPLETE_SUMS_REASON = "arguments and results of a step are complete sums"


def barrier_at(plan: Plan, target: GestureTarget) -> tuple[str, str]:
    """Return the name and directions of the barrier at a target; without one the target's name and `""`."""
    return next((barrier for barrier in plan.layout.barriers if is_at(barrier[:1], target.path, target.line)), (target.place, ""))


def open_edit(gesture: gestures.OpenGesture, plan: Plan, report: Report) -> Edit:
    target = resolve_target(gesture, plan, report)
    return target.edit(_set_open(target, place_of(gesture, target), is_open=gesture.open))


def exclude_axis_edit(gesture: gestures.KeepOutGesture, target: GestureTarget) -> Edit:
    others = tuple(axis for axis in target.given.replicated if axis != gesture.axis)
    replicated = (*others, gesture.axis) if gesture.out else others
    return target.edit(none_if_empty(target, replace(target.given, replicated=replicated)))


def _set_priority(gesture: gestures.RoundGesture, plan: Plan, report: Report) -> Edit:
    target = resolve_target(gesture, plan, report)
    return target.edit(_with_priority(target.given, place_of(gesture, target), gesture.priority))


def _group(gesture: gestures.GroupGesture, plan: Plan, report: Report) -> Edit:
    return GroupValues((resolve_target(gesture, plan, report).place, _other_place(gesture.name, plan)))


def _barrier(gesture: gestures.BarrierGesture, plan: Plan, report: Report) -> Edit:
    return SetBarrier(barrier_at(plan, resolve_target(gesture, plan, report))[0], gesture.allows or None)


def _ungroup(gesture: gestures.UngroupGesture, plan: Plan, _report: Report) -> Edit:
    group = next((places for places in plan.layout.groups if group_text(places) == gesture.group), None)
    if group is None:
        raise LayoutError(f"`{gesture.group[:80]}` no longer exists.", ["see the current layout"])
    return UngroupValues(group)


def _set_open(target: GestureTarget, place: int, *, is_open: bool) -> Sharding | None:
    """Open one dimension to further axes, or close it; without axes it is left to propagation, or replicated."""
    axes, requested = target.given.dims[place], target.given
    if not axes:
        return none_if_empty(target, requested.with_dim(place, None if is_open else ()))
    flags = requested.open or (False,) * len(requested.dims)
    return replace(requested, open=(*flags[:place], is_open, *flags[place + 1 :]))


def _with_priority(given: Sharding, place: int, priority: int) -> Sharding:
    now = given.priorities or (0,) * len(given.dims)
    return replace(given, priorities=(*now[:place], priority, *now[place + 1 :]))


def _set_unreduced(gesture: gestures.UnreducedGesture, plan: Plan, report: Report) -> Edit:
    """Leave the sum over an axis unreduced, or complete it; open dimensions are closed, else XLA gathers them."""
    target, axis = resolve_target(gesture, plan, report), gesture.axis
    if not target.is_value:
        raise LayoutError(
            f"`{target.subject}` cannot be a partial sum over `{axis}`: {COMPLETE_SUMS_REASON}.",
            ["set the partial sum on an intermediate value, in Values", "split one of its dimensions over the axis"],
        )
    others = tuple(other for other in target.given.unreduced if other != axis)
    if not gesture.left:
        return target.edit(none_if_empty(target, replace(target.given, unreduced=others)))
    dims = tuple(now if requested is None else requested for requested, now in zip(target.given.dims, target.axes, strict=True))
    place = next((place for place, axes in enumerate(dims) if axis in axes), None)
    if place is not None:
        name = target.dim_name(place)
        raise LayoutError(
            f"`{target.subject}` has `{name}` on mesh axis `{axis}`: each device there holds a shard, not a partial sum.",
            [f"leave `{name}` whole first", "choose an axis that shards none of its dimensions"],
        )
    replicated = tuple(other for other in target.given.replicated if other != axis)
    return target.edit(Sharding(dims, replicated=replicated, unreduced=(*others, axis)))


def _other_place(name: str, plan: Plan) -> str:
    name = name.strip()
    is_argument = any(matches(name, tensor.path) for tensor in plan.program.arguments)
    return name if name.startswith("@") or is_argument or not name else f"@{name}"


ANNOTATION_EDITS: dict[Kind, EditMaker] = edits_of(
    means(gestures.OpenGesture, open_edit),
    means(gestures.RoundGesture, _set_priority),
    means(gestures.KeepOutGesture, lambda gesture, plan, report: exclude_axis_edit(gesture, resolve_target(gesture, plan, report))),
    means(gestures.UnreducedGesture, _set_unreduced),
    means(gestures.GroupGesture, _group),
    means(gestures.BarrierGesture, _barrier),
    means(gestures.UngroupGesture, _ungroup),
    means(gestures.UnbarGesture, lambda gesture, _plan, _report: SetBarrier(gesture.at, None)),
)
