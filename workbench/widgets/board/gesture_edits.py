"""The table from gestures to edits. The plan decides whether an edit is legal."""

import re
from collections.abc import Iterator
from itertools import chain, islice
from math import gcd, prod

from workbench.errors import DimensionError, LayoutError, MeshError, WorkbenchError, unknown_name
from workbench.hardware.axis_assignment_text import parse_axis_assignment
from workbench.plan import edits
from workbench.plan.mesh_edits import AddAxis, RemoveAxis, RenameAxis, ReorderAxes, ResizeAxis
from workbench.plan.plan import Plan
from workbench.plan.propagation_edits import Prioritize
from workbench.reports.report import Report
from workbench.units import divisors
from workbench.widgets.board.drop_legality import dropped_axes, rule_without_effect
from workbench.widgets.board.hardware_picker import hardware_of
from workbench.widgets.board.recipes_panel import recipe_edit
from workbench.widgets.board.tensor_edits import ANNOTATION_EDITS, TENSOR_EDITS
from workbench.widgets.board.traced_as_picker import traced_as_edit
from workbench.widgets.gestures import setup_gestures
from workbench.widgets.gestures.gesture import EditMaker, Gesture, Kind, Message, edits_of, means, whole_number
from workbench.widgets.gestures.gesture_codec import read_gesture
from workbench.widgets.gestures.tensor_gestures import DropGesture, MajorGesture, PrioritizeGesture, RenameDimGesture, WholeGesture
from workbench.widgets.pipeline.stage_edits import STAGE_EDITS
from workbench.widgets.tabs.resharding_tab import list_tried_edits

_DIMENSION = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,63}")


def edit_of(gesture: Gesture, plan: Plan, report: Report) -> edits.Edit:
    """Return the edit of a gesture; raises a `WorkbenchError` if the gesture is invalid or stands for no edit."""
    if type(gesture) not in EDITS:
        raise LayoutError(*unknown_name("gesture", gesture.verb, dict.fromkeys(kind.verb for kind in EDITS)))
    return EDITS[type(gesture)](gesture, plan, report)


def changes_nothing(edit: edits.Edit, plan: Plan) -> bool:
    """Whether an edit leaves the plan as it is."""
    match edit:
        case edits.ShardDim():
            return edit.axes == plan.layout.rule(edit.dim)
        case ResizeAxis():
            return (edit.axis, edit.size) in plan.mesh.axes
        case edits.SetHardware():
            return edit.hardware == plan.hardware
        case edits.SetAxisAssignment():
            return edit.axis_assignment == plan.axis_assignment
        case edits.SetPipeline():
            return edit.pipeline == plan.pipeline
        case edits.SetRemat():
            return edit.remat == plan.program.remat
        case edits.SetPrecision():
            return edit.precision == plan.program.precision
        case edits.SetOffload():
            return edit.offload == plan.program.offload
        case edits.Override() | edits.Constrain():
            return edit.layout_after(plan.layout) == plan.layout
    return False


MOST_OTHERS = 4  # edits that a refusal offers


def other_drops(message: Message, plan: Plan) -> tuple[edits.Edit, ...]:
    """Suggest edits close to a refused drop: another axis size, no conflicting dimension, another axis."""
    try:
        gesture = read_gesture(message)
    except WorkbenchError:
        return ()
    if not isinstance(gesture, DropGesture) or gesture.dim not in plan.program.dims:
        return ()
    legal = (edit for edit in _near_drops(gesture, plan) if _is_legal(edit, plan))
    return tuple(islice(legal, MOST_OTHERS))


def _near_drops(gesture: DropGesture, plan: Plan) -> Iterator[edits.Edit]:
    dim, target = gesture.dim, gesture.target
    axes = dropped_axes(plan.layout.rule(dim), gesture.source, target, add=gesture.add)
    drop = edits.ShardDim(dim, axes)
    if target in plan.mesh:
        parts = prod(plan.mesh[axis] for axis in axes if axis in plan.mesh and axis != target)
        whole = gcd(*plan.program.dims[dim])
        even = [size for size in divisors(whole) if size > 1 and whole % (size * parts) == 0]
        sizes = sorted(even, key=lambda size: abs(size - plan.mesh[target]))
        resized = (edits.EditGroup(f"{target}:{size}, {drop}", (ResizeAxis(target, size), drop)) for size in sizes)
        yield from islice((edit for edit in resized if _is_legal(edit, plan)), 2)
    for other in plan.program.dims:
        rule = plan.layout.rule(other)
        if other != dim and target in rule:
            yield edits.EditGroup(
                f"{other} off {target}, {drop}", (edits.ShardDim(other, tuple(axis for axis in rule if axis != target)), drop)
            )
    for axis in plan.mesh.names:
        if axis not in axes and plan.mesh[axis] > 1:
            yield edits.ShardDim(dim, dropped_axes(plan.layout.rule(dim), gesture.source, axis, add=gesture.add))


