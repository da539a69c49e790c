"""What the pieces of a pipelined plan cost, and where they are cut."""

import pytest

from tests import pipelines
from workbench.errors import PipelineError
from workbench.models import gpt
from workbench.plan import Plan
from workbench.stage_costs import block_costs, costs_of_cut, plan_starts, stage_costs
from workbench.tracing.cutting import network_of

HARDWARE = "TPU v5e 2x2"


@pytest.fixture(scope="module")
def plan() -> Plan:
    return Plan(gpt.build(layers=4), "stage:2 data:2", "batch:data", hardware=HARDWARE, pipeline="stages:2 micro_batches:2")


def test_equal_layers_cost_alike_and_a_piece_is_the_sum_of_its_blocks(plan):
    blocks = block_costs(plan)
    layers = [block for block in blocks if block.path.startswith("layers/")]
    assert len({(block.forward, block.work, block.passing) for block in layers}) == 1
    pieces = stage_costs(plan)
    assert sum(piece.forward for piece in pieces) == pytest.approx(sum(block.forward for block in blocks))
    assert sum(piece.backward for piece in pieces) == pytest.approx(sum(block.work - block.forward for block in blocks))


def test_a_named_boundary_is_kept_and_prices_nothing_anew(plan):
    moved = plan.updated(pipeline="stages:2 micro_batches:2 boundaries:layers/1")
    assert plan_starts(moved) == (2,)
    assert block_costs(moved) is block_costs(plan)
    assert stage_costs(moved)[0].forward < stage_costs(moved)[1].forward


def test_bytes_are_those_of_one_device_of_the_stage(plan):
    whole = plan.updated(mesh="stage:2", layout="", hardware=None)
    for half, full in zip(stage_costs(plan), stage_costs(whole), strict=True):
        assert (half.held, half.kept * 2, half.entering * 2) == (full.held, full.kept, full.entering)


def test_parameters_their_sums_and_adams_two_moments_are_held_once():
    program = pipelines.chain()
    costs = stage_costs(Plan(program, "stage:2", pipeline="stages:2 micro_batches:2"))
    assert sum(cost.held for cost in costs) == 4 * program.parameters * 4  # float32: weights, sums, two moments


def test_a_skip_is_sent_to_the_stage_that_reads_it():
    program = pipelines.skips()
    plan = Plan(program, "stage:4", pipeline="stages:4 micro_batches:2")
    names = network_of(program, 2).paths
    costs = costs_of_cut(plan, [names.index(path) for path in ("down/1", "up/0", "up/1")])
    assert [cost.sends for cost in costs] == [((1, 64), (3, 64)), ((2, 64),), ((3, 64),), ()]


def test_more_stages_than_blocks_are_refused_with_the_blocks_that_there_are():
    plan = Plan(pipelines.chain(), "stage:6", pipeline="stages:6 micro_batches:2")
    with pytest.raises(PipelineError, match=r"has 5 blocks \(`layers/0`, .*\); 6 stages need as many") as error:
        stage_costs(plan)
    assert "make stages 5 or less" in str(error.value)


def test_a_boundary_of_another_program_is_refused():
    plan = Plan(pipelines.chain(), "stage:2", pipeline="stages:2 micro_batches:2 boundaries:blocks/7")
    with pytest.raises(PipelineError, match="no longer exists"):
        stage_costs(plan)
