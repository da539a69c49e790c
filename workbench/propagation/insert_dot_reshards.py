"""Inserts the reshards that XLA's partitioner makes around matrix products, table lookups, dynamic slices and reshapes.

Shardy would send something else there. Where operands and result are sharded differently, XLA chooses the reshards
itself (`structure.choose_dot_shardings`, `choose_lookup_shardings`), not always the cheapest; an array that it slices
it gathers along the sliced dimension, for instance a scanned stack of layers before the loop. These reshards are
written into the module before Shardy inserts its own.
"""

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from jax.extend.mlir import ir

from workbench.core.mesh import Mesh
from workbench.core.sharding import axes_overlap, axis_size
from workbench.propagation.library_calls import library_rule
from workbench.propagation.module.infer_dim_names import Rule, join_factors, rule_of
from workbench.propagation.module.mlir_context import producer, shape_of
from workbench.propagation.module.operation_kinds import CONSTANTS, DOTS, adds_updates, manual_axes
from workbench.propagation.module.prepare_module import ID
from workbench.propagation.module.shardy_attributes import Dims, ShardingReader, local_shape, sharding_text
from workbench.propagation.reductions import find_sole_addition
from workbench.propagation.structure.choose_dot_shardings import choose_dot_shardings
from workbench.propagation.structure.operation_work import fft_batch_rank, is_top_k, shifted_dims
from workbench.propagation.structure.program_structure import Structure
from workbench.propagation.structure.stored_values import DYNAMIC_SLICE
from workbench.propagation.xla_backends import Backend

_SHARDING = "sdy.sharding"
_RESHAPE = "stablehlo.reshape"
_UPDATE = "stablehlo.dynamic_update_slice"
_RESHARDED = {*DOTS, "stablehlo.gather", DYNAMIC_SLICE, _RESHAPE}


def insert_dot_reshards(main: ir.Operation, ops: Sequence[ir.Operation], structure: Structure, mesh: Mesh, backend: Backend) -> None:
    """Insert the reshards that XLA makes around dots, lookups, dynamic slices and reshapes, in place."""
    reader = ShardingReader(main)
    is_manual, without_rule = "sdy.manual_computation" in structure.kinds, set(structure.ops_without_rule)
    for op in ops:
        if op.name == "stablehlo.select_and_scatter" and ID in op.attributes:
            _join_pooled(op)
        if is_top_k(op) and not backend.splits_every_batch and any(dims := reader.dims_of(op.operands[0])) and dims[-1]:
            _reshard_before(op, 0, (*dims[:-1], ()))  # gathered along the last dimension first, as all of it is
        if op.name == "stablehlo.fft" and ID in op.attributes:
            _reshard_transform(op, reader, mesh, backend)
        if op.name == _UPDATE and ID in op.attributes:
            _reshard_update(op, reader, mesh)
        if ID in op.attributes and (rule := library_rule(op, backend, has_rule=op.attributes[ID].value not in without_rule)):
            op.attributes[_RULE] = ir.Attribute.parse(rule)
        if ID not in op.attributes or not (op.name in _RESHARDED or adds_updates(op)):
            continue
        values = (*op.operands, op.results[0])
        shardings = tuple(map(reader.dims_of, values))
        if not any(map(any, shardings)) or _leaves_sums(op) or (is_manual and manual_axes(op)):
            continue
        if op.name in _NUMBERS:
            _join_positions(op, backend)
        shapes = tuple(map(shape_of, values))
        full_dims = tuple(dims or ((),) * len(shape) for dims, shape in zip(shardings, shapes, strict=True))
        onto = _addend_dims(op, reader) if backend.merges_addend_into_scatter else None
        wanted = full_dims if onto is None else (onto, *full_dims[1:-1], onto)
        chosen = _choose_shardings(op, shapes, wanted, structure, mesh)
        if chosen == wanted != full_dims:  # the tokens are not split along the addend's rows, so the sum is moved to the addend
            wanted, chosen = full_dims, _choose_shardings(op, shapes, full_dims, structure, mesh)
        _insert_reshards(op, (*full_dims[:-1], wanted[-1]), chosen)


