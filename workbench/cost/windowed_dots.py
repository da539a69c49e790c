"""Which dots XLA:TPU multiplies piece by piece while it moves the pieces around a ring (windowed einsum; Wang et al. 2023, "Overlap
communication with dependent computation via decomposition").

The rule is that of XLA's partitioner (`GetWindowedEinsumConfiguration` of dot_handler.cc, openxla/xla), held against what libtpu compiles.
It takes the axes of a dot apart one group at a time; what is left when it comes to the ring must be the ring alone:

- scattered: the contracted dimensions are sharded by the ring's axes, and by nothing else;
- gathered along a contracted dimension: the other operand's rows (or columns) are sharded by the ring's axes, and by nothing else. With
  weights sharded within a slice, and the batch within and over slices, they are not;
- gathered along another dimension: the mesh has no other axes, else the gather is made when these are taken off;
- every axis of the mesh shards the dot: one that only replicates it stops the search.

Letters: n devices in the ring; X cost of the dot, C cost of the collective by XLA's own account. It is windowed if that saves time:
max(X, C) + 2 C / n < X + C.
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
"""By the target of a chip: FLOPs of a dot that take as long as sending one byte of its collective, by XLA:TPU's account. For TPU v2 and v3
libtpu makes no windowed einsums."""
LONGEST_RING = 32  # devices: over 64 none is windowed
_PIECES_PER_STEP = 2  # shards a step: one from either side
_DOT = "stablehlo.dot_general"


@dataclass(frozen=True, slots=True)
class WindowedSteps:
    """How a dot is decomposed: into how many steps, and whether along its contracted dimension."""

    count: int
    is_summed: bool


UNDECOMPOSED = WindowedSteps(1, is_summed=False)
Windows = Mapping[int, WindowedSteps]


def plan_windowed_dots(kernels: Kernels, partitioned: Propagated, local_bytes: Sequence[int], mesh: Mesh, chip: Chip) -> Windows:
    """By a collective's place in `Propagated.reshards`: how its dot is decomposed. A dot is so along one of its collectives, and rather
    along what is scattered; `local_bytes` are those of each value of the structure."""
    if chip.target not in RING_FLOPS:
        return {}
    planner = _Planner(kernels, partitioned, local_bytes, mesh, RING_FLOPS[chip.target])
    found: dict[int, WindowedSteps] = {}
    taken: set[int] = set()
    for kind in ("reduce-scatter", "all-gather"):
        for number, each in enumerate(partitioned.reshards):
            steps = planner.steps_of(each) if each.kind == kind and dot_of(each) not in taken else None
            if steps is not None:
                found[number] = steps
                taken.add(dot_of(each))
    return found


def dot_of(each: InsertedCollective) -> int:
    """The operation that a collective can be decomposed with: what it reduces, or what reads it; -1 if there is none."""
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
        """By XLA's account, in FLOPs."""
        dot, sent = self._partitioned.local_flops.get(op, 0), each.payload * self._ring_flops
        return max(dot, sent) + 2 * sent / devices < dot + sent

    def _is_sharded_by_all(self, op: int) -> bool:
        """Whether every axis of the mesh shards the dot."""
        record = self._structure.ops[op]
        return {base_axis(axis) for value in (*record.operands[:2], *record.results) for axis in self._axes_of(value)} == self._axes

    def _axes_of(self, value: int, dims: Sequence[int] | None = None) -> Iterator[str]:
        """The axes that shard a value, or some of its dimensions."""
        for number, axes in enumerate(self._partitioned.dims[value] or ()):
            if dims is None or number in dims:
                yield from axes

    def _is_scattered(self, each: InsertedCollective, op: int) -> bool | None:
        """Whether the ring is all that shards what the dot contracts."""
        record = self._structure.ops[op]
        if record.kind != _DOT or self._structure.values[record.results[0]].dtype not in TWO_BYTE_FLOATS:
            return None
        left = set(self._axes_of(record.operands[0], record.work.contracted))
        right = set(self._axes_of(record.operands[1], record.work.contracted_right))  # of what one has alone, it is gathered first
        return True if left & right == set(each.axes) else None

    def _is_gathered(self, each: InsertedCollective, dot: KernelDot, devices: int) -> bool | None:
        """Whether the gathered operand is so along what the dot contracts; `None` if it is not windowed, as where another dot reads it."""
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
        """Which operand of a dot is gathered, and whether along a contracted dimension."""
        record = self._structure.ops[op]
        if record.kind != _DOT:
            return None
        born = -1 if each.source is None else each.source
        contracted = (record.work.contracted, record.work.contracted_right)
        for side, operand in enumerate(record.operands[:2]):
            dims = self._partitioned.dims[operand] or ()
            along = [i for i, axes in enumerate(dims) if set(axes) & set(each.axes)]
            if self._structure.values[operand].maker == born and along and self._local_bytes[operand] * devices == each.payload:
                return side, any(i in contracted[side] for i in along)
        return None


# The effect of collectives on kernels: one with a collective in its middle becomes two, and a collective matmul's dot becomes many.
#
# A windowed einsum (see `windowed_dots`) decomposes a gather or a reduce-scatter of n shards. Shards go around the ring both ways, and each
# of n / 2 steps multiplies two, in a kernel of its own:
#
# - gathered along a contracted dimension, every step adds to the whole result, which it reads, rounds and writes again
# beside its dot; - gathered along another one, every step's columns are written into the result by two more kernels, zeros to begin with; -
# scattered, every step's dot is added to what was received, by another kernel.
#
# What would have been the dot's epilogue is a kernel of its own in the first two.

PIECEWISE = frozenset({"all-gather", "reduce-scatter", "all-to-all"})
"""Kinds whose shards another kernel brings into their order, before or after."""


@dataclass(frozen=True, slots=True, eq=False)
class CollectiveMatmul:
    """What each kernel launches, moves (bytes) and passes over (elements) in addition, per execution; `beside`: elements that it sums up
    and rounds beside its dots, while these run; `steps` of decomposed dots."""

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
    """The effect on all kernels of a plan; `local_bytes` are those of each value of the structure."""
    launches, moved, elements, beside = (np.zeros(kernels.count) for _ in range(4))
    collective_matmul = CollectiveMatmul(launches, moved, elements, beside)
    structure = partitioned.structure
    for number, each in enumerate(partitioned.reshards if chip.platform == "tpu" else ()):
        maker = kernels.of[each.source] if each.source is not None else -1
        is_cast = each.source is not None and maker < 0 and structure.ops[each.source].kind not in VIEWING
        reader = kernels.of[each.before]
        width = 4 if each.source is None else itemsize(structure.values[structure.ops[each.source].results[0]].dtype)
        devices = prod(axis_size(axis, mesh) for axis in each.axes)
        sent = each.payload // devices if each.kind == "all-gather" else each.payload
        if maker >= 0 and maker == reader:  # written, and read again
            collective_matmul.add(reader, 1, sent + each.local_bytes, each.local_bytes / width)
        elif each.kind in PIECEWISE and max(maker, reader) >= 0:
            collective_matmul.add(reader if reader >= 0 else maker, 1, 0)
        elif reader >= 0:
            if is_cast:  # its reader would cast it itself
                collective_matmul.add(reader, 1, sent, sent / width)
            collective_matmul.add(reader, 0, max(each.local_bytes - sent, 0) if each.kind == "all-gather" else 0)
        if number in windows:
            _add_windowed_einsum(collective_matmul, each, windows[number], kernels, structure, local_bytes)
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