def _is_legal(edit: edits.Edit, plan: Plan) -> bool:
    try:
        edit.apply(plan)
    except WorkbenchError:
        return False
    return not changes_nothing(edit, plan)


def _drop(gesture: DropGesture, plan: Plan, _: Report) -> edits.Edit:
    axes = dropped_axes(plan.layout.rule(gesture.dim), gesture.source, gesture.target, add=gesture.add)
    return edits.ShardDim(gesture.dim, axes)


def _major(gesture: MajorGesture, plan: Plan, _: Report) -> edits.Edit:
    return edits.ShardDim(gesture.dim, (gesture.axis, *(axis for axis in plan.layout.rule(gesture.dim) if axis != gesture.axis)))


def _rename_dim(gesture: RenameDimGesture, _plan: Plan, _: Report) -> edits.Edit:
    if not _DIMENSION.fullmatch(gesture.name):
        raise DimensionError(f"`{gesture.name[:80]}` is not a valid dimension name.", ["use at most 64 letters, digits and `_`"])
    return edits.RenameDim(gesture.dim, gesture.name)


def _resize(gesture: setup_gestures.ResizeGesture, _plan: Plan, _: Report) -> edits.Edit:
    return ResizeAxis(gesture.axis, whole_number(gesture.size, "size of a mesh axis"))


def _add_axis(gesture: setup_gestures.AddAxisGesture, _plan: Plan, _: Report) -> edits.Edit:
    return AddAxis(gesture.axis, whole_number(gesture.size, "size of a mesh axis"))


def _shift_axis(gesture: setup_gestures.ShiftAxisGesture, plan: Plan, _: Report) -> edits.Edit:
    names = list(plan.mesh.names)
    if gesture.axis not in names or gesture.by not in (-1, 1):
        raise MeshError(*unknown_name("mesh axis", gesture.axis, names))
    place = names.index(gesture.axis)
    names.insert(min(max(place + gesture.by, 0), len(names) - 1), names.pop(place))
    return ReorderAxes(tuple(names))


def _order_axes(gesture: setup_gestures.OrderAxesGesture, plan: Plan, _: Report) -> edits.Edit:
    return ReorderAxes(gesture.names[: len(plan.mesh.names) + 1])


def _hardware(gesture: setup_gestures.HardwareGesture, plan: Plan, _: Report) -> edits.Edit:
    return edits.SetHardware(hardware_of(gesture.chip, gesture.shape, plan.mesh))


def _axis_assignment(gesture: setup_gestures.AxisAssignmentGesture, _plan: Plan, _: Report) -> edits.Edit:
    return edits.SetAxisAssignment(parse_axis_assignment(gesture.name) if gesture.name else None)


def _rules(plan: Plan) -> Iterator[edits.Edit]:
    return (edits.ShardDim(dim, plan.layout.rule(dim)) for dim in plan.program.dims)


def _mend(gesture: setup_gestures.MendGesture, plan: Plan, report: Report) -> edits.Edit:
    """Find an edit that the present report suggests; suggestions of an older report are refused."""
    notices = (*report.notes, *(notice for edit in _rules(plan) if (notice := rule_without_effect(plan, edit)) is not None))
    for edit in chain((edit for note in notices for edit in note.edits), list_tried_edits(report.prediction)):
        if str(edit) == gesture.edit:
            return edit
    raise LayoutError(f"No warning suggests `{gesture.edit[:80]}` any longer.", ["see the current warnings"])


EDITS: dict[Kind, EditMaker] = {
    **TENSOR_EDITS,
    **ANNOTATION_EDITS,
    **STAGE_EDITS,
    **edits_of(
        means(DropGesture, _drop),
        means(MajorGesture, _major),
        means(WholeGesture, lambda gesture, _plan, _report: edits.ShardDim(gesture.dim)),
        means(RenameDimGesture, _rename_dim),
        means(PrioritizeGesture, lambda gesture, _plan, _report: Prioritize(gesture.dim, gesture.priority)),
        means(setup_gestures.ResizeGesture, _resize),
        means(setup_gestures.AddAxisGesture, _add_axis),
        means(setup_gestures.RemoveAxisGesture, lambda gesture, _plan, _report: RemoveAxis(gesture.axis)),
        means(setup_gestures.RenameAxisGesture, lambda gesture, _plan, _report: RenameAxis(gesture.axis, gesture.name)),
        means(setup_gestures.ShiftAxisGesture, _shift_axis),
        means(setup_gestures.OrderAxesGesture, _order_axes),
        means(setup_gestures.HardwareGesture, _hardware),
        means(setup_gestures.AxisAssignmentGesture, _axis_assignment),
        means(setup_gestures.MendGesture, _mend),
        means(setup_gestures.TracedAsGesture, traced_as_edit),
        means(setup_gestures.RecipeGesture, lambda gesture, plan, _report: recipe_edit(gesture, plan)),
    ),
}
