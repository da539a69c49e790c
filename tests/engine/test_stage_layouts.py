"""Stages of a pipeline that are laid out apart train as the step without a pipeline."""

import pytest

from workbench.core.schedules.schedule import Kind
from workbench.engine.mpmd.against_sequential import largest_error
from workbench.engine.mpmd.mpmd_step import compile_mpmd
from workbench.errors import PipelineError
from workbench.models import build
from workbench.pipeline.estimate_block_cost import make_stage_context
from workbench.pipeline.estimate_stage_costs import plan_starts
from workbench.pipeline.stage_memory import lay_out_stages
from workbench.pipeline.staged_program import as_spmd_program, staged_program
from workbench.public_plan import Plan
from workbench.search.layout_choices import PER_STAGE, list_layout_choices
from workbench.search.per_stage.choose_stages import compose_layout

pytestmark = pytest.mark.compile

MESH = "stage:2 data:2 model:2"
TOLERANCE = 1e-4  # Adam divides by the root of small squares
BY_HAND = {
    "unet": (
        "down/2",
        "batch:data; down/0/conv1/w=[-, -, -, -, model]; down/0/conv2/w=[-, -, -, model, -]; down/1/conv2/w=[-, -, -, -, model];"
        "up/*/conv1/w=[-, -, -, model, -]; up/*/conv2/w=[-, -, -, -, model]; head/w=[model, -]",
    ),
    "deep_unet": ("bottleneck/0", "batch:data; down0/0/w=[-, -, -, model]; down0/1/w=[-, -, model, -]; up1/0/w=[-, -, -, model]"),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_stages_laid_out_apart_by_hand_train_as_the_step_without_a_pipeline(name):
    boundary, layout = BY_HAND[name]
    plan = Plan(build(name), MESH, layout, pipeline=f"stages:2 micro_batches:2 boundaries:{boundary}")
    assert largest_error(compile_mpmd(plan)) < TOLERANCE


def test_stages_of_a_composed_layout_train_as_the_step_without_a_pipeline():
    """As a search lays them out apart: the first stage as one of its layouts has it, the second as another."""
    program = build("deep_unet", convolutions=2, channels=64, levels=2, size=32, batch=8)
    plan = Plan(program, MESH, "batch:data", hardware="TPU v5e 2x4", pipeline="stages:2 micro_batches:2")
    choices = list_layout_choices(plan.updated(pipeline=None), ("stage", "data", "model"))
    (own,) = (each for each in choices if each.name == PER_STAGE)
    plans = {each.name: each.apply(plan) for each in own.of_stages}
    staged = staged_program(plan)
    starts = plan_starts(staged)
    layout = compose_layout([plans["megatron"], plans["replicated"]], staged.network, starts)
    assert "down1/0/w=[-, -, -, model]" in str(layout)
    assert "up" not in str(layout)
    assert largest_error(compile_mpmd(plan.updated(layout=layout, hardware=None))) < TOLERANCE


def test_stages_that_are_one_program_are_not_laid_out_apart():
    """Engine `spmd` stacks the layers that it runs in step: they have one layout."""
    layout = "batch:data; layers/0/mlp/w1=[-, model]; layers/1/mlp/w1=[model, -]"
    plan = Plan(build("gpt", scan=False), MESH, layout, pipeline="stages:2 micro_batches:2 schedule:gpipe engine:spmd")
    with pytest.raises(PipelineError) as raised:
        as_spmd_program(plan)
    assert raised.value.message == (
        "Engine `spmd` runs equal layers in lockstep with one layout; `params/layers/0/mlp/w1` is [-, model] and "
        "`params/layers/1/mlp/w1` is [model, -]."
    )
    assert raised.value.ways_out == ("use engine:mpmd, which supports different stages", "use one layout for all")
    alike = plan.updated(layout="batch:data; layers/*/mlp/w1=[-, model]")
    assert as_spmd_program(alike).pipeline is None


def test_constraints_are_compiled_as_planned_in_their_rounds():
    """Sequence parallelism is a constraint, of a later round, on values of a loop over layers: every layer of every stage has it."""
    program = build("decoder", preset="tiny", scan=True)
    plan = Plan(program, "stage:2 model:2").recipe("megatron", "model").recipe("sequence_parallel", "model")
    step = compile_mpmd(plan.updated(pipeline="stages:2 micro_batches:2 remat:never"))
    staged = staged_program(step.plan)
    for programs, laid in zip(
        step.stages.programs, lay_out_stages(make_stage_context(staged), staged.network, plan_starts(staged)), strict=True
    ):
        planned = {path: sharding.dims for path, sharding in laid.stage.entering}
        kept = {
            f"{group}/{place}": each.spec for (group, place), each in programs.shardings.items() if group in ("input_activations", "kept")
        }
        assert {path: (*spec, *(None,) * (len(planned[path]) - len(spec))) for path, spec in kept.items()} == {
            path: tuple(each[0] if each else None for each in planned[path]) for path in kept
        }
        assert any("model" in spec for spec in kept.values())
    assert all("all-gather" in each.compiled.as_text() for (kind, _, _), each in step.stages.tasks.items() if kind is Kind.FORWARD)
    assert largest_error(step) < TOLERANCE
