"""Halo exchange: slices, pads, poolings and convolutions along a sharded dimension read elements of neighboring shards.

The halo of a window of three elements:
    whole       0 1 2 3 | 4 5 6 7 | 8 9 . .       three shards of 4
    part 1 reads    3 [ 4 5 6 7 ] 8               from either neighbor a row: two permutes

Part i of the result covers windows [i n, (i + 1) n) and reads from i n stride - low on. Every device runs the same
program: a permute brings, from a given distance, all elements that any part reads there. Where that would be
everything, the operand is gathered.

This is the plan's estimate until XLA's partitioner, which has more strategies, has answered (`spmd`).
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from jax.extend.mlir import ir

from workbench.core.mesh import Mesh
from workbench.core.sharding import axis_size
from workbench.core.tensor import itemsize
from workbench.propagation.module.operation_kinds import DOTS
from workbench.propagation.module.shardy_attributes import Dims, local_shape
from workbench.propagation.propagated_module import PropagationAnswer
from workbench.propagation.shardy_collectives import InsertedCollective
from workbench.propagation.structure.operation_work import is_exact
from workbench.propagation.structure.program_structure import Structure
from workbench.propagation.structure.windows import DimWindow, OperandAccess
from workbench.propagation.xla_backends import TWO_BYTE_FLOATS, Backend


class PlacedOperand(NamedTuple):
    """The shape of an operand, and its sharding when the operation runs."""

    shape: tuple[int, ...]
    dims: Dims


class HaloPiece(NamedTuple):
    """One permute: `size` elements along the dimension, and `(source, reader)` pairs of parts."""

    size: int
    pairs: tuple[tuple[int, int], ...]


class HaloCollective(NamedTuple):
    """A collective; `elements` are those of the larger of operand and result on one device."""

    kind: str
    axes: tuple[str, ...]
    elements: int


class Halos:
    """Collects the collectives of operations that read across shards, and the `operand_dims` in which they read."""

    def __init__(self, structure: Structure, mesh: Mesh, backend: Backend, answer: PropagationAnswer) -> None:
        self._structure, self._mesh, self._backend, self._answer = structure, mesh, backend, answer
        self.operand_dims: dict[int, tuple[Dims, ...]] = {}
        self._sent: set[tuple[ir.Value, int, OperandAccess | None, int, int, HaloCollective]] = set()

    def reshards(self, op: ir.Operation, index: int, region: int, windows: OperandAccess) -> list[InsertedCollective]:
        numbers = self._structure.ops[index].operands
        values = zip(op.operands, numbers, strict=True)
        placed_operands = [PlacedOperand(self._structure.values[number].shape, self._answer.dims_of(value)) for value, number in values]
        self.operand_dims[index] = tuple(item.dims for item in placed_operands)
        if windows.dropped:
            collectives = _plan_dropped_dim_reduction(windows, placed_operands[0], self._answer.dims_of(op.results[0]), self._mesh)
        elif op.name == "stablehlo.select_and_scatter":
            collectives = plan_pooling_gradient(windows, placed_operands, self._mesh)
        else:
            collectives = plan_halo_exchange(windows, placed_operands, self._mesh)
        return list(self._list_new(op, index, region, windows, collectives))

    def _list_new(
        self, op: ir.Operation, index: int, region: int, windows: OperandAccess, collectives: Iterable[HaloCollective]
    ) -> Iterator[InsertedCollective]:
        """XLA sends a value's halo once for equal windows, and on some backends once for all windows with the same halo."""
        for number, item in enumerate(collectives):
            reshard = self._reshard(op, index, region, item)
            key = op.operands[0], region, None if self._backend.merges_equal_values else windows, number, reshard.payload, item
            if key not in self._sent:
                self._sent.add(key)
                yield reshard

    def _reshard(self, op: ir.Operation, index: int, region: int, sent: HaloCollective) -> InsertedCollective:
        value, record = op.operands[0], self._structure.ops[index]
        dtype = self._structure.values[record.operands[0]].dtype
        payload = math.ceil(sent.elements * self._sent_bytes(op, dtype))
        made_in, source = self._answer.region_of(value, region), self._answer.producer_of(value)
        lives = record.position, record.position, (self._structure.heights[index],)
        return InsertedCollective(sent.kind, sent.axes, payload, payload, index, made_in, source, False, *lives, sent_by_operation=True)

    def _sent_bytes(self, op: ir.Operation, dtype: str) -> float:
        """The bytes of an element when it is sent: convolutions on TPUs round to two bytes first, and XLA:CPU has no two-byte floats."""
        if self._backend.widens_two_byte_floats and dtype in TWO_BYTE_FLOATS:
            return 4
        is_rounded = self._backend.narrows_dot_operands and op.name in DOTS and not is_exact(op) and dtype == "float32"
        return 2 if is_rounded else itemsize(dtype)


