"""What no schedule can beat where it is known which blocks a stage has: the least seconds of a step and the least bytes of a device.

Letters as in `stage_bounds`: m micro-batches; stage k takes F_k, B_k, W_k seconds forward, backward and both of a micro-batch, with what it
recomputes; f is the first stage of a device. A device waits for the stages before, and they for it:

    step >= sum of F_k for k < f  +  m x sum of W_k of its stages  +  the greater of its update and the sum of B_k for k < f

without the last where backward is two tasks. When its first backward task begins, a device holds what all its forward passes so far have
left: a schedule's order says how many of each chunk.
"""

from collections.abc import Callable, Sequence

import numpy as np

from workbench.core.pipeline_spec import PipelineSpec
from workbench.core.schedules import PipelineShape, schedule_named
from workbench.search.bounds.stage_bounds import Array, BlockTotals, LeastFigures, chunk_flights, recomputes_all, update_seconds

_ROUNDING = 1 - 1e-9


def least_of_partitions(
    spec: PipelineSpec, partitions: Sequence[Sequence[int]], blocks: BlockTotals, bandwidth: float, sum_seconds: Callable[[int], float]
) -> LeastFigures:
    """The bounds of a pipeline that is partitioned in one of these ways."""
    found = [partition_figures(spec, starts, blocks, bandwidth, sum_seconds) for starts in partitions]
    return LeastFigures(min(each.seconds for each in found), min(each.memory for each in found))


def partition_figures(
    spec: PipelineSpec, starts: Sequence[int], blocks: BlockTotals, bandwidth: float, sum_seconds: Callable[[int], float]
) -> LeastFigures:
    """The bounds of a pipeline whose virtual stages but the first begin with these blocks; `bandwidth` and `sum_seconds` as in
    `least_figures`."""
    schedule, shape = schedule_named(spec.schedule), PipelineShape(spec.stages, spec.micro_batches, spec.chunks)
    first_blocks = np.array((0, *starts))
    again = np.array([recomputes_all(spec, schedule.device_of(stage, shape)) for stage in range(shape.stages)])

    def sums(values: Array) -> Array:
        return np.add.reduceat(values, first_blocks)

    forward, update = sums(blocks.forward), sums(update_seconds(blocks, bandwidth, sum_seconds))
    backward = sums(blocks.backward_input + blocks.backward_weight) + np.where(again, forward, 0.0)
    spared = int(spec.recomputes(0, 0) and not again[0])  # the last micro-batch
    held = np.where(again | bool(spared), np.where(first_blocks > 0, blocks.received[first_blocks], 0.0), sums(blocks.kept))
    resident = sums(blocks.resident)
    seconds, bytes_ = [], []
    for device in range(spec.stages):
        mine = [stage for stage in range(shape.stages) if schedule.device_of(stage, shape) == device]
        back = 0.0 if schedule.splits_backward else float(backward[: mine[0]].sum())
        work = spec.micro_batches * float((forward[mine] + backward[mine]).sum())
        seconds.append(float(forward[: mine[0]].sum()) + work + max(back, float(update[mine].sum())))
        bytes_.append(float(resident[mine].sum() + np.dot(np.array(chunk_flights(schedule, device, shape)) - spared, held[mine])))
    return LeastFigures(max(seconds) * _ROUNDING, max(bytes_) * _ROUNDING)
