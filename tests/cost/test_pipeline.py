"""The closed forms of a pipelined step against a step laid out task by task."""

import pytest

from workbench.cost.kept import kept_between_passes
from workbench.cost.pipeline import Schedule, pipeline_time
from workbench.models import decoder_stage
from workbench.models.decoder_config import PRESETS
from workbench.models.presets import chosen
from workbench.plan import Plan


def makespan(times: list[float], micro_batches: int) -> float:
    """Fill and drain, task by task: each micro-batch goes through the stages one after the other, each stage does one at a time."""
    free = [0.0] * len(times)
    for _ in range(micro_batches):
        arrived = 0.0
        for stage, seconds in enumerate(times):
            arrived = free[stage] = max(free[stage], arrived) + seconds
    return free[-1]


@pytest.mark.parametrize("times", [[1.0], [1.0] * 4, [1.0, 2.0, 1.5], [3.0, 1.0, 1.0, 2.0]])
@pytest.mark.parametrize("micro_batches", [1, 2, 7, 32])
def test_a_step_without_interleaving_is_its_makespan(times, micro_batches):
    assert pipeline_time(Schedule(len(times), micro_batches), times).total == pytest.approx(makespan(times, micro_batches))


@pytest.mark.parametrize(
    ("stages", "micro_batches", "chunks", "bubble"), [(8, 64, 3, 7 / 192), (35, 280, 3, 34 / 840), (64, 512, 1, 63 / 512)]
)
def test_the_bubble_of_the_published_runs_is_the_papers(stages, micro_batches, chunks, bubble):
    schedule = Schedule(stages, micro_batches, chunks)
    time = pipeline_time(schedule, [1.0] * stages)
    assert schedule.bubble == pytest.approx(time.bubble / time.work) == pytest.approx(bubble)


def test_no_stage_keeps_more_micro_batches_than_there_are():
    assert [Schedule(4, 2).in_flight(stage) for stage in range(4)] == [2, 2, 2, 1]


def test_one_more_layer_keeps_what_its_kernels_read():
    """Llama's layer with fused kernels: bfloat16 of the stream twice, its two normalised forms, queries, keys, values, attention's result,
    both halves of SwiGLU and their product."""
    kept = [kept_between_passes(Plan(_micro_batch(layers), "model:1")) for layers in (1, 2)]
    config = chosen(PRESETS, "llama3-70b")
    heads, keys = config.kv_heads * config.queries * config.d_head, 2 * config.kv_heads * config.d_head
    a_token = 4 * config.d_model + 2 * heads + keys + 3 * config.d_ff
    assert kept[1] - kept[0] == 2 * a_token * config.seq


def _micro_batch(layers: int):
    return decoder_stage.micro_batch(chosen(PRESETS, "llama3-70b", layers=layers), first=False, last=False)
