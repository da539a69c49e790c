"""Estimate the memory of a model's layers and the seconds of its units, before anything was compiled or timed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from workbench.core.derived_value_cache import cache_with_program
from workbench.core.program import STATE, Program
from workbench.core.tensor import Role, itemsize
from workbench.multimodel.fleet import FleetModel
from workbench.multimodel.greedy_partition import Layer
from workbench.multimodel.unit_chains import Job, Pass, Unit
from workbench.pipeline.balance import network_blocks

RATES = "20 GFLOP/s, 10 GB/s"
_FLOPS, _BYTES, _LAUNCH = 2e10, 1e10, 2e-5  # FLOP per second, bytes per second, seconds of a unit: of no particular device
_BACKWARD_FACTOR = 3  # a backward pass recomputes its shard's forward pass, and then takes about twice as long


@dataclass(frozen=True, slots=True)
class LayerWork:
    """One layer, and the seconds of its forward pass at `RATES`."""

    layer: Layer
    seconds: float


def layers_of(program: Program) -> tuple[Layer, ...]:
    """The network's blocks with the bytes they need: parameters, a gradient each, and the optimiser's state."""
    return tuple(each.layer for each in estimate_layers(program))


@cache_with_program(5)
def estimate_layers(program: Program) -> tuple[LayerWork, ...]:
    """The blocks of a program in order, with their forward time, for one mini-batch. Raises `PipelineError` for a program that cannot be
    partitioned."""
    factor = 2 + state_ratio(program)
    blocks = network_blocks(program)
    entering = [0, *(each.crossing for each in blocks)]
    return tuple(
        LayerWork(
            Layer(each.path, int(each.parameter_bytes * factor), each.traffic // 2, before),
            max(each.flops / _FLOPS, each.traffic / _BYTES),
        )
        for each, before in zip(blocks, entering, strict=False)
    )


def state_ratio(program: Program) -> float:
    """Bytes of the optimiser's state for each byte of parameters."""
    state_bytes = {role: sum(each.elements * itemsize(each.dtype) for each in program.arguments if each.role is role) for role in STATE}
    return state_bytes[Role.OPTIMIZER_STATE] / max(state_bytes[Role.PARAMETER], 1)


def estimated_job(model: FleetModel, starts: Sequence[int]) -> Job:
    """The model partitioned before the blocks `starts`, with unit times from arithmetic and memory traffic alone."""
    works = estimate_layers(model.program)
    ends = [*starts[1:], len(works)]
    forward = [sum(each.seconds for each in works[begin:end]) for begin, end in zip(starts, ends, strict=True)]
    moved = [sum(each.layer.resident for each in works[begin:end]) / _BYTES for begin, end in zip(starts, ends, strict=True)]
    entering = [works[begin].layer.input_activations / _BYTES for begin in starts]
    last = len(starts) - 1
    forward_units = [Unit(i, Pass.FORWARD, _LAUNCH + forward[i], moved[i], 0.0, entering[i]) for i in range(last)]
    loss_unit = Unit(last, Pass.FORWARD_LOSS, _LAUNCH + _BACKWARD_FACTOR * forward[last], moved[last], moved[last], entering[last])
    backward_units = [
        Unit(i, Pass.BACKWARD, _LAUNCH + _BACKWARD_FACTOR * forward[i], moved[i], moved[i], entering[i]) for i in reversed(range(last))
    ]
    return Job(model.name, (*forward_units, loss_unit, *backward_units), model.mini_batches, model.epochs)


def scale_job(job: Job, by: float) -> Job:
    """The job with the seconds of its units, and of their transfers, multiplied."""
    units = tuple(
        replace(each, seconds=each.seconds * by, load=each.load * by, store=each.store * by, carry=each.carry * by, slowed=each.slowed * by)
        for each in job.units
    )
    return replace(job, units=units)
