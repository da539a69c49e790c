"""Matrix products, table lookups and slices at a place that is computed, as XLA's partitioner handles them, where Shardy would send
something else.

Where operands and result are sharded differently, XLA chooses the reshards itself (`structure.choose_dot_shardings`,
`choose_lookup_shardings`), which is not always the one that sends least; what it slices it gathers along the sliced dimension,
a scanned stack of layers before the loop. What it moves is written into the module before Shardy inserts its reshards.
"""

import math
from collections.abc import Collection, Sequence

from jax.extend.mlir import ir

from workbench.core.mesh import Mesh
from workbench.core.sharding import axes_overlap
from workbench.propagation.module.infer_dim_names import Rule, rule_of
from workbench.propagation.module.mlir_context import producer, shape_of
from workbench.propagation.module.operation_kinds import CONSTANTS, DOTS, adds_updates, manual_axes
from workbench.propagation.module.prepare_module import ID
from workbench.propagation.module.shardy_attributes import Dims, ShardingReader, local_shape, sharding_text
from workbench.propagation.structure.choose_dot_shardings import choose_dot_shardings
from workbench.propagation.structure.program_structure import Structure
from workbench.propagation.structure.stored_values import DYNAMIC_SLICE

_SHARDING = "sdy.sharding"
_RESHARDED = {*DOTS, "stablehlo.gather", DYNAMIC_SLICE}


def insert_dot_reshards(main: ir.Operation, ops: Sequence[ir.Operation], structure: Structure, mesh: Mesh) -> None:
    """Insert the reshards that XLA makes around dots, lookups and slices."""
    reader = ShardingReader(main)
    is_manual = "sdy.manual_computation" in structure.kinds
    for op in ops:
        if ID not in op.attributes or not (op.name in _RESHARDED or adds_updates(op)):
            continue
        values = (*op.operands, op.results[0])
        shardings = tuple(map(reader.dims_of, values))
        if not any(map(any, shardings)) or _leaves_sums(op) or (is_manual and manual_axes(op)):
            continue
        shapes = tuple(map(shape_of, values))
        full_dims = tuple(each or ((),) * len(shape) for each, shape in zip(shardings, shapes, strict=True))
        _insert_reshards(op, full_dims, _choose_shardings(op, shapes, full_dims, structure, mesh))


def _choose_shardings(
    op: ir.Operation, shapes: Sequence[tuple[int, ...]], dims: tuple[Dims, ...], structure: Structure, mesh: Mesh
) -> tuple[Dims, ...]:
    if op.name in DOTS:
        facts = structure.dots.get(op.attributes[ID].value)
        return dims if facts is None or facts.has_sharded_window(dims) else choose_dot_shardings(facts, dims, mesh)
    if op.name == DYNAMIC_SLICE:
        sliced = [whole != part for whole, part in zip(shapes[0], shapes[-1], strict=True)]
        return tuple(tuple(() if cut else axes for cut, axes in zip(sliced, each, strict=False)) for each in dims)
    return dims if (rule := rule_of(op)) is None else choose_lookup_shardings(rule, shapes, dims, mesh)


def _leaves_sums(op: ir.Operation) -> bool:
    return _SHARDING in op.attributes and "unreduced" in str(op.attributes[_SHARDING])


def _insert_reshards(op: ir.Operation, shardings: Sequence[Dims], chosen: Sequence[Dims]) -> None:
    if chosen == shardings:
        return
    op.attributes[_SHARDING] = _per_value_attribute(chosen[-1])  # also for an unsharded result: Shardy would choose for itself
    if chosen[-1] != shardings[-1]:
        _reshard_behind(op, shardings[-1])
    for number, (before, after) in enumerate(zip(shardings, chosen[:-1], strict=False)):
        if before != after:
            _reshard_before(op, number, after)


def _reshard_behind(op: ir.Operation, wanted: Dims) -> None:
    """Reshard a dot's result, behind it, to the sharding it was to have."""
    value = op.results[0]
    reshard = _create_reshard(value, wanted, op)
    reshard.move_after(op)
    value.replace_all_uses_except(reshard.results[0], reshard)


