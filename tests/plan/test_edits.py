import pytest

from tests.support.programs import mlp
from workbench.core.layout import Layout
from workbench.core.mesh import Mesh
from workbench.core.offload import Offload
from workbench.core.pipeline_spec import PipelineSpec
from workbench.core.precision import Precision
from workbench.core.remat import Remat
from workbench.core.sharding import Sharding
from workbench.errors import DimensionError, HardwareError, LayoutError, MeshError, TraceError, WorkbenchError
from workbench.hardware.axis_assignment_text import parse_axis_assignment
from workbench.hardware.catalogue import parse_hardware
from workbench.plan.edits import (
    ALL_EDITS,
    Constrain,
    EditGroup,
    GroupValues,
    OpenPlan,
    Override,
    Prioritize,
    RenameDim,
    SetAxisAssignment,
    SetBarrier,
    SetHardware,
    SetLayout,
    SetOffload,
    SetPipeline,
    SetPrecision,
    SetRemat,
    ShardDim,
    UngroupValues,
)
from workbench.plan.mesh_edits import AddAxis, RemoveAxis, RenameAxis, ReorderAxes, ResizeAxis, SetMesh
from workbench.public_plan import Plan

V5E = parse_hardware("TPU v5e 4x2")
LAYOUT = "batch:data; d_ff:model"
W1 = "params/layers/*/w1"

