"""Concatenation along a cut dimension; and rotation (`jnp.roll`), which is one of two slices of the same value.

A concatenation moves the cut to another dimension that it divides, and back (`HandleElementwiseWithDimsToReplicate`; openxla/xla,
`spmd_partitioner.cc`): all-to-alls, or gathers where there is none. A rotation sends what wraps around to the next part, or to one
further away (`HandleCustomCallSPMDInternal_RotateRight`; `custom_call_handler.cc`): it stays cut.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

from jax.extend.mlir import ir

from workbench.partition.context import producer
from workbench.partition.halo import Piece
from workbench.partition.own_communication.placed import NOTHING, Answer, Operator, Placed, Sent, gathered, numbers, shape_of, sized
from workbench.partition.own_communication.windows import permutes


class Joined(NamedTuple):
    """The dimension of a concatenation; `rotated` to the right by so many elements, if it is a rotation."""

    dim: int
    rotated: int | None


def read(op: ir.Operation) -> Joined:
    return Joined(ir.IntegerAttr(op.attributes["dimension"]).value, rotation_of(op))


def rotation_of(op: ir.Operation) -> int | None:
    """By how much a concatenation of the end and the beginning of one value rotates it."""
    if len(op.operands) != 2:
        return None
    first, second = (producer(value) for value in op.operands)
    if first is None or second is None or first.name != "stablehlo.slice" or second.name != "stablehlo.slice":
        return None
    if first.operands[0] != second.operands[0] or shape_of(first.operands[0]) != shape_of(op.results[0]):
        return None
    dim = ir.IntegerAttr(op.attributes["dimension"]).value
    starts, limits = numbers(first, "start_indices"), numbers(second, "limit_indices")
    steps = (*numbers(first, "strides"), *numbers(second, "strides"))
    size = shape_of(op.results[0])[dim]
    meets = starts[dim] == limits[dim] and numbers(second, "start_indices")[dim] == 0 and numbers(first, "limit_indices")[dim] == size
    return size - starts[dim] if meets and set(steps) == {1} else None


def sends(facts: Joined, placed: Placed) -> Answer | None:
    result = placed.results[0]
    if not result.dims[facts.dim]:
        return NOTHING
    if facts.rotated is not None:
        return Answer(tuple(_rotated(facts.dim, facts.rotated, placed)))
    axes = result.dims[facts.dim]
    target = _target(facts.dim, placed)
    if target is None:
        tensors = enumerate(placed.operands)
        return Answer(
            tuple(sent for number, each in tensors for sent in gathered(placed, each._replace(stored=each.dims), [facts.dim], number))
        )
    moved = [(number, each) for number, each in enumerate(placed.operands) if each.dims[facts.dim]]
    found = [Sent("all-to-all", axes, sized(each.local(placed.mesh), each.itemsize), number) for number, each in moved]
    return Answer((*found, Sent("all-to-all", axes, sized(result.local(placed.mesh), result.itemsize), None)))


def _target(dim: int, placed: Placed) -> int | None:
    """The first other dimension that the axes divide as well (`GetFirstTargetDimToMoveShardingTiles`)."""
    result = placed.results[0]
    parts = placed.parts(result.dims[dim])
    others = (other for other in range(len(result.shape)) if other != dim)
    return next((other for other in others if result.shape[other] % (parts * placed.parts(result.dims[other])) == 0), None)


def _rotated(dim: int, amount: int, placed: Placed) -> Iterator[Sent]:
    """The last part may be short: then a second rotation is made, and each device takes of both what is right."""
    result = placed.results[0]
    shape = result.local(placed.mesh)
    part, size = shape[dim], result.shape[dim]
    count = math.ceil(size / part)
    amount %= size
    padding = part * count - size
    if not amount:
        return
    for each in (amount, (amount + padding) % (part * count))[: 2 if padding else 1]:
        yield from permutes(tuple(_pieces(part, count, each)), dim, shape, result, placed, 0)


def _pieces(part: int, count: int, amount: int) -> Iterator[Piece]:
    """What one part is put together from, by distance."""
    done = 0
    while done < part:
        distance = math.ceil((amount - done) / part)
        offset = distance * part - amount + done
        size = min(part - offset, part - done)
        done += size
        if distance:
            yield Piece(size, tuple((k, (k + distance) % count) for k in range(count)))


CONCATENATION = Operator("concatenation", ("stablehlo.concatenate",), read, sends)
