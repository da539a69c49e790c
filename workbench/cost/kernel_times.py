"""Predict the time of each kernel on one device: a roofline of dots, elementwise work and memory traffic.

M, N, K: rows, columns and contracted elements of a dot on one device, rounded up to tiles (`tiles`).

On a TPU a kernel without dots takes the longer of its memory traffic and a pass over its elements; a kernel with a dot
overlaps that pass and starts sooner. Constants are of libtpu 0.0.42.1, from the third-party programs used for fitting.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf, isfinite, prod, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from workbench.core.mesh import Mesh
from workbench.cost.fusion.kernel_table import KernelDot, Kernels
from workbench.cost.gpu_dots import BlockedDot, convolution_seconds, product_seconds
from workbench.cost.tile_padding import padded_volume, passes_volume
from workbench.cost.tuned_constants import tuned
from workbench.cost.windowed_dots import UNDECOMPOSED, WindowedSteps, Windows, decompose_collective_matmuls
from workbench.hardware.hardware import Chip, Hardware
from workbench.propagation import Propagated, local_shape
from workbench.propagation.structure.operation_work import OperationWork
from workbench.propagation.structure.program_structure import Op

Seconds = NDArray[np.float64]
_BLOCK = 3  # sides of a tile without a systolic array
_BLOCKS = 5  # also parallel units, and loss at the ends of a block
_SIDES = 2
_HALF = 2  # bytes
DOT_LAUNCH = tuned("dot_launch")
"""Additional launches of a kernel with a dot."""
_MATMUL, _BACKWARD = "matmul", "attention_backward"
ROUNDING = tuned("rounding")
"""Sweeps needed to round to two-byte floats."""
ROW_LAUNCHES = int(tuned("row_launches"))
"""Launches per iteration of a row-by-row scatter."""
UNESTIMATED = frozenset(f"stablehlo.{kind}" for kind in ("gather", "scatter", "sort", "reduce_window", "select_and_scatter"))
"""Operations whose kernels XLA:TPU does not estimate."""


@dataclass(frozen=True, slots=True, eq=False)
class KernelTimes:
    """Seconds per execution of each kernel: dots, elementwise work, memory traffic and launch.

    `moved` are bytes, `steps` elementwise steps. On a chip with a `sweep`, elementwise work is included in `memory` as
    a pass over the elements, regardless of their computation. `unestimated`: kernels that the chip's compiler does not
    estimate.
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
        """Seconds at work: the longer of computation and memory traffic."""
        return np.maximum(self.arithmetic, self.memory)

    def total(self, executions: NDArray[np.int64]) -> float:
        """Return the seconds of all executions, one after the other."""
        return float(((self.busy + self.launch) * executions).sum())

    def without(self, kernels: Sequence[int]) -> tuple["KernelTimes", float]:
        """Return the times without some kernels, and the seconds of these."""
        removed = np.bincount(np.asarray(kernels, dtype=np.int64), minlength=len(self.dots))
        dots, vector, memory, launch = ((1 - removed) * seconds for seconds in (self.dots, self.vector, self.memory, self.launch))
        return replace(self, dots=dots, vector=vector, memory=memory, launch=launch), self.total(removed)


def kernel_times(
    kernels: Kernels,
    partitioned: Propagated,
    local_bytes: Sequence[int],
    mesh: Mesh,
    hardware: Hardware,
    windows: Windows,
    backward: frozenset[int] = frozenset(),
) -> KernelTimes:
    """Return roofline times; `local_bytes` are per value in memory, `windows` decomposed dots, `backward` dots."""
    chip, sizes = hardware.chip, np.asarray(local_bytes, dtype=np.float64)
    sizes[kernels.numbers] = kernels.itemsizes[kernels.numbers]  # scalars are not padded
    collective_matmul = decompose_collective_matmuls(kernels, partitioned, local_bytes, mesh, chip, windows)
    dots = _sum_dot_seconds(kernels, partitioned, mesh, hardware, collective_matmul.steps, backward)
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
    launches = ((moved > 0) | (dots > 0)).astype(np.float64)  # other kernels were removed as dead
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
            # scalars need no launch
            np.where(dots > 0, DOT_LAUNCH, swept > 1) + collective_matmul.launches + _count_row_launches(kernels, partitioned, mesh),
        )
        ops, serial = partitioned.structure.ops, set(kernels.serial)
        unestimated = np.array([op not in serial and ops[op].kind in UNESTIMATED for op in kernels.ops], dtype=np.bool_)
    share = chip.efficiency_of("sustained")
    launched = chip.launch / chip.efficiency_of("launch") * launches
    return KernelTimes(dots / share, vector / share, memory / share, launched, moved + collective_matmul.moved, steps, unestimated)


