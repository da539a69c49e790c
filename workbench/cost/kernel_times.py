"""Seconds of each kernel of a step on one device: a roofline over what it multiplies, what else it computes, and what it moves.

M, N, K: rows, columns and contracted elements of a dot on one device, rounded up to tiles (`tiles`).

On a TPU a kernel without dots takes as long as it reads and writes, or as it passes over its elements, whichever is longer; one with a dot
hides that pass behind it, and begins sooner. Numbers are those of libtpu 0.0.42.1, read off the third-party programs for fitting.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf, isfinite, prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from workbench.core.mesh import Mesh
from workbench.cost.fusion.kernel_table import KernelDot, Kernels
from workbench.cost.gpu_dots import BlockedDot, convolution_seconds, product_seconds
from workbench.cost.tile_padding import padded_volume, passes_volume
from workbench.cost.tuned_constants import tuned
from workbench.cost.windowed_dots import UNDECOMPOSED, WindowedSteps, Windows, decompose_collective_matmuls
from workbench.hardware.hardware import Chip
from workbench.propagation import Propagated, local_shape
from workbench.propagation.structure.operation_work import OperationWork
from workbench.propagation.structure.program_structure import Op

Seconds = NDArray[np.float64]
_BLOCK = 3  # sides of a tile that is no systolic array
_BLOCKS = 5  # and how many units work in parallel, and what a block loses at its ends
_SIDES = 2
_HALF = 2  # bytes
DOT_LAUNCH = tuned("dot_launch")
"""Launches that a kernel with a dot takes besides its own."""
_MATMUL, _BACKWARD = "matmul", "attention_backward"
ROUNDING = tuned("rounding")
"""Sweeps that rounding to two-byte floats takes."""
ROW_LAUNCHES = int(tuned("row_launches"))
"""Launches of an iteration of the loop over a scatter's rows."""
UNESTIMATED = frozenset(f"stablehlo.{each}" for each in ("gather", "scatter", "sort", "reduce_window", "select_and_scatter"))
"""Operations in whose kernels XLA:TPU gives no estimate of time."""


@dataclass(frozen=True, slots=True, eq=False)
class KernelTimes:
    """For one execution of each kernel: seconds of its dots, of its elementwise work and of its memory traffic, and in all.

    `moved` bytes and `steps` of elementwise work are what the latter two stand for. On a chip with a `sweep` elementwise work is in
    the time of the traffic: a pass over the elements, whatever is computed of each. `unestimated` says of which the chip's compiler gives
    no estimate.
    """

    dots: Seconds
    vector: Seconds
    memory: Seconds
    launch: Seconds
    moved: NDArray[np.float64]
    steps: NDArray[np.float64]
    unestimated: NDArray[np.bool_]

    @property
    def arithmetic(self) -> Seconds:
        return self.dots + self.vector

    @property
    def bound_by_memory(self) -> NDArray[np.bool_]:
        return self.memory > self.arithmetic

    @property
    def busy(self) -> Seconds:
        """Seconds at work: the longer of computing and memory traffic."""
        return np.maximum(self.arithmetic, self.memory)

    def total(self, executions: NDArray[np.int64]) -> float:
        """Seconds of all executions of all kernels, one after the other."""
        return float(((self.busy + self.launch) * executions).sum())

    def without(self, kernels: Sequence[int]) -> tuple["KernelTimes", float]:
        """The times without those of some kernels, and the seconds of these."""
        removed = np.bincount(np.asarray(kernels, dtype=np.int64), minlength=len(self.dots))
        dots, vector, memory, launch = ((1 - removed) * each for each in (self.dots, self.vector, self.memory, self.launch))
        return replace(self, dots=dots, vector=vector, memory=memory, launch=launch), self.total(removed)


