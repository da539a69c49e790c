"""`x[arange(n), places]`: of each of x's rows what is at one place. XLA:TPU takes the rows as a batch: each device picks from its own.

JAX writes a gather, and for its gradient a scatter, whose places are pairs of a row's number and a place in the row; the partitioner would
bring all rows together for that. Here the row becomes a dimension of the batch of either.
"""

import math
import re
from typing import NamedTuple

from jax.extend.mlir import ir

from workbench.partition.context import int64, is_zero, producer, shape_of

_LISTS = re.compile(r"(\w+) = \[([\d, ]*)\]")
_VECTOR = re.compile(r"index_vector_dim = (\d+)")


class _Names(NamedTuple):
    """What an operation calls its dimensions: the attribute, its text, those a slice leaves out, the batch's, and those places are of."""

    attribute: str
    text: str
    left_out: str
    batch: str
    places_batch: str
    places_of: str


_NAMES = {
    "stablehlo.gather": _Names(
        *("dimension_numbers", "gather", "collapsed_slice_dims", "operand_batching_dims", "start_indices_batching_dims", "start_index_map"),
    ),
    "stablehlo.scatter": _Names(
        *("scatter_dimension_numbers", "scatter", "inserted_window_dims"),
        *("input_batching_dims", "scatter_indices_batching_dims", "scatter_dims_to_operand_dims"),
    ),
}


def count_plainly(op: ir.Operation) -> None:
    """`i < 0 ? i + n : i`, as JAX writes an index, of numbers that count from zero up is `i`, in whatever shape of as many elements."""
    last = op.operands[-1]
    if (along := _counted(last)) is None:
        return
    if op.name == "stablehlo.broadcast_in_dim" and math.prod(shape_of(op.results[0])) == math.prod(shape_of(last)):
        number = int64(ir.DenseI64ArrayAttr(op.attributes["broadcast_dimensions"])[along])
        last = _made("stablehlo.iota", [], op.results[0].type, {"iota_dimension": number}, op)
    elif op.name != "stablehlo.select" or not _is_below_zero(op.operands[0], last):
        return
    op.results[0].replace_all_uses_with(last)
    op.erase()


def _is_below_zero(value: ir.Value, number: ir.Value) -> bool:
    compare = producer(value)
    if compare is None or compare.name != "stablehlo.compare" or "LT" not in str(compare.attributes["comparison_direction"]):
        return False
    return bool(compare.operands[0] == number) and is_zero(compare.operands[1])


def pick_in_rows(op: ir.Operation) -> None:
    """Make the first row's number among the places of a gather or scatter a dimension of the batch, in place."""
    names, joined = _NAMES[op.name], producer(op.operands[1])
    text = str(op.attributes[names.attribute])
    vector = int(found[1]) if (found := _VECTOR.search(text)) else 0
    if joined is None or joined.name != "stablehlo.concatenate" or ir.IntegerAttr(joined.attributes["dimension"]).value != vector:
        return
    lists = {name: [int(each) for each in numbers.split(",") if each.strip()] for name, numbers in _LISTS.findall(text)}
    parts = list(joined.operands)
    if vector != len(shape_of(op.operands[1])) - 1 or not 1 < len(parts) == len(lists[names.places_of]):
        return
    rows = shape_of(op.operands[0])
    for number, (part, dim) in enumerate(zip(parts, lists[names.places_of], strict=True)):
        along = _counted(part)
        if along not in (None, vector) and dim in lists.get(names.left_out, ()) and shape_of(part)[along] == rows[dim]:
            op.operands[1] = _joined(parts[:number] + parts[number + 1 :], joined, vector)
            op.attributes[names.attribute] = _numbers(names, lists, number, along, vector)
            return


def _numbers(names: _Names, lists: dict[str, list[int]], number: int, along: int, vector: int) -> ir.Attribute:
    """The dimensions of the operation, with that of place `number` in the batch."""
    dim = lists[names.places_of].pop(number)
    lists[names.left_out].remove(dim)
    batch = sorted([*zip(lists.get(names.batch, []), lists.get(names.places_batch, []), strict=True), (dim, along)])
    lists[names.batch], lists[names.places_batch] = [each for each, _ in batch], [each for _, each in batch]
    written = ", ".join(f"{name} = {numbers}" for name, numbers in lists.items() if numbers)
    return ir.Attribute.parse(f"#stablehlo.{names.text}<{written}, index_vector_dim = {vector}>")


def _joined(parts: list[ir.Value], joined: ir.Operation, vector: int) -> ir.Value:
    if len(parts) == 1:
        return parts[0]
    one = ir.RankedTensorType(parts[0].type)
    result = ir.RankedTensorType.get([*one.shape[:vector], len(parts)], one.element_type)
    return _made("stablehlo.concatenate", parts, result, {"dimension": joined.attributes["dimension"]}, joined)


def _made(name: str, operands: list[ir.Value], result: ir.Type, attributes: dict[str, ir.Attribute], at: ir.Operation) -> ir.Value:
    """The result of a new operation before another."""
    return ir.Operation.create(name, [result], operands, attributes, loc=at.location, ip=ir.InsertionPoint(at)).results[0]


def _counted(value: ir.Value) -> int | None:
    """The dimension along which a value counts from zero up, if it does nothing else."""
    made = producer(value)
    return ir.IntegerAttr(made.attributes["iota_dimension"]).value if made is not None and made.name == "stablehlo.iota" else None
