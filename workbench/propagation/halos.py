"""Halo exchange: where a dimension is sharded, slices, pads, poolings and convolutions read beyond their own shards; neighbours send that.

    whole       0 1 2 3 | 4 5 6 7 | 8 9 . .       three shards of 4
    part 1 reads    3 [ 4 5 6 7 ] 8               from either neighbour a row: two permutes

Part i of the result covers windows [i n, (i + 1) n) and reads from i n stride - low on. Every device runs the same program: a permute
brings, from a given number of parts away, all that any part reads there. What reaches over everything is gathered.

This is the plan's estimate until XLA's partitioner, which has more ways, has answered (`spmd`).
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from jax.extend.mlir import ir

from workbench.core.mesh import Mesh
from workbench.core.sharding import axis_size
from workbench.core.tensor import itemsize
from workbench.propagation.module.shardy_attributes import Dims, local_shape
from workbench.propagation.propagated_module import PropagationAnswer
from workbench.propagation.shardy_collectives import InsertedCollective
from workbench.propagation.structure.program_structure import Structure
from workbench.propagation.structure.windows import DimWindow, OperandAccess
from workbench.propagation.xla_backends import TWO_BYTE_FLOATS, Backend


class PlacedOperand(NamedTuple):
    """The shape of an operand, and its sharding when the operation runs."""

    shape: tuple[int, ...]
    dims: Dims


class HaloPiece(NamedTuple):
    """One permute: how many elements along the dimension, and which part sends to which."""

    size: int
    pairs: tuple[tuple[int, int], ...]


class HaloCollective(NamedTuple):
    """A collective: `elements` of the larger of operand and result on one device."""

    kind: str
    axes: tuple[str, ...]
    elements: int


class Halos:
    """What operations send by themselves, found while Shardy's answer is read; `operand_dims`: the shardings in which they read their
    operands."""

    def __init__(self, structure: Structure, mesh: Mesh, backend: Backend, answer: PropagationAnswer) -> None:
        self._structure, self._mesh, self._backend, self._answer = structure, mesh, backend, answer
        self.operand_dims: dict[int, tuple[Dims, ...]] = {}

    def reshards(self, op: ir.Operation, index: int, region: int, windows: OperandAccess) -> list[InsertedCollective]:
        """The collectives of operation `index`."""
        numbers = self._structure.ops[index].operands
        found = zip(op.operands, numbers, strict=True)
        placed_operands = [PlacedOperand(self._structure.values[number].shape, self._answer.dims_of(value)) for value, number in found]
        self.operand_dims[index] = tuple(each.dims for each in placed_operands)
        if windows.dropped:
            sent = _plan_dropped_dim_reduction(windows, placed_operands[0], self._answer.dims_of(op.results[0]), self._mesh)
        else:
            sent = plan_halo_exchange(windows, placed_operands, self._mesh)
        return [self._reshard(op, index, region, each) for each in sent]

    def _reshard(self, op: ir.Operation, index: int, region: int, sent: HaloCollective) -> InsertedCollective:
        value, record = op.operands[0], self._structure.ops[index]
        dtype = self._structure.values[record.operands[0]].dtype
        payload = math.ceil(sent.elements * (4 if self._backend.widens_two_byte_floats and dtype in TWO_BYTE_FLOATS else itemsize(dtype)))
        made_in, source = self._answer.region_of(value, region), self._answer.producer_of(value)
        lives = record.position, record.position, (self._structure.heights[index],)
        return InsertedCollective(sent.kind, sent.axes, payload, payload, index, made_in, source, False, *lives, sent_by_operation=True)


def plan_halo_exchange(windows: OperandAccess, placed_operands: Sequence[PlacedOperand], mesh: Mesh) -> Iterator[HaloCollective]:
    """What is sent of the first of these operands; along a second sharded dimension with what came along the first; nothing of one without
    elements, or of which none is read."""
    image = placed_operands[0]
    shape = list(local_shape(image.shape, image.dims, mesh))
    if not math.prod(image.shape):
        return
    for dim, window in enumerate(windows.dims):
        axes = image.dims[dim]
        if not axes or window.is_trivial:
            continue
        parts, at = _count_parts(axes, mesh), windows.kernel_dims[dim] if windows.kernel_dims else None
        kernel_size = placed_operands[1].shape[at] if at is not None and placed_operands[1].dims[at] else 0
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


def _read_ranges(window: DimWindow, size: int, parts: int, kernel_size: int) -> list[tuple[int, int]]:
    """The first element that each part reads, and the one behind its last.

    In the gradient of a convolution's weights the kernel, `kernel_size` elements long, is sharded as the image is; every part reads all
    windows.
    """
    windows = window.count(size)
    if kernel_size:
        each = math.ceil(kernel_size / parts)
        readers, step, reach = parts, each * window.dilation, (each - 1) * window.dilation + 1 + window.stride * (windows - 1)
    else:
        each = math.ceil(windows / parts)
        readers, step, reach = min(parts, windows), each * window.stride, (each - 1) * window.stride + window.reach
    starts = [i * step - window.low for i in range(readers)]
    return [(math.ceil(start / window.base_dilation), math.ceil((start + reach) / window.base_dilation)) for start in starts]


def _plan_permutes(reads: Sequence[tuple[int, int]], part: int, parts: int) -> list[HaloPiece] | None:
    """The permutes that bring every part what it reads of others, one for each distance between two parts; `None` where gathering all sends
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
    found = []
    for distance in range(1 - parts, parts):
        size = min(high, (distance + 1) * part) - max(low, distance * part)
        if distance and size > 0:
            found.append(HaloPiece(size, tuple((i + distance, i) for i in range(parts) if 0 <= i + distance < parts)))
    return found