def kernel_times(
    kernels: Kernels,
    partitioned: Propagated,
    local_bytes: Sequence[int],
    mesh: Mesh,
    chip: Chip,
    windows: Windows,
    backward: frozenset[int] = frozenset(),
) -> KernelTimes:
    """Roofline of all kernels of a plan; `local_bytes` are those of each value of the structure as laid out in memory, `windows` the dots
    that are multiplied piece by piece, `backward` those of the backward pass."""
    sizes = np.asarray(local_bytes, dtype=np.float64)
    sizes[kernels.numbers] = kernels.itemsizes[kernels.numbers]  # handled by the scalar unit, which pads nothing
    collective_matmul = decompose_collective_matmuls(kernels, partitioned, local_bytes, mesh, chip, windows)
    dots = _sum_dot_seconds(kernels, partitioned, mesh, chip, collective_matmul.steps, backward)
    stored = sizes.copy()
    stored[list(kernels.unfilled)] = 0.0
    moved = _count_moved_bytes(kernels, sizes, stored)
    is_large = sizes > (chip.on_chip or inf)
    large = _count_moved_bytes(kernels, sizes * is_large, stored * is_large)
    by_hand = _find_written_by_hand(kernels, partitioned) if chip.on_chip else np.zeros(kernels.count, dtype=np.bool_)
    memory = _moving_seconds(moved, np.where(by_hand, 0.0, large), (dots > 0) & ~by_hand, chip)
    elements = sizes[kernels.worked] / kernels.itemsizes[kernels.worked]
    steps = np.bincount(kernels.workers, elements * kernels.steps, kernels.count).astype(np.float64)
    vector = steps / (chip.vector_flops * chip.efficiency_of("vector"))
    launches = ((moved > 0) | (dots > 0)).astype(np.float64)  # the others were dropped as dead
    launches[list(kernels.continuing)] = 0.0
    unestimated = np.zeros(kernels.count, dtype=np.bool_)
    if isfinite(chip.sweep):
        swept = _swept_elements(kernels, stored, elements)
        passes = np.where(dots > 0, 0.0, swept / chip.sweep)
        memory = np.maximum(memory, passes) + (ROUNDING * _half_elements(kernels, stored) + collective_matmul.elements) / chip.sweep
        memory += collective_matmul.moved / (chip.memory_bandwidth * chip.efficiency_of("memory"))
        memory = np.maximum(memory, ROUNDING * collective_matmul.beside / chip.sweep)
        vector, launches = (
            np.zeros(kernels.count),
            # a single number is handled by the scalar unit, without a launch
            np.where(dots > 0, DOT_LAUNCH, swept > 1) + collective_matmul.launches + _count_row_launches(kernels, partitioned, mesh),
        )
        ops, serial = partitioned.structure.ops, set(kernels.serial)
        unestimated = np.array([op not in serial and ops[op].kind in UNESTIMATED for op in kernels.ops], dtype=np.bool_)
    share = chip.efficiency_of("sustained")
    launched = chip.launch / chip.efficiency_of("launch") * launches
    return KernelTimes(
        dots / share,
        vector / share,
        memory / share,
        launched,
        moved + collective_matmul.moved,
        steps,
        unestimated,
    )


def _count_row_launches(kernels: Kernels, partitioned: Propagated, mesh: Mesh) -> Seconds:
    """Launches of scatters that are a loop over rows."""
    found = np.zeros(kernels.count)
    structure = partitioned.structure
    for each in kernels.serial:
        places = structure.ops[each].operands[1]
        if (dims := partitioned.dims[places]) is not None:
            found[kernels.of[each]] += ROW_LAUNCHES * prod(local_shape(structure.values[places].shape, dims, mesh)[:-1])
    return found


def _find_written_by_hand(kernels: Kernels, partitioned: Propagated) -> NDArray[np.bool_]:
    """Which kernels are written by hand and have dots. They read the device's memory as they go, whatever the size of an array: XLA fetches
    nothing for them into on-chip memory ahead."""
    found = np.zeros(kernels.count, dtype=np.bool_)
    found[[each.kernel for each in kernels.dots if partitioned.structure.ops[each.op].custom_kernel]] = True
    return found


def _moving_seconds(moved: Seconds, large: Seconds, multiplies: NDArray[np.bool_], chip: Chip) -> Seconds:
    """Seconds to move so many bytes, some of which belong to arrays too large for on-chip memory."""
    reached = np.where(multiplies, chip.efficiency_of("operands"), chip.efficiency_of("memory"))
    return ((moved - large) / reached + large / chip.efficiency_of("large")) / chip.memory_bandwidth


