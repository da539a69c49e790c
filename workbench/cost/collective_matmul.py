"""The effect of collectives on kernels: one with a collective in its middle becomes two, and a collective matmul's dot becomes many.

A windowed einsum (see `windowed_dots`) decomposes a gather or a reduce-scatter of n shards. Shards go around the ring both ways, and each
of n / 2 steps multiplies two, in a kernel of its own:

- gathered along a contracted dimension, every step adds to the whole result, which it reads, rounds and writes again beside its dot;
- gathered along another one, every step's columns are written into the result by two more kernels, zeros to begin with;
- scattered, every step's dot is added to what was received, by another kernel.

What would have been the dot's epilogue is a kernel of its own in the first two.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
from numpy.typing import NDArray

from workbench.core.mesh import Mesh
from workbench.core.sharding import axis_size
from workbench.core.tensor import itemsize
from workbench.cost.fusion.kernel_table import Kernels
from workbench.cost.windowed_dots import WindowedSteps, Windows, dot_of
from workbench.hardware.hardware import Chip
from workbench.propagation import Propagated
from workbench.propagation.shardy_collectives import InsertedCollective
from workbench.propagation.structure.aliased_values import VIEWING
from workbench.propagation.structure.program_structure import Structure

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
