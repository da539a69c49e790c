"""Slices and updates at a place that is computed, along a cut dimension.

Where the place may lie in any part, the operand is gathered along the dimension (`HandleDynamicSlice`, `HandleDUSDefault`; openxla/xla,
`spmd_partitioner.cc`). An update of one element, or one that a constant place puts inside a part, is made by the device that holds it
(`HandleDUSSinglePartitionUpdate`), and sends nothing.
"""

import math
from typing import NamedTuple

from jax.extend.mlir import ir

from workbench.partition.context import constant
from workbench.partition.own_communication.placed import NOTHING, Answer, Operator, Placed, gathered, shape_of


class Moving(NamedTuple):
    """The dimensions along which less than all is taken, how much, and where where that is a constant."""

    dims: tuple[int, ...]
    sizes: tuple[int, ...]
    places: tuple[int | None, ...]


def read_slice(op: ir.Operation) -> Moving | None:
    return _read(op, shape_of(op.results[0]), 1)


def read_update(op: ir.Operation) -> Moving | None:
    return _read(op, shape_of(op.operands[1]), 2)


def _read(op: ir.Operation, taken: tuple[int, ...], first: int) -> Moving | None:
    shape = shape_of(op.operands[0])
    dims = tuple(dim for dim, (size, part) in enumerate(zip(shape, taken, strict=True)) if size != part)
    places = tuple(constant(op.operands[first + dim]) for dim in dims)
    return Moving(dims, tuple(taken[dim] for dim in dims), places) if dims else None


def slice_sends(facts: Moving, placed: Placed) -> Answer | None:
    operand = placed.operands[0]
    if not any(operand.stored[dim] for dim in facts.dims):
        return NOTHING
    return Answer(gathered(placed, operand, facts.dims), replaces=True, makes_whole=True)


def update_sends(facts: Moving, placed: Placed) -> Answer | None:
    operand, update = placed.operands[:2]
    cut = [each for each in zip(facts.dims, facts.sizes, facts.places, strict=True) if operand.dims[each[0]]]
    if not cut or all(size == 1 or _lies_in_one(operand.shape[dim], placed.parts(operand.dims[dim]), size, at) for dim, size, at in cut):
        return NOTHING
    found = gathered(placed, operand._replace(stored=operand.dims), facts.dims, 0)
    return Answer((*found, *gathered(placed, update._replace(stored=update.dims), facts.dims, 1)))


def _lies_in_one(size: int, parts: int, taken: int, place: int | None) -> bool:
    part = math.ceil(size / parts)
    return place is not None and place // part == (place + taken - 1) // part


DYNAMIC_SLICE = Operator("dynamic slice", ("stablehlo.dynamic_slice",), read_slice, slice_sends)
DYNAMIC_UPDATE = Operator("dynamic update", ("stablehlo.dynamic_update_slice",), read_update, update_sends)
