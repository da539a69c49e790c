"""Which statement of a plan an edit changes: edits of different ones both hold, of the same one the later holds."""

from workbench.plan.edits import (
    Constrain,
    Edit,
    EditGroup,
    Override,
    RenameDim,
    SetAxisAssignment,
    SetHardware,
    SetOffload,
    SetPipeline,
    SetPrecision,
    SetRemat,
    ShardDim,
)
from workbench.plan.mesh_edits import AddAxis, RemoveAxis, RenameAxis, ReorderAxes, ResizeAxis, SetMesh
from workbench.plan.propagation_edits import GroupValues, Prioritize, SetBarrier, UngroupValues

_OF_THE_PLAN: dict[type, str] = {
    SetMesh: "the mesh",
    ReorderAxes: "the order of the mesh axes",
    SetRemat: "rematerialisation",
    SetPrecision: "precision",
    SetOffload: "offloading",
    SetHardware: "the hardware",
    SetAxisAssignment: "the axis assignment",
    SetPipeline: "the pipeline",
}


def statements_of(edit: Edit) -> frozenset[str]:
    """The statements that an edit changes, in words; one that replaces the whole layout, or the plan, changes `everything`."""
    match edit:
        case EditGroup():
            return frozenset().union(*(statements_of(each) for each in edit.edits))
        case ShardDim() | RenameDim():
            return frozenset({f"dimension {edit.dim}"})
        case Prioritize():
            return frozenset({f"the priority of {edit.dim}"})
        case Override():
            return frozenset({edit.pattern})
        case Constrain():
            return frozenset({f"@{edit.pattern}"})
        case SetBarrier():
            return frozenset({f"the barrier at {edit.place}"})
        case GroupValues() | UngroupValues():
            return frozenset({f"the group of {', '.join(edit.places)}"})
        case AddAxis() | RemoveAxis() | ResizeAxis() | RenameAxis():
            return frozenset({f"mesh axis {edit.axis}"})
    return frozenset({_OF_THE_PLAN.get(type(edit), "everything")})


def common_statements(one: Edit, other: Edit) -> frozenset[str]:
    """What both change; if one of them changes everything, that is all of the other's."""
    mine, theirs = statements_of(one), statements_of(other)
    if "everything" in mine or "everything" in theirs:
        return (mine | theirs) - {"everything"} or frozenset({"everything"})
    return mine & theirs
