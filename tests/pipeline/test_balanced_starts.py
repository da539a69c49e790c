"""Boundaries left to the planner: what they send is counted, and the step is the shortest of the partitions that balance the blocks."""

from itertools import combinations

import jax
import jax.numpy as jnp
import optax
import pytest

from workbench.core.program import Program
from workbench.pipeline.balance import list_balanced_starts
from workbench.pipeline.estimate_stage_costs import block_costs, find_sending, plan_starts
from workbench.pipeline.pipeline_report import pipeline_report
from workbench.pipeline.staged_program import staged_program
from workbench.public_plan import Plan
from workbench.tracing import trace_training

pytestmark = pytest.mark.compile


def hourglasses(layers: int) -> Program:
    """Layers that widen and narrow in turn: between two of a pair 64 times as much is sent as between two pairs."""

    def loss(weights, batch):
        x = batch["x"]
        for number, w in enumerate(weights):
            with jax.named_scope(f"layers/{number}"):
                x = jnp.tanh(x @ w)
        return jnp.mean(x * x)

    weights = [jax.ShapeDtypeStruct((64, 4096) if number % 2 == 0 else (4096, 64), "float32") for number in range(layers)]
    batch = {"x": jax.ShapeDtypeStruct((8192, 64), "float32")}
    return trace_training(loss, weights, batch, optimizer=optax.sgd(0.1), dims={"batch/x": "batch width"}, name="hourglasses")


def over_nodes(layers: int, stages: int, schedule: str) -> Plan:
    """With a device a stage, each in a node of its own."""
    pipeline = f"stages:{stages} micro_batches:8 schedule:{schedule} remat:never"
    return Plan(hourglasses(layers), f"stage:{stages}", hardware=f"{stages} nodes of 1 H100", pipeline=pipeline)


def seconds_by_starts(plan: Plan) -> dict[tuple[int, ...], float]:
    """The step of every partition."""
    report = pipeline_report(plan)
    return {starts: report.partition_at(starts).seconds for starts in combinations(range(1, len(report.blocks)), plan.pipeline.stages - 1)}


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_no_boundary_is_where_much_is_sent_though_the_work_would_be_more_even(schedule):
    plan = over_nodes(7, 3, schedule)
    assert plan_starts(staged_program(plan)) == (4, 6)
    seconds = seconds_by_starts(plan)
    assert pipeline_report(plan).seconds == min(seconds.values()) < seconds[3, 5] / 4


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zero_bubble"])
def test_the_step_is_the_shortest_of_the_partitions_that_balance_the_blocks(schedule):
    plan = over_nodes(12, 4, schedule)
    staged = staged_program(plan)
    found = list_balanced_starts(staged.network, staged.spec, block_costs(staged), find_sending(staged))
    report = pipeline_report(plan)
    assert len(found) > 1
    assert report.seconds == min(report.partition_at(starts).seconds for starts in found)


def test_a_named_boundary_stays_where_much_is_sent():
    plan = over_nodes(7, 3, "1f1b")
    named = plan.updated(pipeline="stages:3 micro_batches:8 schedule:1f1b remat:never boundaries:layers/3")
    assert 3 in plan_starts(staged_program(named))


def test_where_sending_takes_no_time_the_blocks_alone_are_balanced():
    plan = over_nodes(7, 3, "1f1b").updated(hardware=None)
    staged = staged_program(plan)
    (even,) = list_balanced_starts(staged.network, staged.spec, block_costs(staged), find_sending(staged))
    assert plan_starts(staged) == even


def test_the_note_on_uneven_stages_says_that_even_ones_would_send_more():
    notes = over_nodes(7, 3, "1f1b").report().notes
    (told,) = (each for each in notes if each.kind == "uneven stages")
    assert told.message.endswith("More balanced stages would send more, and the step would take longer.")
    assert told.edits == ()