def plan_halo_exchange(windows: OperandAccess, placed_operands: Sequence[PlacedOperand], mesh: Mesh) -> Iterator[HaloCollective]:
    """The collectives for the first operand; along a second sharded dimension they include the first one's halo."""
    image = placed_operands[0]
    shape = list(local_shape(image.shape, image.dims, mesh))
    if not math.prod(image.shape):
        return
    for dim, window in enumerate(windows.dims):
        axes = image.dims[dim]
        if not axes or window.is_trivial:
            continue
        parts, kernel_dim = _count_parts(axes, mesh), windows.kernel_dims[dim] if windows.kernel_dims else None
        kernel_size = placed_operands[1].shape[kernel_dim] if kernel_dim is not None and placed_operands[1].dims[kernel_dim] else 0
        reads = _read_ranges(window, image.shape[dim], parts, kernel_size)
        if not reads:
            return
        pieces = _plan_permutes(reads, shape[dim], parts)
        rest = math.prod(shape) // shape[dim]
        if pieces is None:
            yield HaloCollective("all-gather", axes, rest * image.shape[dim])
        for piece in pieces or ():
            yield HaloCollective("collective-permute", _crossed_axes(piece, axes, mesh), rest * piece.size)
        shape[dim] = max(limit - start for start, limit in reads)


