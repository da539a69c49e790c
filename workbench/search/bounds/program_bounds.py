"""What no plan of a program needs less of, whatever its layout and schedule: the seconds of its dots, the bytes of its arguments."""

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
from workbench.search.bounds.relaxed_blocks import DATA, BlockWork
from workbench.search.bounds.stage_bounds import Array, BlockTotals, LeastFigures, chunk_flights, update_seconds
from workbench.search.plan_candidate import PlanCandidate
from workbench.search.search_figures import NOMINAL
from workbench.search.traced_programs import ON_DEVICE

_WINOGRAD, _MASKED = 4.0, 2.0


def program_seconds(program: Program, hardware: Hardware | None) -> float:
    """Seconds of the program's dots on one device as fast as the planner lets it make any (`cost.kernel_times`), without what is computed
    again."""
    structure = structure_of(program)
    seconds = 0.0
    for op in structure.ops:
        if op.work.flops and not op.is_recomputed:
            dtype = structure.values[op.operands[0]].dtype
            rate = _highest_rate(op, dtype, hardware.chip) if hardware else NOMINAL
            seconds += op.work.flops * structure.regions[op.region].runs_per_step / rate
    return seconds


def _highest_rate(op: Op, dtype: str, chip: Chip) -> float:
    """FLOP/s that no kernel for a dot is above. One of a hand-written kernel may skip half of it, what a mask hides; a convolution on a GPU
    may multiply a fourth of what its FLOPs say (Winograd's F(4 x 4, 3 x 3)), or its groups on the vector unit."""
    reached = max(chip.efficiency_of("matmul"), *(chip.efficiency.get(kind, 0.0) for kind in ("attention", "attention_backward")))
    rate = chip.peak(dtype) * reached * chip.efficiency_of("sustained")
    if op.work.convolution is not None and (op.work.convolution.groups > 1 or not has_tensor_cores(chip, dtype)):
        return _WINOGRAD * rate
    return _MASKED * rate if op.custom_kernel else rate


def least_bytes(plan: Plan, core: PlanCandidate) -> float:
    """Bytes of the arguments on one device, were they shared evenly among replicas and stages; without those that the host keeps."""
    tile = plan.hardware.chip.array_tile if plan.hardware else ()
    placed = zip(plan.program.arguments, plan.argument_shardings, strict=True)
    here = (each for each in placed if core.offload == ON_DEVICE or each[0].role is not Role.OPTIMIZER_STATE)
    total = sum(tiled_bytes(tuple(sharding.local_shape(tensor.shape, plan.mesh)), tensor.dtype, tile) for tensor, sharding in here)
    return total / (core.size(DATA) * core.size("stage"))


# What no schedule can beat where it is known which blocks a stage has: the least seconds of a step and the least bytes of a device.
#
# Letters as in `stage_bounds`: m micro-batches; stage k takes F_k, B_k, W_k seconds forward, backward and both of a micro-batch, with what
# it recomputes; f is the first stage of a device. A device waits for the stages before, and they for it:
#
#     step >= sum of F_k for k < f  +  m x sum of W_k of its stages  +  the greater of its update and the sum of B_k for k < f
#
# without the last where backward is two tasks. When its first backward task begins, a device holds what all its forward passes so far have
# left: a schedule's order says how many of each chunk.

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
    again = np.array([schedule.device_of(stage, shape) < spec.recomputing_stages for stage in range(shape.stages)])

    def sums(values: Array) -> Array:
        return np.add.reduceat(values, first_blocks)

    forward, update = sums(blocks.forward), sums(update_seconds(blocks, bandwidth, sum_seconds))
    backward = sums(blocks.backward_input + blocks.backward_weight) + np.where(again, forward, 0.0)
    held = np.where(again, np.where(first_blocks > 0, blocks.received[first_blocks], 0.0), sums(blocks.kept))
    resident = sums(blocks.resident)
    seconds, bytes_ = [], []
    for device in range(spec.stages):
        mine = [stage for stage in range(shape.stages) if schedule.device_of(stage, shape) == device]
        back = 0.0 if schedule.splits_backward else float(backward[: mine[0]].sum())
        work = spec.micro_batches * float((forward[mine] + backward[mine]).sum())
        seconds.append(float(forward[: mine[0]].sum()) + work + max(back, float(update[mine].sum())))
        bytes_.append(float(resident[mine].sum() + np.dot(np.array(chunk_flights(schedule, device, shape)), held[mine])))
    return LeastFigures(max(seconds) * _ROUNDING, max(bytes_) * _ROUNDING)


# What no choice among several layouts, made for each stage, can beat: block by block, what the layout needs that needs least.
#
# A plan that is composed of layouts, one a stage, has every block as one of them has it, or it is not taken (`choose_stages`). Bounds of a
# pipeline rise with the costs of its blocks, so that those of the least costs are bounds of every such plan.


def least_totals(layouts: Sequence[BlockTotals]) -> BlockTotals:
    """Of each block the least of each cost."""
    columns = ([getattr(each, column.name) for each in layouts] for column in fields(BlockTotals))
    return BlockTotals(*(np.minimum.reduce(each) for each in columns))


def least_work(layouts: Sequence[BlockWork]) -> BlockWork:
    """The least work of the same blocks, of which the most may be shared."""
    return BlockWork(
        min(each.forward for each in layouts),
        min(each.backward for each in layouts),
        max(each.shareable_forward for each in layouts),
        max(each.shareable_backward for each in layouts),
    )
