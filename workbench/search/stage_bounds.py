"""What no schedule can beat: the least seconds of a step and the least bytes of a device, from the costs of its stages alone.

Letters: p devices, v chunks, K = p v virtual stages, m micro-batches. A device cannot begin before a micro-batch has gone through the
stages before its first one, and after its last backward pass one must go back through them:

    step >= forward of the stages before + m x work of its stages + backward of the stages before         (backward in one task)
    step >= forward of the stages before + m x work of its stages                                         (in two)

GPipe and one-forward-one-backward with equal stages and free transfers reach it: (m + p - 1) (F + B).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workbench.core.pipeline_spec import PipelineSpec
from workbench.core.schedules import PipelineShape, schedule_named

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class BlockTotals:
    """Costs of the blocks of a network for one micro-batch on one device, each an array float64[blocks]: seconds forward and of the two
    gradients; bytes kept inside a block for its backward pass, bytes of what it is sent (`received`), of parameters, gradients and
    optimiser's state that it is the first to use (`resident`), and of those gradients that replicas sum at the end of the step (`summed`).
    """

    forward: Array
    backward_input: Array
    backward_weight: Array
    kept: Array
    received: Array
    resident: Array
    summed: Array

    @property
    def work(self) -> Array:
        return self.forward + self.backward_input + self.backward_weight


@dataclass(frozen=True, slots=True)
class LeastFigures:
    """Least seconds of a step, least bytes of the fullest device."""

    seconds: float
    memory: float


def least_figures(
    spec: PipelineSpec, blocks: BlockTotals, starts: Sequence[int], bandwidth: float, sum_seconds: Callable[[int], float]
) -> LeastFigures:
    """The bounds of a pipeline whose virtual stages begin at blocks `starts`.

    `bandwidth`: of a device's memory, bytes a second, which the update needs twice over for all that is resident; `sum_seconds`: of summing
    so many bytes of gradients over the replicas.
    """
    shape = PipelineShape(spec.stages, spec.micro_batches, spec.chunks)
    schedule, places = schedule_named(spec.schedule), np.array((0, *starts))
    forward, first, second, kept, resident, summed = (
        np.add.reduceat(each, places)
        for each in (blocks.forward, blocks.backward_input, blocks.backward_weight, blocks.kept, blocks.resident, blocks.summed)
    )
    recomputes = spec.remat == "always"
    again = forward if recomputes else np.zeros_like(forward)
    left = blocks.received[places] if recomputes else kept
    gone_through = np.concatenate(([0.0], np.cumsum(forward)))
    gone_back = np.concatenate(([0.0], np.cumsum(again + first + (0.0 if schedule.splits_backward else second))))
    seconds, memory = 0.0, 0.0
    for device in range(spec.stages):
        stages = [stage for stage in range(spec.virtual_stages) if schedule.device_of(stage, shape) == device]
        before = stages[0]
        work = spec.micro_batches * float((forward + again + first + second)[stages].sum())
        update = float(resident[stages].sum()) * 2 / bandwidth + sum(sum_seconds(int(summed[stage])) for stage in stages)
        seconds = max(seconds, gone_through[before] + work + update)
        if not schedule.splits_backward:
            seconds = max(seconds, gone_through[before] + work + gone_back[before])
        in_flight = 1 if schedule.splits_backward else schedule.in_flight(device, shape)  # between two halves less is held
        held = float(resident[stages].sum()) + in_flight * float(left[stages].min())
        memory = max(memory, held)
    return LeastFigures(float(seconds), memory)