# An edit, how the history shows it, and the mesh and layout after it.
CASES = [
    (ShardDim("d_model", ("model",)), "d_model → model", None, None),  # refused: d_ff is on model already
    (ShardDim("d_ff", ("data", "model")), "d_ff → data+model", "data:4 model:2", "batch:data; d_ff:data+model"),
    (ShardDim("d_ff"), "d_ff → whole", "data:4 model:2", "batch:data"),
    (Override(W1, Sharding.parse("[model, -]")), f"{W1} → [model, -]", "data:4 model:2", f"{LAYOUT}; {W1}=[model, -]"),
    (Override(W1, None), f"{W1} → by the rules", "data:4 model:2", LAYOUT),
    (
        Constrain("mlp/dot_general", Sharding.parse("[data, ?]")),
        "@mlp/dot_general → [data, ?]",
        "data:4 model:2",
        f"{LAYOUT}; @mlp/dot_general=[data, ?]",
    ),
    (Constrain("mlp/dot_general", None), "@mlp/dot_general → free", "data:4 model:2", LAYOUT),
    (Prioritize("d_ff", 1), "d_ff → p1", "data:4 model:2", "batch:data; d_ff:model p1"),
    (Prioritize("d_ff", 0), "d_ff → p0", "data:4 model:2", LAYOUT),
    (Prioritize("d_model", 1), "d_model → p1", None, None),  # it has no rule
    (Prioritize("d_ff", -1), "d_ff → p-1", None, None),
    (GroupValues((W1, "@mlp/tanh")), f"group[{W1}, @mlp/tanh]", None, None),  # not of one shape
    (
        GroupValues(("layers/0/w1", "layers/1/w1")),
        "group[layers/0/w1, layers/1/w1]",
        "data:4 model:2",
        f"{LAYOUT}; group[layers/0/w1, layers/1/w1]",
    ),
    (UngroupValues(("layers/0/w1", "layers/1/w1")), "no group[layers/0/w1, layers/1/w1]", None, None),  # there is none
    (SetBarrier("@mlp/dot_general"), "barrier[@mlp/dot_general]", "data:4 model:2", f"{LAYOUT}; barrier[@mlp/dot_general]"),
    (
        SetBarrier(W1, "forward"),
        f"barrier[{W1}] allows:forward",
        "data:4 model:2",
        f"{LAYOUT}; barrier[{W1}] allows:forward",
    ),
    (SetBarrier(W1, None), f"no barrier[{W1}]", "data:4 model:2", LAYOUT),
    (SetLayout(Layout("batch:model")), "layout batch:model", "data:4 model:2", "batch:model"),
    (
        EditGroup("megatron", (ShardDim("d_ff"), ShardDim("d_model", ("model",)))),
        "megatron (2 edits)",
        "data:4 model:2",
        "batch:data; d_model:model",
    ),
    (EditGroup("both", (ShardDim("d_ff"), ResizeAxis("data", 3))), "both (2 edits)", None, None),
    (EditGroup("one", (ShardDim("d_ff"), ShardDim("nowhere", ("data",)))), "one (2 edits)", None, None),
    (SetLayout(Layout()), "layout replicated", "data:4 model:2", ""),
    (SetMesh(Mesh("model:8")), "mesh model:8", "model:8", "d_ff:model"),
    (ResizeAxis("model", 4), "model:4", "data:4 model:4", LAYOUT),
    (ResizeAxis("model", 3), "model:3", None, None),
    (AddAxis("pipe", 2), "+ pipe:2", "data:4 model:2 pipe:2", LAYOUT),
    (AddAxis("data", 2), "+ data:2", None, None),
    (RemoveAxis("model"), "- model", "data:4", "batch:data"),
    (RenameAxis("model", "tensor"), "axis model → tensor", "data:4 tensor:2", "batch:data; d_ff:tensor"),
    (RenameAxis("model", "data"), "axis model → data", None, None),
    (ReorderAxes(("model", "data")), "axes model data", "model:2 data:4", LAYOUT),
    (RenameDim("d_ff", "hidden"), "dimension d_ff → hidden", "data:4 model:2", "batch:data; hidden:model"),
    (RenameDim("d_ff", "d_model"), "dimension d_ff → d_model", None, None),
    (SetHardware(V5E), "hardware TPU v5e 4x2", "data:4 model:2", LAYOUT),
    (SetHardware(None), "hardware none", "data:4 model:2", LAYOUT),
    (
        SetPipeline(PipelineSpec(2, 4)),
        "pipeline stages:2 micro_batches:4 schedule:1f1b",
        "stage:2 data:4 model:2",
        LAYOUT,
    ),
    (SetPipeline(PipelineSpec(4, 4, axis="data")), "pipeline stages:4 micro_batches:4 schedule:1f1b axis:data", None, None),  # splits batch
    (SetAxisAssignment(None), "axis assignment by itself", "data:4 model:2", LAYOUT),
    (
        SetAxisAssignment(parse_axis_assignment("data:x; model:y")),
        "axis assignment data:x; model:y",
        None,
        None,
    ),  # refused: the plan names no hardware
    (SetRemat(Remat()), "remat as traced", "data:4 model:2", LAYOUT),
    (SetRemat(Remat("full")), "remat full", None, None),  # refused: the program's function is not here
    (SetPrecision(Precision("bfloat16")), "precision bfloat16", None, None),
    (SetOffload(Offload(optimizer_state=True)), "offload optimizer_state", None, None),
    (OpenPlan(Plan(mlp(), "x:2", "batch:x"), "mlp.plan.json"), "open mlp.plan.json", "x:2", "batch:x"),
]


@pytest.mark.parametrize(("edit", "shown", "mesh", "layout"), CASES, ids=[str(case[0]) for case in CASES])
def test_an_edit_says_what_it_does_and_does_it_or_leaves_the_plan_alone(edit, shown, mesh, layout):
    before = Plan(mlp(), "data:4 model:2", LAYOUT)
    assert str(edit) == shown
    if mesh is None:
        with pytest.raises(WorkbenchError):
            before.apply(edit)
    else:
        after = before.apply(edit)
        assert (str(after.mesh), str(after.layout)) == (mesh, layout)
    assert before == Plan(mlp(), "data:4 model:2", LAYOUT)


def test_every_edit_of_the_family_is_tried_here():
    assert {type(case[0]) for case in CASES} == set(ALL_EDITS)


