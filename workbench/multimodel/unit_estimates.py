"""Estimate the memory of a model's layers and the seconds of its units, before anything is compiled or timed."""

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
_FLOPS, _BYTES, _LAUNCH = 2e10, 1e10, 2e-5  # FLOP/s, bytes/s, seconds per unit: generic, of no particular device
_BACKWARD_FACTOR = 3  # a backward pass recomputes its shard's forward pass, and then takes about twice as long


@dataclass(frozen=True, slots=True)
class LayerWork:
    """One layer with the seconds of its forward pass at `RATES`."""

    layer: Layer
    seconds: float


def layers_of(program: Program) -> tuple[Layer, ...]:
    """Return the network's blocks with their memory: parameters, gradients and optimizer state."""
    return tuple(work.layer for work in estimate_layers(program))


@cache_with_program(5)
def estimate_layers(program: Program) -> tuple[LayerWork, ...]:
    """Return blocks in order with forward time per mini-batch; raises `PipelineError` if partitioning fails."""
    factor = 2 + state_ratio(program)
    blocks = network_blocks(program)
    input_bytes = [0, *(block.crossing for block in blocks)]
    return tuple(
        LayerWork(
            Layer(block.path, int(block.parameter_bytes * factor), block.traffic // 2, activations),
            max(block.flops / _FLOPS, block.traffic / _BYTES),
        )
        for block, activations in zip(blocks, input_bytes, strict=False)
    )


def state_ratio(program: Program) -> float:
    """Return the bytes of optimizer state per byte of parameters."""
    state_bytes = {
        role: sum(argument.elements * itemsize(argument.dtype) for argument in program.arguments if argument.role is role) for role in STATE
    }
    return state_bytes[Role.OPTIMIZER_STATE] / max(state_bytes[Role.PARAMETER], 1)


def estimated_job(model: FleetModel, starts: Sequence[int]) -> Job:
    """Return the model, partitioned before the blocks `starts`, with unit times from FLOPs and memory traffic alone."""
    works = estimate_layers(model.program)
    ends = [*starts[1:], len(works)]
    forward = [sum(work.seconds for work in works[begin:end]) for begin, end in zip(starts, ends, strict=True)]
    transfer = [sum(work.layer.resident for work in works[begin:end]) / _BYTES for begin, end in zip(starts, ends, strict=True)]
    carry = [works[begin].layer.input_activations / _BYTES for begin in starts]
    last = len(starts) - 1
    forward_units = [Unit(i, Pass.FORWARD, _LAUNCH + forward[i], transfer[i], 0.0, carry[i]) for i in range(last)]
    loss_unit = Unit(last, Pass.FORWARD_LOSS, _LAUNCH + _BACKWARD_FACTOR * forward[last], transfer[last], transfer[last], carry[last])
    backward_units = [
        Unit(i, Pass.BACKWARD, _LAUNCH + _BACKWARD_FACTOR * forward[i], transfer[i], transfer[i], carry[i]) for i in reversed(range(last))
    ]
    return Job(model.name, (*forward_units, loss_unit, *backward_units), model.mini_batches, model.epochs)


def scale_job(job: Job, by: float) -> Job:
    """Scale the compute and transfer times of the job's units."""
    units = tuple(
        replace(unit, seconds=unit.seconds * by, load=unit.load * by, store=unit.store * by, carry=unit.carry * by, slowed=unit.slowed * by)
        for unit in job.units
    )
    return replace(job, units=units)