def _reshard_update(op: ir.Operation, reader: ShardingReader, mesh: Mesh) -> None:
    """Gather an array along the dimensions in which several rows are written (`HandleDynamicUpdateSlice`): only the rows themselves
    if one device has all the places they go to.
    """
    dims = tuple(reader.dims_of(value) or ((),) * len(shape_of(value)) for value in (*op.operands[:2], op.results[0]))
    if moved := shifted_dims(op):
        whole = tuple(() if dim in moved else axes for dim, axes in enumerate(dims[-1]))
        array = dims[-1] if all(_is_in_one_part(op, dim, dims[-1][dim], mesh) for dim in moved) else whole
        _insert_reshards(op, dims, (array, whole, array))


def _is_in_one_part(op: ir.Operation, dim: int, axes: Sequence[str], mesh: Mesh) -> bool:
    """Whether rows are written to a place that is a constant, within one device's part of a dimension."""
    start, (size, rows) = _constant_index(op.operands[2 + dim]), (shape_of(value)[dim] for value in op.operands[:2])
    if start is None:
        return not axes
    part = math.ceil(size / _count_parts(axes, mesh))
    return start // part == (start + rows - 1) // part


def _constant_index(value: ir.Value) -> int | None:
    """The index that a value is, seen through the test for negative ones; `None` if it is not a constant."""
    maker = producer(value)
    if maker is not None and maker.name == "stablehlo.select":
        maker = producer(maker.operands[2])
    if maker is None or maker.name not in CONSTANTS:
        return None
    index = int(ir.DenseIntElementsAttr(maker.attributes["value"])[0])
    return index if index >= 0 else None


def _reshard_transform(op: ir.Operation, reader: ShardingReader, mesh: Mesh, backend: Backend) -> None:
    """Gather an FFT's operand along the transformed dimensions.

    XLA:TPU multiplies by a matrix instead, and sums the products. The other backends do a complex FFT of three or more dimensions, the
    last one over all devices, in parts (`fft_handler.cc`), and gather a complex matrix along its batch too.
    """
    dims = tuple(reader.dims_of(value) or ((),) * len(shape_of(value)) for value in (op.operands[0], op.results[0]))
    batch = fft_batch_rank(op)
    if not any(dims[0][batch:] + dims[1][batch:]):
        return
    operand, result = ((*axes[:batch], *((),) * len(axes[batch:])) for axes in dims)
    if backend.transforms_by_dots:
        op.attributes[_RULE], operand = ir.Attribute.parse(_summing_rule(op, batch)), dims[0]
    elif len(dims[0]) < _FEWEST_IN_PARTS and _is_complex_transform(op) and any(dims[0][batch:]):
        operand = result = ((),) * len(dims[0])
    elif len(dims[0]) >= _FEWEST_IN_PARTS and _is_complex_transform(op) and _count_parts(dims[1][-1], mesh) == mesh.size:
        op.attributes[_RULE], operand, result = ir.Attribute.parse(_local_rule(op)), dims[1], dims[1]
    _insert_reshards(op, dims, (operand, result))


_RULE = "sdy.sharding_rule"
_FEWEST_IN_PARTS = 3  # dimensions


def _is_complex_transform(op: ir.Operation) -> bool:
    return str(op.attributes["fft_type"]).endswith(" FFT>")


def _count_parts(axes: Iterable[str], mesh: Mesh) -> int:
    return math.prod(axis_size(axis, mesh) for axis in axes)


def _local_rule(op: ir.Operation) -> str:
    """Shardy's rule without the dimensions that it would gather."""
    return re.sub(r" (need_replication|blocked_propagation)=\{[^}]*\}", "", str(op.attributes[_RULE]))


def _summing_rule(op: ir.Operation, batch: int) -> str:
    """The rule of a product: the transformed dimensions of the operand are summed, those of the result are other dimensions."""
    before, after = shape_of(op.operands[0]), shape_of(op.results[0])
    letters = "ijklmnopqrstuvwxyz"
    summed, made = letters[batch : len(before)], letters[len(before) : 2 * len(before) - batch]
    sizes = ", ".join(f"{letter}={size}" for letter, size in zip(letters, (*before, *after[batch:]), strict=False))
    operand, result = (", ".join(letters[:batch] + part) for part in (summed, made))
    return (
        f"#sdy.op_sharding_rule<([{operand}])->([{result}]) {{{sizes}}} "
        f"reduction={{{', '.join(summed)}}} need_replication={{{', '.join(made)}}}>"
    )