def _count_row_launches(kernels: Kernels, partitioned: Propagated, mesh: Mesh) -> Seconds:
    launches = np.zeros(kernels.count)
    structure = partitioned.structure
    for scatter in kernels.serial:
        places = structure.ops[scatter].operands[1]
        if (dims := partitioned.dims[places]) is not None:
            launches[kernels.of[scatter]] += ROW_LAUNCHES * prod(local_shape(structure.values[places].shape, dims, mesh)[:-1])
    return launches


def _find_written_by_hand(kernels: Kernels, partitioned: Propagated) -> NDArray[np.bool_]:
    """Find hand-written kernels with dots; they stream from device memory, because XLA prefetches nothing for them."""
    mask = np.zeros(kernels.count, dtype=np.bool_)
    mask[[dot.kernel for dot in kernels.dots if partitioned.structure.ops[dot.op].custom_kernel]] = True
    return mask


def _moving_seconds(moved: Seconds, large: Seconds, multiplies: NDArray[np.bool_], chip: Chip) -> Seconds:
    """Return the seconds to move bytes, of which `large` belong to arrays too large for on-chip memory."""
    reached = np.where(multiplies, chip.efficiency_of("operands"), chip.efficiency_of("memory"))
    return ((moved - large) / reached + large / chip.efficiency_of("large")) / chip.memory_bandwidth


def _count_moved_bytes(kernels: Kernels, read: Seconds, written: Seconds) -> Seconds:
    """Return the bytes each kernel moves, given each value's bytes when read and when written."""
    inward = np.bincount(kernels.readers, read[kernels.read_extents], kernels.count)
    return (inward + np.bincount(kernels.writers, written[kernels.written], kernels.count)).astype(np.float64)


def _swept_elements(kernels: Kernels, sizes: Seconds, elements: Seconds) -> Seconds:
    """Return the elements of the largest array each kernel works on or writes; `sizes` are stored bytes."""
    elements_swept = np.zeros(kernels.count)
    np.maximum.at(elements_swept, kernels.workers, elements)
    np.maximum.at(elements_swept, kernels.writers, sizes[kernels.written] / kernels.itemsizes[kernels.written])
    return elements_swept


def _half_elements(kernels: Kernels, sizes: Seconds) -> Seconds:
    widths = kernels.itemsizes[kernels.written]
    halves = np.where(widths == _HALF, sizes[kernels.written] / widths, 0.0)
    return np.bincount(kernels.writers, halves, kernels.count).astype(np.float64)


def moved_bytes(kernels: Kernels, local_bytes: Sequence[int]) -> int:
    """Return the bytes one device reads and writes in its memory per step."""
    sizes = np.asarray(local_bytes, dtype=np.float64)
    return int((_count_moved_bytes(kernels, sizes, sizes) * kernels.times).sum())


def _sum_dot_seconds(
    kernels: Kernels, partitioned: Propagated, mesh: Mesh, hardware: Hardware, steps: Mapping[int, WindowedSteps], backward: frozenset[int]
) -> Seconds:
    seconds = np.zeros(kernels.count)
    cached: dict[tuple[object, ...], float] = {}
    values, ops = partitioned.structure.values, partitioned.structure.ops
    for dot in kernels.dots:
        flops = partitioned.local_flops.get(dot.op, 0)
        op = ops[dot.op]
        dims = partitioned.dims[op.results[0]]
        if not flops or dims is None:  # removed as dead
            continue
        value = values[op.results[0]]
        dtype = values[op.operands[0]].dtype
        dot_steps = steps.get(dot.op, UNDECOMPOSED)
        work = _kind_of_work(op.custom_kernel, is_backward=dot.op in backward)
        share = 1.0 if work == _MATMUL else _share_of(op, values[op.operands[0]].shape, value.shape)
        key = value.shape, dot.batch, dot.columns, dims, flops, dtype, work, dot_steps, op.work, share
        if key not in cached:
            shape = local_shape(value.shape, dims, mesh)
            cached[key] = _dot_seconds(dot, op.work, shape, flops, dtype, hardware.chip, dot_steps, work, share)
            if share < 1 and not hardware.runtime.balances_causal:
                cached[key] *= _causal_imbalance(dot, op, partitioned, mesh, flops)
        seconds[dot.kernel] += cached[key]
    return seconds


def _causal_imbalance(dot: KernelDot, op: Op, partitioned: Propagated, mesh: Mesh, flops: int) -> float:
    """How much longer than the mean device the last one attends, whose queries see the most keys, where a sequence is split into n
    contiguous parts: 2 - 1 / n. (A ring of 8 reaches 54 % of unsharded FlashAttention: ring-flash-attention's README.) With a window, a
    device attends to that at most, which differs little from the mean."""
    shape, left = (partitioned.structure.values[value].shape for value in (op.results[0], op.operands[0]))
    columns = {shape[dim] for dim in dot.columns}
    rows = {size for dim, size in enumerate(shape) if dim not in (*dot.batch, *dot.columns)}
    summed = {left[dim] for dim in op.work.contracted}
    sequences = rows & columns | rows & summed | columns & summed
    local = local_shape(shape, partitioned.dims[op.results[0]] or (), mesh)
    beside = prod(size / part for size, part in zip(shape, local, strict=True) if size not in sequences)
    parts = max(op.work.flops / flops / beside, 1.0)
    return imbalance_of_last(parts, _share_of(op, left, shape))


