"""Hypothesis strategies: an edit of each class of `ALL_EDITS`, legal in itself but perhaps for no plan; groups of them."""

from collections.abc import Mapping

from hypothesis import strategies as st

from tests.core.test_pipeline_spec import specs
from tests.core.test_remat import POLICIES, PRECISIONS
from tests.hardware.test_topology import ROUTES
from tests.support.example_hardware import list_example_hardware
from tests.support.programs import mlp
from tests.support.strategies import AXES, DIMS, layouts, meshes, patterns, places, shardings
from workbench.core.layout_text import DIRECTIONS
from workbench.core.offload import Offload
from workbench.documents.edit_records import MOST_GROUPS
from workbench.hardware.axis_assignment_text import AxisAssignment
from workbench.hardware.catalogue import parse_hardware
from workbench.plan.edits import (
    Constrain,
    Edit,
    EditGroup,
    OpenPlan,
    Override,
    RenameDim,
    SetAxisAssignment,
    SetHardware,
    SetLayout,
    SetOffload,
    SetPipeline,
    SetPrecision,
    SetRemat,
    ShardDim,
)
from workbench.plan.mesh_edits import AddAxis, RemoveAxis, RenameAxis, ReorderAxes, ResizeAxis, SetMesh
from workbench.plan.propagation_edits import GroupValues, Prioritize, SetBarrier, UngroupValues
from workbench.public_plan import Plan

_AXIS, _DIM = st.sampled_from(AXES), st.sampled_from(DIMS)
_AXES = st.lists(_AXIS, max_size=3).map(tuple)
_GROUPS = st.lists(places(), max_size=3).map(tuple)
_SHARDING = shardings(is_plain=False) | st.none()
_FOR_PEOPLE = st.text(max_size=12)
_ASSIGNMENTS = st.lists(st.tuples(_AXIS, ROUTES.map(tuple)), unique_by=lambda entry: entry[0], max_size=3).map(tuple).map(AxisAssignment)
_HARDWARE = (*list_example_hardware(), parse_hardware("32 nodes of 8 H100, node=200 Gb/s"), None)
_PLANS = (
    Plan(mlp(), "data:4 model:2", "batch:data; d_ff:model", name="modèle → été"),
    Plan(mlp(), "data:4 model:2", hardware="TPU v5e 4x2", axis_assignment="data:x; model:y"),
    Plan(mlp().rename({"d_ff": "hidden"}), "stage:2 data:4", "batch:data", pipeline="stages:2 micro_batches:4"),
)

EDITS: Mapping[type[Edit], st.SearchStrategy[Edit]] = {
    ShardDim: st.builds(ShardDim, _DIM, _AXES),
    Override: st.builds(Override, patterns(), _SHARDING),
    Constrain: st.builds(Constrain, patterns() | st.just("gpt.py:42"), _SHARDING),
    Prioritize: st.builds(Prioritize, _DIM, st.integers(0, 1001)),
    GroupValues: st.builds(GroupValues, _GROUPS),
    UngroupValues: st.builds(UngroupValues, _GROUPS),
    SetBarrier: st.builds(SetBarrier, places(), st.sampled_from((*DIRECTIONS, None))),
    SetLayout: st.builds(SetLayout, layouts()),
    SetMesh: st.builds(SetMesh, meshes()),
    ResizeAxis: st.builds(ResizeAxis, _AXIS, st.integers(1, 1 << 21)),
    AddAxis: st.builds(AddAxis, _AXIS, st.integers(1, 8)),
    RemoveAxis: st.builds(RemoveAxis, _AXIS),
    RenameAxis: st.builds(RenameAxis, _AXIS, _AXIS),
    ReorderAxes: st.builds(ReorderAxes, _AXES),
    RenameDim: st.builds(RenameDim, _DIM, _DIM),
    SetRemat: st.builds(SetRemat, st.sampled_from(POLICIES)),
    SetPrecision: st.builds(SetPrecision, st.sampled_from(PRECISIONS)),
    SetOffload: st.builds(SetOffload, st.builds(Offload, st.booleans())),
    SetHardware: st.builds(SetHardware, st.sampled_from(_HARDWARE)),
    SetAxisAssignment: st.builds(SetAxisAssignment, _ASSIGNMENTS | st.none()),
    SetPipeline: st.builds(SetPipeline, specs() | st.none(), _FOR_PEOPLE),
    OpenPlan: st.builds(OpenPlan, st.sampled_from(_PLANS), _FOR_PEOPLE),
}
"""All but groups of them: `groups`."""


def groups(depth: int = MOST_GROUPS) -> st.SearchStrategy[EditGroup]:
    """Groups in groups; few of them open a plan, and few plans."""
    plain = st.one_of(*(each for kind, each in EDITS.items() if kind is not OpenPlan))
    inner = plain if depth == 1 else plain | groups(depth - 1)
    last = st.lists(EDITS[OpenPlan], max_size=1 if depth == MOST_GROUPS else 0)
    return st.builds(lambda name, first, end: EditGroup(name, (*first, *end)), _FOR_PEOPLE, st.lists(inner, max_size=3), last)


def edits_of(kind: type[Edit]) -> st.SearchStrategy[Edit]:
    """Edits of one class of `ALL_EDITS`."""
    return groups() if kind is EditGroup else EDITS[kind]