def _choose_shardings(
    op: ir.Operation, shapes: Sequence[tuple[int, ...]], dims: tuple[Dims, ...], structure: Structure, mesh: Mesh
) -> tuple[Dims, ...]:
    if op.name in DOTS:
        facts = structure.dots.get(op.attributes[ID].value)
        return dims if facts is None or facts.has_sharded_window(dims) else choose_dot_shardings(facts, dims, mesh)
    if op.name == DYNAMIC_SLICE:
        sliced = [whole != part for whole, part in zip(shapes[0], shapes[-1], strict=True)]
        return tuple(tuple(() if is_sliced else axes for is_sliced, axes in zip(sliced, value_dims, strict=False)) for value_dims in dims)
    if (rule := rule_of(op)) is None:
        return dims
    return choose_reshape_shardings(rule, dims, mesh) if op.name == _RESHAPE else choose_lookup_shardings(rule, shapes, dims, mesh)


def _addend_dims(op: ir.Operation, reader: ShardingReader) -> Dims | None:
    """The sharding of what is added to an adding scatter onto zeros: XLA scatters onto the addend instead."""
    maker = producer(op.operands[0]) if adds_updates(op) else None
    if maker is None or not _is_of_one_number(maker) or (addition := find_sole_addition(op, ())) is None:
        return None
    return reader.dims_of(addition.results[0]) or ((),) * len(shape_of(op.results[0]))


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
    value = op.results[0]
    reshard = _create_reshard(value, wanted, op)
    reshard.move_after(op)
    value.replace_all_uses_except(reshard.results[0], reshard)


def _reshard_before(op: ir.Operation, operand: int, dims: Dims) -> None:
    """Reshard an operand; one made of a single number, such as a gradient's initial zeros, is remade instead."""
    value = op.operands[operand]
    maker = producer(value)
    if maker is not None and _is_of_one_number(maker):
        new_op = maker.clone(ip=ir.InsertionPoint(op))
        new_op.attributes[_SHARDING] = _per_value_attribute(dims)
    else:
        new_op = _create_reshard(value, dims, op)
    op.operands[operand] = new_op.results[0]


def _is_of_one_number(maker: ir.Operation) -> bool:
    return maker.name in CONSTANTS or (maker.name == "stablehlo.broadcast_in_dim" and not shape_of(maker.operands[0]))


def _create_reshard(value: ir.Value, dims: Dims, place: ir.Operation) -> ir.Operation:
    attributes = {"sharding": ir.Attribute.parse(f"#sdy.sharding{sharding_text(dims)}")}
    return ir.Operation.create("sdy.reshard", [value.type], [value], attributes, loc=place.location, ip=ir.InsertionPoint(place))


def _per_value_attribute(dims: Dims) -> ir.Attribute:
    return ir.Attribute.parse(f"#sdy.sharding_per_value<[{sharding_text(dims)}]>")


# The shardings to which XLA's partitioner brings a table lookup, or its gradient (openxla/xla, `gather_scatter_handler.cc`).
#
# Where one mesh axis splits both the rows of the table and the tokens looked up, one of them must be gathered. XLA tries both and takes
# the choice with the smaller largest value; the table's on a tie:
#
#     lookup      the table is gathered                         or   the tokens are, and the rows that each device finds are summed
#     gradient    each device adds into its own whole table,    or   the tokens and their gradients are gathered
#                 and these are summed
#
# Shardy only compares the bytes sent, without regard to the next use of the value.

_TABLES = (0, 3)  # the table of a gather or scatter, and a scatter's result
_TOKENS, _FOUND = 1, 2  # the row indices, and the rows: a gather's result or a scatter's updates