def imbalance_of_last(parts: float, share: float) -> float:
    """Keys that a query of the last of `parts` of a sequence sees, relative to the mean query, if a kernel computes `share` of the scores.

    >>> imbalance_of_last(8, 0.5), round(imbalance_of_last(8, 0.1171875), 3)
    (1.875, 1.067)
    """
    if share > _WINDOWED:
        return 2 - 1 / parts
    window = 1 - sqrt(1 - 2 * share)  # share = window - window^2 / 2
    partial = max(window - (1 - 1 / parts), 0.0)  # the part of the sequence whose queries see fewer keys than a window
    return (window - parts * partial**2 / 2) / share


def _kind_of_work(custom_kernel: str, *, is_backward: bool) -> str:
    if not custom_kernel:
        return _MATMUL
    return _BACKWARD if is_backward else "attention"


def _share_of(op: Op, left: tuple[int, ...], result: tuple[int, ...]) -> float:
    """Return the fraction of a dot that its hand-written kernel computes (`fused_kernel`)."""
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
    """Return the seconds of one dot; inside a hand-written kernel without ramp-up and drain of its own."""
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
        elif steps.count > 1:  # split the larger side, that of the rotating weight
            rows, columns = (rows, ceil(columns / steps.count)) if columns >= rows else (ceil(rows / steps.count), columns)
        busy = 2 * batch * steps.count * padded_volume(rows, columns, summed, chip.matmul_tile[:_BLOCK])
    return busy / (chip.peak(dtype) * reached)


# Efficiency of attention kernels by head size, sequence length and number of sequences.
#
# FlashAttention-2 (Dao 2023, arXiv:2307.08691, section 3.2) gives each unit a block of queries, which passes over blocks of keys, and
# vice versa in the backward pass. Losses against the efficiency with long sequences:
#
# - softmax: every score is scaled, exponentiated and summed, which takes `SOFTMAX_DEPTH` multiply-adds and matters more for small
# heads; - ends of a pass: loading a block and writing its result takes `PASS_ENDS` blocks of keys; - diagonal: a
# causal mask hides half of each block on it, which is still computed, and a window half of each block at its other end; - idle units, if
# heads times blocks of queries are fewer than units.
#
# With fewer queries than tensor core rows, as in decoding, blocks of keys are distributed over the units (Flash-Decoding, Dao
# et al. 2023), and missing rows are computed as padding.

SOFTMAX_DEPTH = tuned("softmax_depth")
"""Multiply-adds equivalent to the softmax of one score."""
PASS_ENDS = tuned("pass_ends")
"""Blocks of keys equivalent to the ends of a pass."""
_FEW = 16  # rows of a tensor core
_WINDOWED = 0.4999  # a causal mask leaves half of the scores; a window leaves less
_ATTENTION_BLOCK = 128  # queries or keys per block, for heads of up to 128


class AttentionDot(NamedTuple):
    """A dot of an attention kernel over queries, keys and head size in any order; `batch` is sequences x heads.

    `share`: the computed fraction, below 1 if masked blocks are skipped.
    """

    batch: int
    rows: int
    columns: int
    summed: float
    share: float
    is_backward: bool


def attention_slowdown(dot: AttentionDot, units: int) -> float:
    """Return the slowdown relative to the chip's attention efficiency.

    >>> round(attention_slowdown(AttentionDot(64, 4096, 4096, 128, 0.5, is_backward=False), units=108), 2)
    1.44
    >>> round(attention_slowdown(AttentionDot(64, 512, 512, 64, 0.5, is_backward=False), units=108), 2)
    2.84
    """
    head, *sequences = sorted((float(dot.rows), float(dot.columns), dot.summed))
    if head < _FEW and not dot.is_backward:  # queries of decoding
        return _decoding_slowdown(dot.batch, (head, *sequences), units)
    passes, blocks = (ceil(length / _ATTENTION_BLOCK) for length in (sequences[::-1] if dot.is_backward else sequences))
    lost = PASS_ENDS + (0.5 if dot.share < 1 else 0.0) + (0.5 if dot.share < _WINDOWED else 0.0)
    ends = 1 + lost / (dot.share * blocks)
    idle = max(units / max(dot.batch * passes, 1), 1.0)
    return (1 + SOFTMAX_DEPTH / max(head, 1.0)) * ends * idle


def _decoding_slowdown(batch: int, sides: Sequence[float], units: int) -> float:
    """Return the slowdown with few queries per head: a unit per block of keys. `sides` are queries, head size and keys."""
    queries, head, keys = sides
    idle = max(units / max(batch * ceil(keys / _ATTENTION_BLOCK), 1), 1.0)
    return (1 + SOFTMAX_DEPTH / head) * _FEW / max(queries, 1.0) * idle