@pytest.mark.parametrize(
    ("edit", "error"),
    [
        (ShardDim("d_f", ("model",)), LayoutError),
        (ShardDim("d_ff", ("modle",)), LayoutError),
        (Override("nowhere", Sharding.parse("[-]")), LayoutError),
        (Constrain("nowhere", Sharding.parse("[-]")), LayoutError),
        (ResizeAxis("modle", 2), MeshError),
        (RemoveAxis("modle"), MeshError),
        (RenameAxis("modle", "m"), MeshError),
        (ReorderAxes(("data",)), MeshError),
        (RenameDim("d_f", "d"), DimensionError),
        (RenameDim("d_ff", "d ff"), DimensionError),
        (SetRemat(Remat("full")), TraceError),
    ],
    ids=str,
)
def test_an_edit_of_what_is_not_there_is_refused(edit, error):
    with pytest.raises(error):
        Plan(mlp(), "data:4 model:2", LAYOUT).apply(edit)


def test_a_renamed_dimension_is_renamed_everywhere_and_its_first_name_is_kept():
    plan = Plan(mlp(), "data:4 model:2", LAYOUT).apply(RenameDim("d_ff", "ff")).apply(RenameDim("ff", "hidden"))
    assert set(plan.program.dims) == {"batch", "d_model", "hidden"}
    assert plan.program.operations[0].dims == ("batch", "hidden")
    assert plan.program.renamed["d_ff"] == "hidden"
    assert mlp().rename({"d_ff": "hidden"}) == plan.program


def test_a_dimension_renamed_there_and_back_is_the_same_plan():
    plan = Plan(mlp(), "data:4 model:2", LAYOUT)
    assert plan.apply(RenameDim("d_ff", "hidden")).apply(RenameDim("hidden", "d_ff")) == plan


def test_a_wiring_is_chosen_for_the_hardware_of_the_plan():
    plan = Plan(mlp(), "data:4 model:2", LAYOUT, hardware="TPU v5e 4x2")
    assigned = plan.apply(SetAxisAssignment(parse_axis_assignment("data:x; model:y")))
    assert (str(assigned.hardware), str(assigned.axis_assignment)) == ("TPU v5e 4x2", "data:x; model:y")
    with pytest.raises(HardwareError, match="`y` of TPU v5e 4x2 has 2"):
        plan.apply(SetAxisAssignment(parse_axis_assignment("data:y; model:x")))
    assert assigned.apply(SetAxisAssignment(None)) == plan


@pytest.mark.parametrize(
    ("edit", "axis_assignment"),
    [
        (RenameAxis("model", "tensor"), "data:x; tensor:y"),
        (RemoveAxis("model"), "data:x"),
        (SetMesh(Mesh("model:2")), "model:y"),
        (AddAxis("pipe", 1), "data:x; model:y"),
        (ReorderAxes(("model", "data")), "data:x; model:y"),
        (SetHardware(parse_hardware("TPU v5e 8x2")), "data:x; model:y"),
        (SetHardware(parse_hardware("8 H100")), None),
        (SetHardware(None), None),
    ],
    ids=str,
)
def test_a_wiring_follows_its_mesh_axes_and_is_dropped_with_its_links(edit, axis_assignment):
    plan = Plan(mlp(), "data:4 model:2", LAYOUT, hardware="TPU v5e 4x2", axis_assignment="data:x; model:y")
    after = plan.apply(edit).axis_assignment
    assert (after and str(after)) == axis_assignment


def test_the_former_name_of_an_axis_assignment_is_read_with_a_note():
    with pytest.warns(DeprecationWarning, match="now called `axis_assignment`"):
        old = Plan(mlp(), "data:4 model:2", hardware="TPU v5e 4x2", wiring="data:x; model:y")
    assert str(old.axis_assignment) == "data:x; model:y"
    with pytest.warns(DeprecationWarning, match="now called `axis_assignment`"):
        assert old.updated(wiring=None).axis_assignment is None