def choose_lookup_shardings(rule: Rule, shapes: Sequence[tuple[int, ...]], shardings: tuple[Dims, ...], mesh: Mesh) -> tuple[Dims, ...]:
    """The shardings in which XLA computes a gather or scatter with these operand and result shardings."""
    factors = (*rule.operands, *rule.results)
    names = [{name for dim in item for name in dim} for item in factors]
    rows, tokens = names[0] - names[_FOUND], names[_TOKENS] & names[_FOUND]
    along = [_axes_along(shardings[at], factors[at], tokens if at in (_TOKENS, _FOUND) else rows) for at in range(len(factors))]
    of_tables = [axis for at in _TABLES if at < len(factors) for axis in along[at]]
    shared = [axis for axis in of_tables if any(axes_overlap(axis, item) for item in (*along[_TOKENS], *along[_FOUND]))]
    if not shared:
        return shardings
    table, picked = (_elements_if_whole(shapes[at], shardings[at], shared, mesh) for at in (0, _FOUND))
    return tuple(_without(dims, shared) if (at in _TABLES) == (table <= picked) else dims for at, dims in enumerate(shardings))


def _elements_if_whole(shape: tuple[int, ...], dims: Dims, shared: Collection[str], mesh: Mesh) -> int:
    """Elements on one device if the dimensions that these axes split are whole, along their other axes too."""
    remaining = tuple(axes if _without((axes,), shared) == (axes,) else () for axes in dims)
    return math.prod(local_shape(shape, remaining, mesh))


# The shardings in which XLA's partitioner reshapes (openxla/xla, `HandleReshape`).
#
# It reshapes each device's part if the operand can be sharded as the result is, or the result as the operand is. Otherwise it gathers the
# dimensions that are split and merged, as the 768 columns, sharded four ways, of a fused projection of 3 x 8 heads. Shardy would move the
# axis to another dimension and back.


def choose_reshape_shardings(rule: Rule, shardings: tuple[Dims, ...], mesh: Mesh) -> tuple[Dims, ...]:
    """The shardings in which XLA reshapes a value with these shardings of operand and result."""
    sides = rule.operands[0], rule.results[0]
    if all(len(factors) < _MERGED for side in sides for factors in side):
        return shardings
    chosen = [list(dims) for dims in shardings]
    for group in _factor_groups(sides):
        places = [[dim for dim, factors in enumerate(side) if group.issuperset(factors)] for side in sides]
        tiles = [_count_tiles([(shardings[at][dim], sides[at][dim]) for dim in places[at]], rule.sizes, mesh) for at in (0, 1)]
        counts = [cut for at, cut in enumerate(tiles) if cut is not None and _can_be_tiled(cut, sides[1 - at], rule.sizes)]
        if tiles[0] in counts or any(parts > 1 for cut in counts for parts in cut.values()):
            continue
        for at in (0, 1):
            for dim in places[at]:
                chosen[at][dim] = ()
    return tuple(map(tuple, chosen))


_MERGED = 2  # factors of a dimension that a reshape splits or merges


def _factor_groups(sides: Sequence[Sequence[Sequence[str]]]) -> list[set[str]]:
    """The factors that a reshape splits or merges together: those of one dimension on either side."""
    groups: list[set[str]] = []
    for factors in (item for side in sides for item in side if len(item) >= _MERGED):
        joined = {*factors}.union(*(group for group in groups if not group.isdisjoint(factors)))
        groups = [*(group for group in groups if group.isdisjoint(factors)), joined]
    return groups


def _count_tiles(dims: Iterable[tuple[Sequence[str], Sequence[str]]], sizes: Mapping[str, int], mesh: Mesh) -> dict[str, int] | None:
    """The parts into which axes cut each factor of their dimensions, major factors first; `None` if they do not divide them."""
    tiles: dict[str, int] = {}
    for axes, factors in dims:
        parts = math.prod(axis_size(axis, mesh) for axis in axes)
        for factor in factors:
            tiles[factor] = math.gcd(parts, sizes[factor])
            parts //= tiles[factor]
            if parts > 1 and tiles[factor] < sizes[factor]:
                return None
        if parts > 1:
            return None
    return tiles


def _can_be_tiled(tiles: Mapping[str, int], side: Iterable[Sequence[str]], sizes: Mapping[str, int]) -> bool:
    """Whether each dimension of a side can be cut so: below a factor that is not cut completely, none is."""
    for factors in side:
        counts = [(tiles.get(factor, 1), sizes[factor]) for factor in factors]
        whole = next((at for at, (parts, size) in enumerate(counts) if parts < size), len(counts))
        if any(parts > 1 for parts, _ in counts[whole + 1 :]):
            return False
    return True


