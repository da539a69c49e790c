"""A pipeline as text, in a plan, in edits and in documents; what cannot be is refused with its arithmetic."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.programs import mlp
from workbench.core.mesh import Mesh
from workbench.core.pipeline_spec import REMAT, PipelineSpec, first_remat, fit_remat
from workbench.core.schedules import ALL_SCHEDULES
from workbench.documents import dump_plan, parse_plan
from workbench.errors import PipelineError, WorkbenchError
from workbench.plan.edits import SetPipeline
from workbench.plan.mesh_edits import RemoveAxis, RenameAxis, ResizeAxis, SetMesh
from workbench.public_plan import Plan

SPEC = PipelineSpec(4, 8)


@st.composite
def specs(draw: st.DrawFn) -> PipelineSpec:
    schedule = draw(st.sampled_from(ALL_SCHEDULES))
    stages, chunks = draw(st.integers(1, 6)), draw(st.integers(1, 3)) if schedule.loops else schedule.chunks
    names = draw(st.lists(st.text("abc/_[]0.", min_size=1, max_size=6), unique=True, max_size=stages * chunks - 1))
    engine = draw(st.sampled_from(("mpmd", "spmd"))) if schedule.spmd else "mpmd"
    micro_batches = stages * draw(st.integers(1, 5))
    axis = draw(st.sampled_from(("stage", "pipe")))
    firsts = [f"first_{count}" for count in range(1, stages)] if engine == "mpmd" else []
    return PipelineSpec(stages, micro_batches, schedule.name, chunks, tuple(names), draw(st.sampled_from((*REMAT, *firsts))), axis, engine)


@given(specs())
def test_a_pipeline_reads_as_it_is_written(spec):
    assert PipelineSpec.parse(str(spec)) == spec


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("stages:4", "lacks `micro_batches`"),
        ("", "lacks `stages` and `micro_batches`"),
        ("stages:4 micro_batches:8 stages:2", "says `stages` twice"),
        ("stages:4 micro_batch:8", "Did you mean `micro_batches`?"),
        ("stages:4 eight", "has `eight`, which is not an entry"),
        ("stages:four micro_batches:8", "`stages:four` is not a number"),
        ("stages:0 micro_batches:8", "whole number from 1"),
        ("stages:4 micro_batches:8 schedule:1f2b", "Did you mean `1f1b`?"),
        ("stages:4 micro_batches:8 chunks:2", "`1f1b` has one chunk of layers a device"),
        ("stages:4 micro_batches:6 schedule:interleaved chunks:2", "6 % 4 = 2"),
        ("stages:4 micro_batches:6 schedule:interleaved chunks:2", "make micro_batches 4 or 8"),
        ("stages:4 micro_batches:8 engine:spmd", "use schedule:gpipe or schedule:circular"),
        ("stages:2 micro_batches:8 boundaries:a+b", "2 boundaries make 3 virtual stages"),
        ("stages:3 micro_batches:8 boundaries:a+a", "begin at `a`"),
        ("stages:3 micro_batches:8 boundaries:a++b", "is not a valid block name"),
        ("stages:3 micro_batches:8 remat:sometimes", "`always`, `except_last`, `never`, `first_1`"),
        ("stages:3 micro_batches:8 remat:first_two", "Did you mean `first_1`?"),
        ("stages:1 micro_batches:8 remat:first_01", "there are `always`, `except_last`, `never`."),
        ("stages:3 micro_batches:8 axis:a-b", "is not a valid name of a mesh axis"),
    ],
)
def test_a_pipeline_that_cannot_be_is_refused_in_the_users_names(text, says):
    with pytest.raises(PipelineError) as error:
        PipelineSpec.parse(text)
    assert says in str(error.value)
    assert error.value.ways_out


@pytest.mark.parametrize(
    ("text", "message", "ways_out"),
    [
        ("stages:4 remat:first_0", "`remat:first_0` recomputes on no stage.", ("use remat:never", "use remat:first_1 to remat:first_3")),
        (
            "stages:4 remat:first_4",
            "`remat:first_4` of 4 stages covers all stages.",
            ("use remat:always", "use remat:first_1 to remat:first_3"),
        ),
        ("stages:2 remat:first_9", "`remat:first_9` of 2 stages covers all stages.", ("use remat:always", "use remat:first_1")),
        ("stages:1 remat:first_1", "`remat:first_1` of 1 stage covers all stages.", ("use remat:always",)),
        (
            "stages:4 remat:first_1 schedule:gpipe engine:spmd",
            "Engine `spmd` runs all stages as one program, which recomputes on all or none; `remat:first_1` does on the first stage of 4.",
            ("use remat:always or remat:never", "use engine:mpmd"),
        ),
    ],
)
def test_recomputation_on_the_first_stages_is_of_some_stages_and_not_of_others(text, message, ways_out):
    with pytest.raises(PipelineError) as error:
        PipelineSpec.parse(f"micro_batches:8 {text}")
    assert (error.value.message, error.value.ways_out) == (message, ways_out)


@given(specs(), st.integers(1, 8))
def test_the_stages_that_recompute_are_the_first_ones_and_stay_so_in_a_pipeline_of_another_length(spec, stages):
    recomputing = [spec.recomputes(0, stage) for stage in range(spec.stages)]
    if spec.micro_batches > 1 and spec.remat != "except_last":
        assert recomputing == [stage < spec.recomputing_stages for stage in range(spec.stages)]
        assert first_remat(sum(recomputing), spec.stages) == (spec.remat if spec.stages > 1 or spec.remat == "never" else "always")
    other = PipelineSpec(stages, 1, remat=fit_remat(spec.remat, stages))
    if spec.remat.startswith("first"):
        assert other.recomputing_stages == min(spec.recomputing_stages, stages)
    else:
        assert other.remat == spec.remat


@pytest.mark.parametrize(
    ("mesh", "layout", "says"),
    [
        ("data:4", "", "make it `stage:4 data:4`"),
        ("stage:2 data:4", "", "4 stages, and mesh axis `stage` 2 groups"),
        ("stage:4 data:2", "batch:stage", "shards a dimension over it"),
    ],
)
def test_a_plan_keeps_an_axis_for_its_stages(mesh, layout, says):
    with pytest.raises(PipelineError, match=says):
        Plan(mlp(), mesh, layout, pipeline=SPEC)


def test_cutting_a_plan_into_stages_makes_their_axis_and_uncutting_it_takes_that_away():
    plain = Plan(mlp(), "data:4", "batch:data")
    cut = plain.apply(SetPipeline(SPEC))
    assert (str(cut.mesh), cut.pipeline) == ("stage:4 data:4", SPEC)
    assert str(cut.apply(SetPipeline(PipelineSpec(2, 8, axis="pipe"))).mesh) == "pipe:2 data:4"
    assert cut.apply(SetPipeline(None)) == plain


@pytest.mark.parametrize("axis", ["pipe", "pipeline", "pp"])
def test_an_axis_that_is_named_after_stages_is_taken_for_them(axis):
    plain = Plan(mlp(), f"data:2 {axis}:4", "batch:data")
    cut = plain.apply(SetPipeline(SPEC))
    assert cut == Plan(mlp(), f"data:2 {axis}:4", "batch:data", pipeline=SPEC)
    assert (str(cut.mesh), cut.pipeline) == (f"data:2 {axis}:4", PipelineSpec(4, 8, axis=axis))
    assert parse_plan(dump_plan(cut), allow="tests") == cut


@pytest.mark.parametrize(("mesh", "layout"), [("pipe:2 data:2", "batch:data"), ("pipe:4 data:2", "batch:pipe"), ("other:4 data:2", "")])
def test_an_axis_of_another_size_or_name_or_that_splits_something_is_not_taken_for_stages(mesh, layout):
    assert str(Plan(mlp(), mesh, layout).apply(SetPipeline(SPEC)).mesh) == f"stage:4 {mesh}"


def test_a_new_axis_that_the_hardware_has_no_devices_for_is_asked_about():
    plain = Plan(mlp(), "data:4 model:2", "batch:data", hardware="TPU v5e 2x4")
    with pytest.raises(PipelineError) as caught:
        plain.apply(SetPipeline(SPEC))
    assert str(caught.value) == (
        "4 stages on a new mesh axis `stage` in addition to `data:4 model:2` need 4 × 8 = 32 devices, and TPU v5e 2x4 has 8.\n"
        "  Try: make `data` 1: 4 × 2 = 8 devices · name hardware with 32 devices · "
        "set the mesh explicitly, `stage:4 data:4 model:2`."
    )
    with pytest.raises(PipelineError, match="place them along `other`, an unused axis: axis:other"):
        plain.apply(SetMesh(Mesh("data:2 other:4"))).apply(SetPipeline(SPEC))
    assert str(plain.apply(SetMesh(Mesh("data:2"))).apply(SetPipeline(SPEC)).mesh) == "stage:4 data:2"
    assert plain.apply(SetMesh(Mesh("stage:4 data:4"))).apply(SetPipeline(SPEC)).mesh.size == 16


def test_edits_of_the_stages_axis_keep_the_pipeline_true():
    cut = Plan(mlp(), "stage:4 data:2", "batch:data", pipeline="stages:4 micro_batches:8 boundaries:a+b+c")
    assert cut.apply(ResizeAxis("stage", 8)).pipeline == PipelineSpec(8, 8, boundaries=("a", "b", "c"))
    assert cut.apply(ResizeAxis("stage", 2)).pipeline == PipelineSpec(2, 8)
    some = cut.apply(SetPipeline(PipelineSpec(4, 8, remat="first_2")))
    assert [some.apply(ResizeAxis("stage", count)).pipeline.remat for count in (2, 3, 8)] == ["always", "first_2", "first_2"]
    assert cut.apply(ResizeAxis("data", 4)).pipeline == cut.pipeline
    assert cut.apply(RenameAxis("stage", "pipe")).pipeline.axis == "pipe"
    assert cut.apply(RemoveAxis("stage")).pipeline is None
    assert cut.apply(SetMesh(Mesh("data:4"))).pipeline is None
    with pytest.raises(WorkbenchError):
        cut.apply(SetPipeline(PipelineSpec(8, 8, "interleaved", 2))).apply(ResizeAxis("stage", 3))


def test_a_document_keeps_which_stages_recompute():
    plan = Plan(mlp(), "stage:4 data:2", "batch:data", pipeline="stages:4 micro_batches:8 remat:first_3")
    document = dump_plan(plan)
    assert '"pipeline": "stages:4 micro_batches:8 schedule:1f1b remat:first_3"' in document
    assert parse_plan(document, allow="tests") == plan


def test_a_document_keeps_the_pipeline_and_a_difference_shows_it():
    plain = Plan(mlp(), "stage:4 data:2", "batch:data")
    cut = plain.apply(SetPipeline(SPEC))
    document = dump_plan(cut)
    assert '"pipeline": "stages:4 micro_batches:8 schedule:1f1b"' in document
    assert parse_plan(document, allow="tests") == cut
    assert "pipeline" not in dump_plan(plain)
    with pytest.raises(PipelineError, match="Did you mean"):
        parse_plan(document.replace("1f1b", "2f1b"), allow="tests")
    assert "pipeline stages:4 micro_batches:8" in str(cut)
