"""Lower bounds for every layout and schedule of a program: seconds of its dots, bytes of its arguments."""

from collections.abc import Callable, Sequence
from dataclasses import fields

import numpy as np

from workbench.core.pipeline_spec import PipelineSpec
from workbench.core.program import Program
from workbench.core.schedules import PipelineShape, schedule_named
from workbench.core.tensor import Role
from workbench.cost.gpu_dots import has_tensor_cores
from workbench.cost.tile_padding import tiled_bytes
from workbench.hardware.hardware import Chip, Hardware
from workbench.plan.plan import Plan
from workbench.propagation import structure_of
from workbench.propagation.structure.program_structure import Op
from workbench.search.bounds.relaxed_blocks import BlockWork
from workbench.search.bounds.stage_bounds import Array, BlockTotals, LeastFigures, in_flight_per_chunk, update_seconds
from workbench.search.search_figures import NOMINAL
from workbench.search.traced_programs import ON_DEVICE

_WINOGRAD, _MASKED = 4.0, 2.0


def program_seconds(program: Program, hardware: Hardware | None) -> float:
    """Seconds of the program's dots on one device at the highest rate of `cost.kernel_times`, without remat."""
    structure = structure_of(program)
    seconds = 0.0
    for op in structure.ops:
        if op.work.flops and not op.is_recomputed:
            dtype = structure.values[op.operands[0]].dtype
            rate = _highest_rate(op, dtype, hardware.chip) if hardware else NOMINAL
            seconds += op.work.flops * structure.regions[op.region].runs_per_step / rate
    return seconds


def _highest_rate(op: Op, dtype: str, chip: Chip) -> float:
    """Upper bound in FLOP/s on the rate of every kernel for a dot. A hand-written kernel may skip half the work, where
    a mask hides it. A convolution on a GPU may need a fourth of the multiplications of its FLOPs (Winograd's F(4 x
    4, 3 x 3)), or run its groups on the vector unit.
    """
    reached = max(chip.efficiency_of("matmul"), *(chip.efficiency.get(kind, 0.0) for kind in ("attention", "attention_backward")))
    rate = chip.peak(dtype) * reached * chip.efficiency_of("sustained")
    if op.work.convolution is not None and (op.work.convolution.groups > 1 or not has_tensor_cores(chip, dtype)):
        return _WINOGRAD * rate
    return _MASKED * rate if op.custom_kernel else rate


def held_bytes(plan: Plan, offload: str) -> float:
    """Argument bytes on one device, without bytes kept on the host."""
    tile = plan.hardware.chip.array_tile if plan.hardware else ()
    placed = zip(plan.program.arguments, plan.argument_shardings, strict=True)
    on_device = (argument for argument in placed if offload == ON_DEVICE or argument[0].role is not Role.OPTIMIZER_STATE)
    return sum(tiled_bytes(tuple(sharding.local_shape(tensor.shape, plan.mesh)), tensor.dtype, tile) for tensor, sharding in on_device)


# Bounds for every schedule of a known partition: the least seconds of a step and the least bytes of a device.
#
# Letters as in `stage_bounds`: m micro-batches; stage k takes F_k, B_k and W_k seconds for forward, backward and both of a micro-batch,
# including recomputation; f is the first stage of a device. A device waits for the stages before it, and they wait for it:
#
#     step >= sum of F_k for k < f  +  m x sum of W_k of its stages  +  the greater of its update and the sum of B_k for k < f
#
# without the last term if backward is two tasks. When its first backward task begins, a device holds the residuals of all its forward
# passes so far; the order of the schedule gives their number per chunk.

_ROUNDING = 1 - 1e-9


def bound_known_partitions(
    spec: PipelineSpec, partitions: Sequence[Sequence[int]], blocks: BlockTotals, bandwidth: float, sum_seconds: Callable[[int], float]
) -> LeastFigures:
    """Bounds of a pipeline over all of these partitions."""
    figures = [partition_figures(spec, starts, blocks, bandwidth, sum_seconds) for starts in partitions]
    return LeastFigures(min(least.seconds for least in figures), min(least.memory for least in figures))


def partition_figures(
    spec: PipelineSpec, starts: Sequence[int], blocks: BlockTotals, bandwidth: float, sum_seconds: Callable[[int], float]
) -> LeastFigures:
    """Bounds for one partition; `starts` has the first blocks of all virtual stages but the first."""
    schedule, shape = schedule_named(spec.schedule), PipelineShape(spec.stages, spec.micro_batches, spec.chunks)
    first_blocks = np.array((0, *starts))
    again = np.array([schedule.device_of(stage, shape) < spec.recomputing_stages for stage in range(shape.stages)])

    def sums(values: Array) -> Array:
        return np.add.reduceat(values, first_blocks)

    forward, update = sums(blocks.forward), sums(update_seconds(blocks, bandwidth, sum_seconds))
    backward = sums(blocks.backward_input + blocks.backward_weight) + np.where(again, forward, 0.0)
    held = np.where(again, np.where(first_blocks > 0, blocks.received[first_blocks], 0.0), sums(blocks.kept))
    resident = sums(blocks.resident)
    seconds, bytes_ = [], []
    for device in range(spec.stages):
        stages = [stage for stage in range(shape.stages) if schedule.device_of(stage, shape) == device]
        back = 0.0 if schedule.splits_backward else float(backward[: stages[0]].sum())
        work = spec.micro_batches * float((forward[stages] + backward[stages]).sum())
        seconds.append(float(forward[: stages[0]].sum()) + work + max(back, float(update[stages].sum())))
        bytes_.append(float(resident[stages].sum() + np.dot(np.array(in_flight_per_chunk(schedule, device, shape)), held[stages])))
    return LeastFigures(max(seconds) * _ROUNDING, max(bytes_) * _ROUNDING)


# Bounds for every per-stage choice among several layouts: block by block, the cost of the cheapest layout.
#
# In a plan with one layout per stage every block is sharded as in one of the layouts, else it is rejected (`choose_stages`). The bounds of
# a pipeline increase with the costs of its blocks, so the bounds for the least costs hold for every such plan.


def minimum_block_totals(layouts: Sequence[BlockTotals]) -> BlockTotals:
    """Elementwise minimum of the block costs of several layouts."""
    columns = ([getattr(values, column.name) for values in layouts] for column in fields(BlockTotals))
    return BlockTotals(*(np.minimum.reduce(values) for values in columns))


def minimum_block_work(layouts: Sequence[BlockWork]) -> BlockWork:
    """Least work of the same blocks under several layouts, with the largest shareable part."""
    return BlockWork(
        min(work.forward for work in layouts),
        min(work.backward for work in layouts),
        max(work.shareable_forward for work in layouts),
        max(work.shareable_backward for work in layouts),
    )
