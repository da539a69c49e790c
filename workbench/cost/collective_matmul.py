"""The effect of collectives on kernels: one with a collective in its middle becomes two, and a collective matmul's dot becomes many.

A windowed einsum (Wang et al. 2023, "Overlap communication with dependent computation via decomposition") decomposes a gather or a
reduce-scatter of n shards. Shards go around the ring both ways, and each of n / 2 steps multiplies two, in a kernel of its own:

- gathered along a contracted dimension, every step adds to the whole result, which it reads and writes again;
- gathered along another one, every step's columns are written into the result by two more kernels, zeros to begin with;
- scattered, every step's dot is added to what was received, by another kernel.

What would have been the dot's epilogue is a kernel of its own in the first two.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, prod

import numpy as np
from numpy.typing import NDArray

from workbench.core.mesh import Mesh
from workbench.core.sharding import axis_size
from workbench.core.tensor import itemsize
from workbench.cost.fusion.kernel_table import Kernels
from workbench.hardware.hardware import Chip
from workbench.propagation import TWO_BYTE_FLOATS, Propagated
from workbench.propagation.module.operation_kinds import DOTS
from workbench.propagation.shardy_collectives import InsertedCollective
from workbench.propagation.structure.aliased_values import VIEWING, resolve_view
from workbench.propagation.structure.program_structure import Structure

SMALLEST_RINGS = {"tpu:v4": (8, 8), "tpu:v5e": (4, 8), "tpu:v5p": (8, 8)}
"""The smallest ring of a windowed einsum, by a chip's target: scattered or gathered along a contracted dimension; gathered along another.
Seen in what XLA:TPU (jax 0.10.2) compiles; for other chips it makes none."""
LONGEST_RING = 32  # devices: over 64 none is windowed
PIECEWISE = frozenset({"all-gather", "reduce-scatter", "all-to-all"})
"""Kinds whose shards another kernel brings into their order, before or after."""
_PIECES_PER_STEP = 2  # shards a step: one from either side
_DOT = "stablehlo.dot_general"


@dataclass(frozen=True, slots=True)
class WindowedSteps:
    """How a dot is decomposed: into how many steps, and whether along its contracted dimension."""

    count: int
    is_summed: bool


UNDECOMPOSED = WindowedSteps(1, is_summed=False)


@dataclass(frozen=True, slots=True, eq=False)
class CollectiveMatmul:
    """What each kernel launches, moves (bytes) and passes over (elements) in addition, per execution; `steps` of decomposed dots."""

    launches: NDArray[np.float64]
    moved: NDArray[np.float64]
    elements: NDArray[np.float64]
    steps: dict[int, WindowedSteps] = field(default_factory=dict)

    def add(self, kernel: int, launches: float, moved: float, elements: float = 0.0) -> None:
        self.launches[kernel] += launches
        self.moved[kernel] += moved
        self.elements[kernel] += elements


def decompose_collective_matmuls(
    kernels: Kernels, partitioned: Propagated, local_bytes: Sequence[int], mesh: Mesh, chip: Chip
) -> CollectiveMatmul:
    """The effect on all kernels of a plan; `local_bytes` are those of each value of the structure."""
    collective_matmul = CollectiveMatmul(np.zeros(kernels.count), np.zeros(kernels.count), np.zeros(kernels.count))
    structure = partitioned.structure
    for each in partitioned.reshards if chip.platform == "tpu" else ():
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
        steps = _plan_steps(each, kernels, partitioned, local_bytes, devices, chip)
        if steps is not None:
            _add_windowed_einsum(collective_matmul, each, steps, kernels, structure, local_bytes)
    return collective_matmul


def _plan_steps(
    each: InsertedCollective, kernels: Kernels, partitioned: Propagated, local_bytes: Sequence[int], devices: int, chip: Chip
) -> WindowedSteps | None:
    """How a collective's dot is decomposed, if it is: only one of two-byte floats, whose weight no other dot reads."""
    rings, structure = SMALLEST_RINGS.get(chip.target), partitioned.structure
    if rings is None or devices > LONGEST_RING:
        return None
    count = ceil(devices / _PIECES_PER_STEP)
    if each.kind == "reduce-scatter" and each.source is not None and structure.ops[each.source].kind in DOTS:
        is_half = structure.values[structure.ops[each.source].results[0]].dtype in TWO_BYTE_FLOATS
        return WindowedSteps(count, is_summed=False) if is_half and devices >= rings[0] else None
    gathered = _find_gathered_operand(each, partitioned, local_bytes, devices) if each.kind == "all-gather" else None
    if gathered is None or structure.values[gathered[0]].dtype not in TWO_BYTE_FLOATS:
        return None
    value, is_summed = gathered
    is_alone = kernels.dot_reads.get(resolve_view(structure, value), 0) <= 1
    return WindowedSteps(count, is_summed) if is_alone and devices >= rings[0 if is_summed else 1] else None


def _find_gathered_operand(
    each: InsertedCollective, partitioned: Propagated, local_bytes: Sequence[int], devices: int
) -> tuple[int, bool] | None:
    """The operand of a dot that is gathered, and whether along a contracted dimension."""
    structure = partitioned.structure
    op = structure.ops[each.before]
    if op.kind != _DOT:
        return None
    born = -1 if each.source is None else each.source
    for operand, contracted in zip(op.operands[:2], (op.work.contracted, op.work.contracted_right), strict=True):
        dims = partitioned.dims[operand] or ()
        along = [i for i, axes in enumerate(dims) if set(axes) & set(each.axes)]
        if structure.values[operand].maker == born and along and local_bytes[operand] * devices == each.payload:
            return operand, any(i in contracted for i in along)
    return None


def _add_windowed_einsum(
    collective_matmul: CollectiveMatmul,
    each: InsertedCollective,
    steps: WindowedSteps,
    kernels: Kernels,
    structure: Structure,
    local_bytes: Sequence[int],
) -> None:
    op = each.source if each.kind == "reduce-scatter" else each.before
    assert op is not None
    kernel, value = kernels.of[op], structure.ops[op].results[0]
    size = local_bytes[value]
    elements = size / itemsize(structure.values[value].dtype)
    collective_matmul.steps[op] = steps
    n = steps.count
    if each.kind == "reduce-scatter":
        collective_matmul.add(kernel, n - 1 + n, 3 * size, elements)
    elif steps.is_summed:
        collective_matmul.add(kernel, n - 1 + 1, 2 * (n - 1) * size + 2 * size, n * elements)
    else:
        collective_matmul.add(kernel, n - 1 + 2 * n + 2, 3 * size + 2 * size)


def is_windowable(kind: str, chip: Chip) -> bool:
    """Whether XLA may make a windowed einsum of such a collective and its dot: on a TPU."""
    return kind in ("all-gather", "reduce-scatter") and chip.platform == "tpu"