def _count_moved_bytes(kernels: Kernels, read: Seconds, written: Seconds) -> Seconds:
    """Bytes each kernel moves, given the bytes of each value when it is read and when it is written."""
    inward = np.bincount(kernels.readers, read[kernels.read_extents], kernels.count)
    return (inward + np.bincount(kernels.writers, written[kernels.written], kernels.count)).astype(np.float64)


def _swept_elements(kernels: Kernels, sizes: Seconds, elements: Seconds) -> Seconds:
    """Elements each kernel passes over: of the largest array it works on or writes; `sizes` are bytes of what is stored."""
    found = np.zeros(kernels.count)
    np.maximum.at(found, kernels.workers, elements)
    np.maximum.at(found, kernels.writers, sizes[kernels.written] / kernels.itemsizes[kernels.written])
    return found


def _half_elements(kernels: Kernels, sizes: Seconds) -> Seconds:
    """Elements each kernel writes as two-byte floats; `sizes` are bytes of what is stored."""
    widths = kernels.itemsizes[kernels.written]
    halves = np.where(widths == _HALF, sizes[kernels.written] / widths, 0.0)
    return np.bincount(kernels.writers, halves, kernels.count).astype(np.float64)


def moved_bytes(kernels: Kernels, local_bytes: Sequence[int]) -> int:
    """Bytes one device reads and writes in its memory in a step."""
    sizes = np.asarray(local_bytes, dtype=np.float64)
    return int((_count_moved_bytes(kernels, sizes, sizes) * kernels.times).sum())


def _sum_dot_seconds(
    kernels: Kernels, partitioned: Propagated, mesh: Mesh, chip: Chip, steps: Mapping[int, WindowedSteps], backward: frozenset[int]
) -> Seconds:
    found = np.zeros(kernels.count)
    known: dict[tuple[object, ...], float] = {}
    values, ops = partitioned.structure.values, partitioned.structure.ops
    for each in kernels.dots:
        flops = partitioned.local_flops.get(each.op, 0)
        op = ops[each.op]
        dims = partitioned.dims[op.results[0]]
        if not flops or dims is None:  # dropped as dead
            continue
        value = values[op.results[0]]
        dtype = values[op.operands[0]].dtype
        dot_steps = steps.get(each.op, UNDECOMPOSED)
        work = _kind_of_work(op.custom_kernel, is_backward=each.op in backward)
        share = 1.0 if work == _MATMUL else _share_of(op, values[op.operands[0]].shape, value.shape)
        key = value.shape, each.batch, each.columns, dims, flops, dtype, work, dot_steps, op.work, share
        if key not in known:
            shape = local_shape(value.shape, dims, mesh)
            known[key] = _dot_seconds(each, op.work, shape, flops, dtype, chip, dot_steps, work, share)
        found[each.kernel] += known[key]
    return found


def _kind_of_work(custom_kernel: str, *, is_backward: bool) -> str:
    """The class of work of a dot, by whose share of the peak it is priced."""
    if not custom_kernel:
        return _MATMUL
    return _BACKWARD if is_backward else "attention"


def _share_of(op: Op, left: tuple[int, ...], result: tuple[int, ...]) -> float:
    """What the kernel around a dot computes of it (`fused_kernel`)."""
    return op.work.flops / max(2 * prod(result) * prod(left[dim] for dim in op.work.contracted), 1)


