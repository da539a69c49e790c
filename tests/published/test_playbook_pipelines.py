"""Bubbles of pipelines as the Ultra-Scale Playbook and the LLM Training Puzzles count them, from the workbench's simulation.

Sources: nanotron/ultrascale-playbook, its section on pipeline parallelism and `pp_bubblesize`, as packed by
vinjn/nanotron-ultrascale-playbook@924e4d0; srush/LLM-Training-Puzzles@644127e, puzzles 5 and 6. Letters: p stages, m micro-batches, v
virtual stages on each.
"""

import jax
import jax.numpy as jnp
import optax
import pytest

import workbench as wb
from tests.support.book_layers import at_peak, of_shape
from workbench.core.pipeline_spec import PipelineSpec
from workbench.core.schedules.stage_cost import StageCost, equal_stages
from workbench.pipeline.simulate_pipeline import simulate
from workbench.pipeline.stage_transfer import Transfer
from workbench.reports.simulated_pipeline import SimulatedPipeline

BUBBLES = [
    *(("gpipe", 1, 1, 7.0), ("1f1b", 8, 1, 0.875), ("gpipe", 8, 1, 0.875), ("1f1b", 32, 1, 0.219)),
    *(("interleaved", 32, 2, 0.109), ("interleaved", 32, 4, 0.055), ("interleaved", 32, 8, 0.027)),
]


def over_ideal(step: SimulatedPipeline) -> float:
    """The bubble as the source counts it: idle time over the time of the work, where `SimulatedPipeline.bubble` is over the whole step."""
    return step.makespan / max(step.busy) - 1


@pytest.mark.parametrize(("schedule", "m", "v", "published"), BUBBLES)
def test_the_bubble_of_eight_stages(schedule, m, v, published):
    """(p - 1) / m, and (p - 1) / (v m) of interleaved stages, exactly; the source rounds to three digits."""
    step = simulate(PipelineSpec(8, m, schedule, chunks=v, remat="never"), equal_stages(8 * v))
    assert over_ideal(step) == pytest.approx(7 / (v * m))
    assert over_ideal(step) == pytest.approx(published, abs=0.0005)
    assert step.bubble == pytest.approx(7 / (v * m + 7))


def _equal_layers() -> wb.Program:
    """Sixteen layers of one matrix, and a loss that costs next to nothing."""

    def loss(params, batch):
        x = batch["x"]
        for number, weights in enumerate(params["layers"]):
            with jax.named_scope(f"layers/{number}"):
                x = jnp.tanh(x @ weights)
        with jax.named_scope("loss"):
            return jnp.mean(x.astype(jnp.float32))

    params, batch = {"layers": [of_shape(4096, 4096)] * 16}, {"x": of_shape(32 * 4096, 4096)}
    return wb.trace_training(loss, params, batch, optimizer=optax.sgd(0.1), dims={"batch/x": "batch d_in"})


def _planned_bubble(schedule: str, link: str = "") -> float:
    pipeline = f"stages:8 micro_batches:32 schedule:{schedule} remat:never"
    report = wb.Plan(_equal_layers(), "stage:8", hardware=at_peak(f"8 H100{link}"), pipeline=pipeline).report()
    return over_ideal(report.pipeline.simulated)


@pytest.mark.parametrize(("schedule", "published"), [("1f1b", 0.219), ("interleaved chunks:2", 0.109)])
def test_the_bubble_of_a_planned_network(schedule, published):
    """The same of a traced network of equal layers on eight H100, by the seconds of its kernels, where sending takes none: 0.01 less than
    the closed form, for the first stage takes no gradient of the batch."""
    assert _planned_bubble(schedule, ", nvlink=90000 GB/s 0 us") == pytest.approx(published, abs=0.012)


def test_sends_that_are_waited_for_add_to_the_bubble():
    """Over NVLink a send takes 78 us of the 924 us of a micro-batch's work. 1F1B waits for it in every round: 0.36; with more
    micro-batches on their way, eager 1F1B, it is 0.24. The closed form knows no sends."""
    assert _planned_bubble("1f1b") == pytest.approx(0.36, abs=0.01)
    assert _planned_bubble("eager_1f1b") == pytest.approx(0.24, abs=0.01)


def _puzzle(micro_batches: int) -> SimulatedPipeline:
    """Eight layers, two on each of four devices; each takes a step forward and one backward for each of four batches, a pass to the next
    device 0.2 steps of both, and the update of a layer half a step."""
    work = 2 * 4 / micro_batches
    costs = [StageCost(work, work / 2, work / 2, update=1.0, sends=((stage + 1, 1),) if stage < 3 else ()) for stage in range(4)]
    return simulate(PipelineSpec(4, micro_batches, "gpipe", remat="never"), costs, Transfer(lambda _: 0.4, overlapped=False))


@pytest.mark.parametrize(("micro_batches", "target"), [(1, 66), (4, 33)])
def test_the_targets_of_the_pipeline_puzzles(micro_batches, target):
    """Puzzles 5 and 6: 66 steps with one batch, 33 with four, as GPipe. The simulation ends after 67.4 and 33.8; the
    last update, of half a step, begins at 66.9 and 33.3."""
    assert _puzzle(micro_batches).seconds - 0.5 == pytest.approx(target, rel=0.02)


def test_four_micro_batches_halve_the_puzzle():
    assert _puzzle(1).seconds / _puzzle(4).seconds == pytest.approx(66 / 33, rel=0.01)