def _plan_distant_permutes(reads: Sequence[tuple[int, int]], part: int, parts: int) -> list[HaloPiece]:
    """Where parts read little from far away: a permute for the first that each part sends to, one for the second, and so on.

    >>> _plan_distant_permutes([(8, 10), (10, 12), (12, 14), (14, 16)], 8, 4)
    [HaloPiece(size=2, pairs=((1, 0),)), HaloPiece(size=2, pairs=((1, 2),)), HaloPiece(size=2, pairs=((1, 3),))]
    """
    found: list[list[tuple[int, int, int, int]]] = []  # source, reader, and from where to where within the source
    for source in range(parts):
        overlaps = ((i, max(start - source * part, 0), min(limit - source * part, part)) for i, (start, limit) in enumerate(reads))
        needs = [(source, *each) for each in overlaps if each[0] != source and each[1] < each[2]]
        found += [[] for _ in needs[len(found) :]]
        for permute, need in zip(found, needs, strict=False):
            permute.append(need)
    columns = [tuple(zip(*permute, strict=True)) for permute in found]
    return [HaloPiece(max(limits) - min(starts), tuple(zip(sources, readers, strict=True))) for sources, readers, starts, limits in columns]


def _crossed_axes(piece: HaloPiece, axes: Sequence[str], mesh: Mesh) -> tuple[str, ...]:
    """The mesh axes along which senders and receivers differ, where several axes cut one dimension."""
    found, minor = [], 1
    for axis in reversed(axes):
        size = axis_size(axis, mesh)
        if any(source // minor % size != reader // minor % size for source, reader in piece.pairs):
            found.append(axis)
        minor *= size
    return tuple(reversed(found))


def _plan_dropped_dim_reduction(windows: OperandAccess, value: PlacedOperand, result: Dims, mesh: Mesh) -> Iterator[HaloCollective]:
    """A reshape that drops a sharded dimension of one element: one device has it, and it is summed with the zeros of the others."""
    kept = {axis for axes in result for axis in axes}
    elements = math.prod(local_shape(value.shape, value.dims, mesh))
    for dim in windows.dropped:
        if axes := tuple(axis for axis in value.dims[dim] if axis not in kept):
            yield HaloCollective("all-reduce", axes, elements)


def _count_parts(axes: Sequence[str], mesh: Mesh) -> int:
    return math.prod(axis_size(axis, mesh) for axis in axes)