def plan_pooling_gradient(windows: OperandAccess, placed_operands: Sequence[PlacedOperand], mesh: Mesh) -> Iterator[HaloCollective]:
    """The collectives of a max pooling's gradient: for its own elements, each part reads all windows that reach them, and their gradients.

    Windows of 3 elements in steps of 1, for the part of the elements 4 to 7:
        windows    3 4 5 6 7 8       their gradients: from either neighbor one
        elements   2 3 [ 4 5 6 7 ] 8 9
    """
    shapes = [list(local_shape(operand.shape, operand.dims, mesh)) for operand in placed_operands[:2]]
    for dim, window in enumerate(windows.dims):
        axes = placed_operands[0].dims[dim]
        if not axes or window.is_trivial or axes != placed_operands[1].dims[dim]:
            continue
        parts, (part, gradients) = _count_parts(axes, mesh), (shape[dim] for shape in shapes)
        ends = [(i * part + window.low, (i + 1) * part + window.low) for i in range(parts)]
        reaching = [((start - window.reach) // window.stride + 1, -(-limit // window.stride)) for start, limit in ends]
        elements = [
            (first * window.stride - window.low, (last - 1) * window.stride - window.low + window.reach) for first, last in reaching
        ]
        for shape, size, reads in ((shapes[0], part, elements), (shapes[1], gradients, reaching)):
            rest = math.prod(shape) // size
            for piece in _plan_permutes(reads, size, parts) or ():
                yield HaloCollective("collective-permute", _crossed_axes(piece, axes, mesh), rest * piece.size)
            shape[dim] = max(limit - start for start, limit in reads)


def _read_ranges(window: DimWindow, size: int, parts: int, kernel_size: int) -> list[tuple[int, int]]:
    """The half-open range of elements that each part reads.

    In the gradient of a convolution's weights the kernel, `kernel_size` elements long, is sharded like the image; every
    part reads all windows.
    """
    windows = window.count(size)
    if kernel_size:
        part_size = math.ceil(kernel_size / parts)
        readers, step, reach = parts, part_size * window.dilation, (part_size - 1) * window.dilation + 1 + window.stride * (windows - 1)
    else:
        part_size = math.ceil(windows / parts)
        readers, step, reach = min(parts, windows), part_size * window.stride, (part_size - 1) * window.stride + window.reach
    starts = [i * step - window.low for i in range(readers)]
    return [(math.ceil(start / window.base_dilation), math.ceil((start + reach) / window.base_dilation)) for start in starts]


def _plan_permutes(reads: Sequence[tuple[int, int]], part: int, parts: int) -> list[HaloPiece] | None:
    """The permutes that bring every part its neighbors' elements, one for each distance; `None` if an all-gather sends
    no more.

    >>> _plan_permutes([(-1, 5), (3, 9), (7, 13)], 4, 3)
    [HaloPiece(size=1, pairs=((0, 1), (1, 2))), HaloPiece(size=1, pairs=((1, 0), (2, 1)))]
    """
    left, right = [i * part - start for i, (start, _) in enumerate(reads)], [limit - i * part for i, (_, limit) in enumerate(reads)]
    widest = max(limit - start for start, limit in reads)
    if max(*left, *(reach - part for reach in right)) > 2 * widest:
        return None if 2 * widest >= part * parts else _plan_distant_permutes(reads, part, parts)
    low, high = -max(left[1:], default=0), max(right[: parts - 1], default=part)
    if high - low >= part * parts and max(-low, high - part) > part:
        return None
    pieces = []
    for distance in range(1 - parts, parts):
        size = min(high, (distance + 1) * part) - max(low, distance * part)
        if distance and size > 0:
            pieces.append(HaloPiece(size, tuple((i + distance, i) for i in range(parts) if 0 <= i + distance < parts)))
    return pieces


def _plan_distant_permutes(reads: Sequence[tuple[int, int]], part: int, parts: int) -> list[HaloPiece]:
    """Permutes for small reads from distant parts: one for the first reader of each part, one for the second, and so
    on.

    >>> _plan_distant_permutes([(8, 10), (10, 12), (12, 14), (14, 16)], 8, 4)
    [HaloPiece(size=2, pairs=((1, 0),)), HaloPiece(size=2, pairs=((1, 2),)), HaloPiece(size=2, pairs=((1, 3),))]
    """
    permutes: list[list[tuple[int, int, int, int]]] = []  # (source, reader, start, limit) within the source
    for source in range(parts):
        overlaps = ((i, max(start - source * part, 0), min(limit - source * part, part)) for i, (start, limit) in enumerate(reads))
        needs = [(source, *overlap) for overlap in overlaps if overlap[0] != source and overlap[1] < overlap[2]]
        permutes += [[] for _ in needs[len(permutes) :]]
        for permute, need in zip(permutes, needs, strict=False):
            permute.append(need)
    columns = [tuple(zip(*permute, strict=True)) for permute in permutes]
    return [HaloPiece(max(limits) - min(starts), tuple(zip(sources, readers, strict=True))) for sources, readers, starts, limits in columns]


def _crossed_axes(piece: HaloPiece, axes: Sequence[str], mesh: Mesh) -> tuple[str, ...]:
    """The mesh axes along which senders and receivers differ, if several axes split the dimension."""
    crossed, minor = [], 1
    for axis in reversed(axes):
        size = axis_size(axis, mesh)
        if any(source // minor % size != reader // minor % size for source, reader in piece.pairs):
            crossed.append(axis)
        minor *= size
    return tuple(reversed(crossed))


def _plan_dropped_dim_reduction(windows: OperandAccess, value: PlacedOperand, result: Dims, mesh: Mesh) -> Iterator[HaloCollective]:
    """A reshape that drops a sharded dimension of size 1 sums the element with the other devices' zeros."""
    result_axes = {axis for axes in result for axis in axes}
    elements = math.prod(local_shape(value.shape, value.dims, mesh))
    for dim in windows.dropped:
        if axes := tuple(axis for axis in value.dims[dim] if axis not in result_axes):
            yield HaloCollective("all-reduce", axes, elements)


def _count_parts(axes: Sequence[str], mesh: Mesh) -> int:
    return math.prod(axis_size(axis, mesh) for axis in axes)