def _dot_seconds(
    dot: KernelDot,
    work: OperationWork,
    shape: tuple[int, ...],
    flops: int,
    dtype: str,
    chip: Chip,
    steps: WindowedSteps,
    kind: str,
    share: float,
) -> float:
    """Seconds of one dot; one inside a hand-written kernel has no kernel of its own to fill and to empty."""
    batch = prod(shape[dim] for dim in dot.batch)
    columns = prod(shape[dim] for dim in dot.columns)
    rows = prod(shape) // max(batch * columns, 1)
    summed = flops / (2 * max(prod(shape), 1))
    if len(chip.matmul_tile) == _BLOCKS and kind == _MATMUL:
        if work.convolution is not None:
            return convolution_seconds(work.convolution, shape, summed, dtype, chip)
        return product_seconds(BlockedDot(batch, rows, columns, summed), dtype, chip)
    if len(chip.matmul_tile) == _BLOCKS and chip.has_share(kind):
        attention = AttentionDot(batch, rows, columns, summed / share, share, is_backward=kind == _BACKWARD)
        return flops / (chip.peak(dtype) * chip.efficiency_of(kind)) * attention_slowdown(attention, chip.matmul_tile[3])
    reached = chip.efficiency_of(kind if chip.has_share(kind) else _MATMUL)
    if len(chip.matmul_tile) == _SIDES and work.passes > 1:
        busy = 2 * work.passes * passes_volume(rows, columns, summed * work.zeros / work.passes, chip.matmul_tile)
    else:
        if steps.is_summed:
            summed = ceil(summed / steps.count)
        elif steps.count > 1:  # the larger side: the weight's, whose pieces go around
            rows, columns = (rows, ceil(columns / steps.count)) if columns >= rows else (ceil(rows / steps.count), columns)
        busy = 2 * batch * steps.count * padded_volume(rows, columns, summed, chip.matmul_tile[:_BLOCK])
    return busy / (chip.peak(dtype) * reached)


# The share of a chip's peak that an attention kernel reaches, by the size of its heads, the length of its sequences, and their number.
#
# FlashAttention-2 (Dao 2023, arXiv:2307.08691, section 3.2) gives each unit a block of queries, which passes over blocks of keys; its
# backward pass the other way round. Of what the chip reaches with long sequences it loses
#
# - the softmax: every score is scaled, exponentiated and summed, as long as `SOFTMAX_DEPTH` multiply-adds: the smaller
# a head, the more; - the ends of a pass: a block is loaded and its result written, as long as `PASS_ENDS` blocks of keys; - the diagonal: a
# causal mask hides half of each block on it, which is computed; - units without a block, where heads times blocks of queries are fewer than
# units.
#
# With fewer queries than a tensor core multiplies at once, as in decoding, blocks of keys are shared among the units (Flash-Decoding, Dao
# et al. 2023), and rows that are not there are multiplied.

SOFTMAX_DEPTH = tuned("softmax_depth")
"""Multiply-adds that the softmax of a score takes as long as."""
PASS_ENDS = tuned("pass_ends")
"""Blocks of keys that the ends of a pass take as long as."""
_FEW = 16  # rows that a tensor core multiplies at once
_ATTENTION_BLOCK = 128  # queries, and keys, of a block with heads of up to 128


class AttentionDot(NamedTuple):
    """A dot inside an attention kernel on one device, of the three that `rows`, `columns` and `summed` may be: queries, keys, a head.

    `batch` is sequences x heads, `share` what the kernel computes of the dot: less than 1 where it skips what a mask hides.
    """

    batch: int
    rows: int
    columns: int
    summed: float
    share: float
    is_backward: bool


def attention_slowdown(dot: AttentionDot, units: int) -> float:
    """By how much slower it is than the share of its chip says.

    >>> round(attention_slowdown(AttentionDot(64, 4096, 4096, 128, 0.5, is_backward=False), units=108), 2)
    1.44
    >>> round(attention_slowdown(AttentionDot(64, 512, 512, 64, 0.5, is_backward=False), units=108), 2)
    2.84
    """
    head, *sequences = sorted((float(dot.rows), float(dot.columns), dot.summed))
    if head < _FEW and not dot.is_backward:  # so few are queries
        return _decoding_slowdown(dot.batch, (head, *sequences), units)
    passes, blocks = (ceil(each / _ATTENTION_BLOCK) for each in (sequences[::-1] if dot.is_backward else sequences))
    lost = PASS_ENDS + (0.5 if dot.share < 1 else 0.0)
    ends = 1 + lost / (dot.share * blocks)
    idle = max(units / max(dot.batch * passes, 1), 1.0)
    return (1 + SOFTMAX_DEPTH / max(head, 1.0)) * ends * idle


def _decoding_slowdown(batch: int, sides: Sequence[float], units: int) -> float:
    """The same for so few queries of each head: there is no pass over blocks of keys, but a unit for each. `sides` are queries, a head, and
    keys."""
    queries, head, keys = sides
    idle = max(units / max(batch * ceil(keys / _ATTENTION_BLOCK), 1), 1.0)
    return (1 + SOFTMAX_DEPTH / head) * _FEW / max(queries, 1.0) * idle