def _reshard_before(op: ir.Operation, operand: int, dims: Dims) -> None:
    """Reshard an operand; one that is made of a number, as the zeros that a gradient is added to, is made in the new sharding."""
    value = op.operands[operand]
    maker = producer(value)
    if maker is not None and _is_of_one_number(maker):
        made = maker.clone(ip=ir.InsertionPoint(op))
        made.attributes[_SHARDING] = _per_value_attribute(dims)
    else:
        made = _create_reshard(value, dims, op)
    op.operands[operand] = made.results[0]


def _is_of_one_number(maker: ir.Operation) -> bool:
    return maker.name in CONSTANTS or (maker.name == "stablehlo.broadcast_in_dim" and not shape_of(maker.operands[0]))


def _create_reshard(value: ir.Value, dims: Dims, place: ir.Operation) -> ir.Operation:
    attributes = {"sharding": ir.Attribute.parse(f"#sdy.sharding{sharding_text(dims)}")}
    return ir.Operation.create("sdy.reshard", [value.type], [value], attributes, loc=place.location, ip=ir.InsertionPoint(place))


def _per_value_attribute(dims: Dims) -> ir.Attribute:
    return ir.Attribute.parse(f"#sdy.sharding_per_value<[{sharding_text(dims)}]>")


# The shardings to which XLA's partitioner brings a table lookup, or its gradient (openxla/xla, `gather_scatter_handler.cc`).
#
# Where one mesh axis splits the rows of the table and the tokens that are looked up, one of the two gives it up. XLA tries both ways, and
# takes that whose largest value is smaller, the table's where both are as large:
#
#     lookup      the table is gathered                         or   the tokens are, and what each device finds in its part is summed
#     gradient    each device adds into a table of its own,     or   the tokens and their gradients are gathered
#                 and these are summed
#
# Shardy weighs what is sent, and knows nothing of what the value is used for next.

_TABLES = (0, 3)  # the table of a gather or scatter, and what a scatter makes of it
_TOKENS, _FOUND = 1, 2  # which rows, and the rows: a gather's result, or what a scatter adds


def choose_lookup_shardings(rule: Rule, shapes: Sequence[tuple[int, ...]], shardings: tuple[Dims, ...], mesh: Mesh) -> tuple[Dims, ...]:
    """The shardings of operands and result in which XLA computes a gather or scatter that has these."""
    factors = (*rule.operands, *rule.results)
    names = [{name for dim in each for name in dim} for each in factors]
    rows, tokens = names[0] - names[_FOUND], names[_TOKENS] & names[_FOUND]
    along = [_axes_along(shardings[at], factors[at], tokens if at in (_TOKENS, _FOUND) else rows) for at in range(len(factors))]
    of_tables = [axis for at in _TABLES if at < len(factors) for axis in along[at]]
    shared = [axis for axis in of_tables if any(axes_overlap(axis, each) for each in (*along[_TOKENS], *along[_FOUND]))]
    if not shared:
        return shardings
    table, found = (_elements_if_whole(shapes[at], shardings[at], shared, mesh) for at in (0, _FOUND))
    return tuple(_without(dims, shared) if (at in _TABLES) == (table <= found) else dims for at, dims in enumerate(shardings))


def _elements_if_whole(shape: tuple[int, ...], dims: Dims, shared: Collection[str], mesh: Mesh) -> int:
    """Elements on one device where the dimensions that these axes split are whole, along their other axes, too."""
    kept = tuple(axes if _without((axes,), shared) == (axes,) else () for axes in dims)
    return math.prod(local_shape(shape, kept, mesh))


def _axes_along(dims: Dims, factors: Sequence[Collection[str]], wanted: Collection[str]) -> list[str]:
    """The axes that split the dimensions of any of these factors."""
    return [axis for axes, names in zip(dims, factors, strict=True) if not set(names).isdisjoint(wanted) for axis in axes]


def _without(dims: Dims, given_up: Collection[str]) -> Dims:
    return tuple(tuple(axis for axis in axes if not any(axes_overlap(axis, each) for each in given_up)) for axes in dims)
