"""What blocks hand on is sharded as the compiler leaves it: stages hold what the same plan holds without stages."""

from unittest.mock import MagicMock

import pytest

from workbench.core.layout import Layout
from workbench.core.sharding import Sharding
from workbench.errors import PartitionError
from workbench.models import build
from workbench.pipeline import block_layouts
from workbench.pipeline.block_layouts import lay_out_network, tasks_of
from workbench.pipeline.estimate_block_cost import make_stage_context, place_results
from workbench.pipeline.estimate_stage_costs import stage_costs
from workbench.pipeline.stage_bytes import handed_bytes, value_bytes
from workbench.pipeline.staged_program import staged_program
from workbench.public_plan import Plan

SIZES = {"vocab": 512, "layers": 4, "d_model": 128, "kv_heads": 8, "q_per_kv": 1, "d_head": 16, "d_ff": 512, "seq": 256, "batch": 8}
RECIPES = ([], ["megatron"], ["megatron", "sequence_parallel"])
WHOLE_STEP = "stages:1 micro_batches:1 schedule:1f1b remat:never"


def decoder(**changed):
    return build("decoder", **SIZES, gate_up=2, fused="attention norm rotary nonlinearity", **changed)


def own_decoder(vocab):
    """One that no other test has laid out."""
    return build("decoder", **{**SIZES, "vocab": vocab}, gate_up=2, fused="attention norm rotary nonlinearity")


def laid_out(recipes, *, stages=1, pipeline=WHOLE_STEP, program=None):
    plan = Plan(program or decoder(), "model:4", hardware="4 H100")
    for each in recipes:
        plan = plan.recipe(each, "model")
    hardware = f"{4 * stages} H100"
    return Plan(plan.program, f"stage:{stages} model:4", plan.layout, hardware=hardware, pipeline=pipeline), plan


@pytest.mark.parametrize("recipes", RECIPES, ids="+".join)
def test_one_stage_holds_what_the_plan_without_stages_holds(recipes):
    staged, plain = laid_out(recipes)
    assert staged.report().peak == pytest.approx(plain.report().peak, rel=0.2)


def test_sequence_parallelism_divides_what_stages_keep_and_send():
    pipeline = "stages:2 micro_batches:4 schedule:1f1b remat:never"
    tensor, sequence = (stage_costs(staged_program(laid_out(recipes, stages=2, pipeline=pipeline)[0])) for recipes in RECIPES[1:])
    for before, after in zip(tensor, sequence, strict=True):
        assert after.residuals < 0.8 * before.residuals
    assert sequence[0].sends[0][1] * 4 == tensor[0].sends[0][1]


@pytest.mark.parametrize("scan", [True, False], ids=["scanned", "unrolled"])
def test_a_value_between_blocks_propagates_in_the_round_that_made_it_so(scan):
    """Sequence parallelism is stated for after the products, so that the next layer's heads keep the axis."""
    plan, _ = laid_out(RECIPES[2], program=decoder(scan=scan))
    staged = staged_program(plan)
    stage = make_stage_context(staged)
    laid = dict(zip(staged.network.paths, lay_out_network(stage, staged.network), strict=True))
    assert laid["layers/1"].outputs == (Sharding.parse("[-, model p1, -]"),)
    assert laid["embedding"].outputs == laid["layers/1"].outputs
    assert laid["layers/2"] is laid["layers/1"] is laid["layers/0"]
    assert laid["head"].outputs == (Sharding.parse("[-, -, model]"),)


def test_blocks_are_laid_out_as_far_as_they_are_read():
    """A bound of a search needs the largest blocks alone; a plan continues from there."""
    staged = staged_program(laid_out(RECIPES[1], program=own_decoder(640))[0])
    stage, last = make_stage_context(staged), tasks_of(staged.network)[-1]
    first = lay_out_network(stage, staged.network, 3)
    assert len(first) == 3
    assert "keeping_program" not in vars(last)
    whole = lay_out_network(stage, staged.network)
    assert all(block is same for block, same in zip(whole, first, strict=False))
    assert whole == lay_out_network(stage, staged.network)
    assert len(whole) == len(staged.network.paths)
    assert "keeping_program" in vars(last)


def test_a_block_that_is_refused_leaves_those_before_it(monkeypatch):
    staged = staged_program(laid_out(RECIPES[0], program=own_decoder(768))[0])
    stage, refuse = make_stage_context(staged), MagicMock(side_effect=PartitionError("refused", []))
    (embedding,) = lay_out_network(stage, staged.network, 1)
    with monkeypatch.context() as patched:
        patched.setattr(block_layouts, "place_results", refuse)
        for _ in range(2):
            with pytest.raises(PartitionError):
                lay_out_network(stage, staged.network)
    whole = lay_out_network(stage, staged.network)
    assert whole[0] is embedding
    assert len(whole) == len(staged.network.paths)


def test_rounds_of_results_are_those_of_the_statements():
    """Without rounds both statements are of round 0, and so is what follows from them."""
    plan, _ = laid_out(RECIPES[2])
    constraints = tuple((pattern, Sharding(each.dims)) for pattern, each in plan.layout.constraints)
    for layout, priority in ((plan.layout, 1), (Layout((), plan.layout.overrides, constraints), 0)):
        staged = staged_program(plan.updated(layout=layout))
        block = tasks_of(staged.network)[1]
        placed = dict(place_results(block.forward_program, make_stage_context(staged)))["output_activations/0"]
        assert (placed.dims[1], placed.priority(1)) == (("model",), priority)


def test_values_are_as_large_as_their_shards():
    for recipes, parts in zip(RECIPES, (1, 1, 4), strict=True):
        staged = staged_program(laid_out(recipes)[0])
        sizes = value_bytes(make_stage_context(staged), staged.network)
        whole = [value.bytes for value in tasks_of(staged.network)[0].stage.partition.values]
        assert sizes[1].held * parts == sizes[1].sent * parts == whole[1]


def test_what_halves_of_a_backward_task_hand_over_is_divided_too():
    whole, divided = ([*map(sum, zip(*handed(recipes), strict=True))] for recipes in (RECIPES[0], RECIPES[2]))
    assert all(0 < after < 0.6 * before for before, after in zip(whole, divided, strict=True))


def handed(recipes):
    staged = staged_program(laid_out(recipes)[0])
    return handed_bytes(make_stage_context(staged), staged.network)