# A lookup by position, such as `scores[arange(n), labels]`: each device finds its own rows (`GetGatherScatterBatchParallelDims`).

_NUMBERS = {
    "stablehlo.gather": ("dimension_numbers", "start_index_map"),
    "stablehlo.scatter": ("scatter_dimension_numbers", "scatter_dims_to_operand_dims"),
}


def _join_positions(op: ir.Operation, backend: Backend) -> None:
    """Make each table dimension that the tokens index by their own position the same factor as that token dimension."""
    for dim, position in list(_find_positions(op, backend)):
        if (rule := rule_of(op)) is None:
            return
        rows, tokens, found = rule.operands[0][dim], rule.operands[_TOKENS][position], (*rule.operands, *rule.results)[_FOUND]
        sizes = {rule.sizes[name] for name in (*rows, *tokens)}
        if len(rows) == len(tokens) == len(sizes) == 1 and rows not in found:
            op.attributes[_RULE] = ir.Attribute.parse(join_factors(rule, *rows, *tokens))


def _find_positions(op: ir.Operation, backend: Backend) -> Iterator[tuple[int, int]]:
    """Each table dimension that is indexed by position, with the dimension of the indices that counts."""
    attribute, name = _NUMBERS[op.name]
    numbers = str(op.attributes[attribute])
    tables, vector = re.search(rf"{name} = \[([\d, ]+)\]", numbers), re.search(r"index_vector_dim = (\d+)", numbers)
    maker = producer(op.operands[_TOKENS])
    if tables is None or vector is None or maker is None or maker.name != "stablehlo.concatenate":
        return
    if ir.IntegerAttr(maker.attributes["dimension"]).value != int(vector[1]):
        return
    for table, column in zip(tables[1].split(","), maker.operands, strict=False):
        position = _counting_dimension(column, backend)
        if position is not None and position != int(vector[1]):
            yield int(table), position


def _counting_dimension(value: ir.Value, backend: Backend) -> int | None:
    """The dimension along which a value counts from 0, seen through the test for negative indices where XLA removes it."""
    maker = producer(value)
    if maker is None or maker.name not in _COUNTING:
        return None
    if maker.name == "stablehlo.iota":
        return int(ir.IntegerAttr(maker.attributes["iota_dimension"]).value)
    if maker.name == "stablehlo.select":
        return _counting_dimension(maker.operands[2], backend) if backend.simplifies_first else None
    dim = _counting_dimension(maker.operands[0], backend)
    if dim is None or maker.name == "stablehlo.convert":
        return dim
    if maker.name == "stablehlo.broadcast_in_dim":
        return list(ir.DenseI64ArrayAttr(maker.attributes["broadcast_dimensions"]))[dim]
    before, after = shape_of(maker.operands[0]), shape_of(value)
    places = (at for at, size in enumerate(after) if size == before[dim] and math.prod(after[:at]) == math.prod(before[:dim]))
    return next(places, None)


def _join_pooled(op: ir.Operation) -> None:
    """Make each dimension of a max pooling's result the factor of the dimension that is pooled: XLA splits both alike (see `halos`)."""
    for dim in range(len(shape_of(op.operands[0]))):
        if (rule := rule_of(op)) is None:
            return
        pooled, result = (rule.operands[at][dim] for at in (0, 1))
        if pooled != result and len(pooled) == len(result) == 1:
            joined = join_factors(rule._replace(whole=tuple(set(rule.whole) - set(result))), *pooled, *result)
            op.attributes[_RULE] = ir.Attribute.parse(joined)


_COUNTING = frozenset(f"stablehlo.{name}" for name in ("iota", "select", "convert", "broadcast_in_dim", "reshape"))


def _axes_along(dims: Dims, factors: Sequence[Collection[str]], wanted: Collection[str]) -> list[str]:
    return [axis for axes, names in zip(dims, factors, strict=True) if not set(names).isdisjoint(wanted) for axis in axes]


def _without(dims: Dims, given_up: Collection[str]) -> Dims:
    return tuple(tuple(axis for axis in axes if not any(axes_overlap(axis, removed) for removed in given_up)) for axes in dims)
