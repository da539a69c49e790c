"""Predict which dots XLA:TPU decomposes into steps on a ring (windowed einsum; Wang et al. 2023, "Overlap communication
with dependent computation via decomposition").

The rule is that of XLA's partitioner (`GetWindowedEinsumConfiguration` of dot_handler.cc, openxla/xla), checked against
libtpu's output. The partitioner handles the axes of a dot one group at a time; when it reaches the ring, only the ring
may remain:

- scattered: the contracted dimensions are sharded by the ring's axes only;
- gathered along a contracted dimension: the other operand's rows (or columns) are sharded by the ring's axes only,
  which is not the case with weights sharded within a slice, and the batch within and over slices;
- gathered along another dimension: the mesh has no other axes, otherwise the gather is made when these are handled;
- every mesh axis shards the dot: an axis that only replicates it stops the search.

Letters: n devices in the ring; X cost of the dot, C cost of the collective, as computed by XLA. It is windowed if that
saves time: max(X, C) + 2 C / n < X + C.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, prod

import numpy as np
from numpy.typing import NDArray

from workbench.core.mesh import Mesh
from workbench.core.sharding import axis_size, base_axis
from workbench.core.tensor import itemsize
from workbench.cost.fusion.kernel_table import KernelDot, Kernels
from workbench.cost.tuned_constants import tuned
from workbench.hardware.hardware import Chip
from workbench.propagation import TWO_BYTE_FLOATS, Propagated
from workbench.propagation.shardy_collectives import InsertedCollective
from workbench.propagation.structure.program_structure import Structure
from workbench.propagation.structure.stored_values import VIEWING, resolve_view

_V4 = tuned("ring_flops_v4")
_V5E = tuned("ring_flops_v5e")
_V5P = tuned("ring_flops_v5p")
_V6E = tuned("ring_flops_v6e")
_V7 = tuned("ring_flops_tpu7x")
RING_FLOPS = {"tpu:v4": _V4, "tpu:v5e": _V5E, "tpu:v5p": _V5P, "tpu:v6e": _V6E, "tpu:tpu7x": _V7}
"""FLOP of a dot equivalent to sending one byte of its collective in XLA:TPU, by chip target. For TPU v2 and v3
libtpu makes no windowed einsums."""
LONGEST_RING = 32  # devices; none is windowed over 64
_PIECES_PER_STEP = 2  # shards per step, one from each side
_DOT = "stablehlo.dot_general"


@dataclass(frozen=True, slots=True)
class WindowedSteps:
    """The decomposition of a dot: number of steps, and whether along its contracted dimension."""

    count: int
    is_summed: bool


UNDECOMPOSED = WindowedSteps(1, is_summed=False)
Windows = Mapping[int, WindowedSteps]


def plan_windowed_dots(kernels: Kernels, partitioned: Propagated, local_bytes: Sequence[int], mesh: Mesh, chip: Chip) -> Windows:
    """Return decompositions by index in `Propagated.reshards`; a dot uses one collective, preferably a reduce-scatter."""
    if chip.target not in RING_FLOPS:
        return {}
    planner = _Planner(kernels, partitioned, local_bytes, mesh, RING_FLOPS[chip.target])
    windows: dict[int, WindowedSteps] = {}
    decomposed: set[int] = set()
    for kind in ("reduce-scatter", "all-gather"):
        for number, collective in enumerate(partitioned.reshards):
            steps = planner.steps_of(collective) if collective.kind == kind and dot_of(collective) not in decomposed else None
            if steps is not None:
                windows[number] = steps
                decomposed.add(dot_of(collective))
    return windows


def dot_of(each: InsertedCollective) -> int:
    """Return the operation that a collective can be decomposed with: the one it reduces, or its reader; -1 if none."""
    if each.kind == "reduce-scatter":
        return -1 if each.source is None else each.source
    return each.before


class _Planner:
    def __init__(self, kernels: Kernels, partitioned: Propagated, local_bytes: Sequence[int], mesh: Mesh, ring_flops: float) -> None:
        self._kernels, self._partitioned, self._local_bytes, self._mesh = kernels, partitioned, local_bytes, mesh
        self._ring_flops = ring_flops
        self._structure = partitioned.structure
        self._dots = {each.op: each for each in kernels.dots}
        self._axes = {name for name, size in mesh.axes if size > 1}

    def steps_of(self, each: InsertedCollective) -> WindowedSteps | None:
        devices = prod(axis_size(axis, self._mesh) for axis in each.axes)
        dot = self._dots.get(dot_of(each))
        if dot is None or devices > LONGEST_RING or not self._saves_time(each, dot.op, devices) or not self._is_sharded_by_all(dot.op):
            return None
        is_summed = self._is_scattered(each, dot.op) if each.kind == "reduce-scatter" else self._is_gathered(each, dot, devices)
        return None if is_summed is None else WindowedSteps(ceil(devices / _PIECES_PER_STEP), is_summed and each.kind == "all-gather")

    def _saves_time(self, each: InsertedCollective, op: int, devices: int) -> bool:
        dot, sent = self._partitioned.local_flops.get(op, 0), each.payload * self._ring_flops
        return max(dot, sent) + 2 * sent / devices < dot + sent

    def _is_sharded_by_all(self, op: int) -> bool:
        record = self._structure.ops[op]
        return {base_axis(axis) for value in (*record.operands[:2], *record.results) for axis in self._axes_of(value)} == self._axes

    def _axes_of(self, value: int, dims: Sequence[int] | None = None) -> Iterator[str]:
        for number, axes in enumerate(self._partitioned.dims[value] or ()):
            if dims is None or number in dims:
                yield from axes

    def _is_scattered(self, each: InsertedCollective, op: int) -> bool | None:
        """Return whether only the ring shards the contracted dimensions."""
        record = self._structure.ops[op]
        if record.kind != _DOT or self._structure.values[record.results[0]].dtype not in TWO_BYTE_FLOATS:
            return None
        left = set(self._axes_of(record.operands[0], record.work.contracted))
        right = set(self._axes_of(record.operands[1], record.work.contracted_right))  # axes of only one operand are gathered first
        return True if left & right == set(each.axes) else None

    def _is_gathered(self, each: InsertedCollective, dot: KernelDot, devices: int) -> bool | None:
        """Return whether it is gathered along a contracted dimension; `None` if not windowed, as with a second dot."""
        gathered = self._find_gathered_operand(each, dot.op, devices)
        if gathered is None:
            return None
        side, is_summed = gathered
        value = self._structure.ops[dot.op].operands[side]
        if self._structure.values[value].dtype not in TWO_BYTE_FLOATS:
            return None
        if self._kernels.dot_reads.get(resolve_view(self._structure, value), 0) > 1:
            return None
        if not is_summed:
            return False if set(map(base_axis, each.axes)) == self._axes else None
        result = self._structure.ops[dot.op].results[0]
        rows = [dim for dim in range(len(self._structure.values[result].shape)) if dim not in (*dot.batch, *dot.columns)]
        others = set(self._axes_of(result, dot.columns if side == 0 else rows))
        return True if others == set(each.axes) else None

    def _find_gathered_operand(self, each: InsertedCollective, op: int, devices: int) -> tuple[int, bool] | None:
        """Return which operand of a dot is gathered, and whether along a contracted dimension."""
        record = self._structure.ops[op]
        if record.kind != _DOT:
            return None
        maker = -1 if each.source is None else each.source
        contracted = (record.work.contracted, record.work.contracted_right)
        for side, operand in enumerate(record.operands[:2]):
            dims = self._partitioned.dims[operand] or ()
            along = [i for i, axes in enumerate(dims) if set(axes) & set(each.axes)]
            if self._structure.values[operand].maker == maker and along and self._local_bytes[operand] * devices == each.payload:
                return side, any(i in contracted[side] for i in along)
        return None


# Effects of collectives on kernels: a collective inside a kernel splits it, and a collective matmul's dot becomes several kernels.
#
# A windowed einsum decomposes a gather or reduce-scatter of n shards. Shards go around the ring in both directions, and each
# of n / 2 steps multiplies two in a separate kernel:
#
# - gathered along a contracted dimension, every step adds to the whole result, which it reads, rounds and writes
# beside its dot; - gathered along another one, every step's columns are written into a zero-filled result by two more kernels; -
# scattered, another kernel adds every step's dot to the received shard.
#
# The dot's epilogue is a separate kernel in the first two cases.

PIECEWISE = frozenset({"all-gather", "reduce-scatter", "all-to-all"})
"""Collectives whose shards another kernel reorders before or after."""


@dataclass(frozen=True, slots=True, eq=False)
class CollectiveMatmul:
    """Additional launches, `moved` bytes and swept `elements` per kernel; `beside`: elements rounded beside dots."""

    launches: NDArray[np.float64]
    moved: NDArray[np.float64]
    elements: NDArray[np.float64]
    beside: NDArray[np.float64]
    steps: dict[int, WindowedSteps] = field(default_factory=dict)

    def add(self, kernel: int, launches: float, moved: float, elements: float = 0.0) -> None:
        self.launches[kernel] += launches
        self.moved[kernel] += moved
        self.elements[kernel] += elements


def decompose_collective_matmuls(
    kernels: Kernels, partitioned: Propagated, local_bytes: Sequence[int], mesh: Mesh, chip: Chip, windows: Windows
) -> CollectiveMatmul:
    """Return the effect on all kernels of a plan; `local_bytes` are those of each value of the structure."""
    launches, moved, elements, beside = (np.zeros(kernels.count) for _ in range(4))
    collective_matmul = CollectiveMatmul(launches, moved, elements, beside)
    structure = partitioned.structure
    for number, collective in enumerate(partitioned.reshards if chip.platform == "tpu" else ()):
        maker = kernels.of[collective.source] if collective.source is not None else -1
        is_cast = collective.source is not None and maker < 0 and structure.ops[collective.source].kind not in VIEWING
        reader = kernels.of[collective.before]
        width = 4 if collective.source is None else itemsize(structure.values[structure.ops[collective.source].results[0]].dtype)
        devices = prod(axis_size(axis, mesh) for axis in collective.axes)
        sent = collective.payload // devices if collective.kind == "all-gather" else collective.payload
        if maker >= 0 and maker == reader:  # written, then read again
            collective_matmul.add(reader, 1, sent + collective.local_bytes, collective.local_bytes / width)
        elif collective.kind in PIECEWISE and max(maker, reader) >= 0:
            collective_matmul.add(reader if reader >= 0 else maker, 1, 0)
        elif reader >= 0:
            if is_cast:  # without the collective its reader would cast it
                collective_matmul.add(reader, 1, sent, sent / width)
            collective_matmul.add(reader, 0, max(collective.local_bytes - sent, 0) if collective.kind == "all-gather" else 0)
        if number in windows:
            _add_windowed_einsum(collective_matmul, collective, windows[number], kernels, structure, local_bytes)
    return collective_matmul


def _add_windowed_einsum(
    collective_matmul: CollectiveMatmul,
    each: InsertedCollective,
    steps: WindowedSteps,
    kernels: Kernels,
    structure: Structure,
    local_bytes: Sequence[int],
) -> None:
    op = dot_of(each)
    kernel, value = kernels.of[op], structure.ops[op].results[0]
    size = local_bytes[value]
    elements = size / itemsize(structure.values[value].dtype)
    collective_matmul.steps[op] = steps
    n = steps.count
    if each.kind == "reduce-scatter":
        collective_matmul.add(kernel, n - 1 + n, 3 * size, elements)
    elif steps.is_summed:
        collective_matmul.add(kernel, n - 1 + 1, 2 * (n - 1) * size + 2 * size)
        collective_matmul.beside[kernel] += n * elements
    else:
        collective_matmul.add(kernel, n - 1 + 2 * n + 2, 3 * size + 2 * size)
