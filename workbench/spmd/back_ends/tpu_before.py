"""What XLA:TPU makes of a program before it partitions it, as far as that changes what is sent."""

import math
import re

from jax.extend.mlir import ir

from workbench.partition.context import int64, is_zero, main_function, module_bytes, parse_module, producer, run_passes, shape_of
from workbench.partition.operations import adds_updates, operations_below
from workbench.spmd.back_ends.row_picks import count_plainly, pick_in_rows


def simplify_for_tpu(module: bytes) -> bytes:
    """The program (StableHLO, in MLIR's bytecode) as XLA:TPU partitions it: what it computes twice in the same way is computed once,
    scatters that are added to something add to it themselves, `top_k` sorts, and what is picked in each row has the rows as a batch."""
    parsed = parse_module(module)
    with parsed.context, ir.Location.unknown():
        run_passes(parsed.operation, "cse")
        for op in list(operations_below(main_function(parsed.operation))):
            if op.name == "stablehlo.add":
                _scatter_onto(op)
            elif op.name == "chlo.top_k":
                _sort_for(op)
            elif op.name in ("stablehlo.select", "stablehlo.broadcast_in_dim"):
                count_plainly(op)
            elif op.name in ("stablehlo.gather", "stablehlo.scatter"):
                pick_in_rows(op)
    return module_bytes(parsed)


def _sort_for(top_k: ir.Operation) -> None:
    """The largest elements along the last dimension and where they are: the first of all of them, sorted (`topk_rewriter.cc`)."""
    given = ir.RankedTensorType(top_k.operands[0].type)
    places = ir.RankedTensorType.get(given.shape, ir.RankedTensorType(top_k.results[1].type).element_type)
    last = int64(len(given.shape) - 1)
    with ir.InsertionPoint(top_k), top_k.location:
        numbers = ir.Operation.create("stablehlo.iota", [places], [], {"iota_dimension": last}).results[0]
        options = {"dimension": last, "is_stable": ir.BoolAttr.get(True)}
        ordered = ir.Operation.create("stablehlo.sort", [given, places], [top_k.operands[0], numbers], options, regions=1)
        elements = [ir.RankedTensorType.get([], each.element_type) for each in (given, given, places, places)]
        with ir.InsertionPoint(ordered.regions[0].blocks.append(*elements)) as body:
            _return_larger(body.block)
        for result, whole in zip(top_k.results, ordered.results, strict=True):
            result.replace_all_uses_with(_first(whole, ir.RankedTensorType(result.type)))
    top_k.erase()


def _return_larger(block: ir.Block) -> None:
    direction, order = (ir.Attribute.parse(f"#stablehlo<{text}>") for text in ("comparison_direction GT", "comparison_type TOTALORDER"))
    answer = ir.RankedTensorType.get([], ir.IntegerType.get_signless(1))
    is_float = isinstance(ir.RankedTensorType(block.arguments[0].type).element_type, ir.FloatType)
    compared = {"comparison_direction": direction, **({"compare_type": order} if is_float else {})}
    larger = ir.Operation.create("stablehlo.compare", [answer], list(block.arguments[:2]), compared).results[0]
    ir.Operation.create("stablehlo.return", [], [larger])


def _first(whole: ir.Value, part: ir.RankedTensorType) -> ir.Value:
    """As many of a value's elements along each dimension as `part` has."""
    lists = {"start_indices": [0] * part.rank, "limit_indices": part.shape, "strides": [1] * part.rank}
    bounds = {name: ir.DenseI64ArrayAttr.get(numbers) for name, numbers in lists.items()}
    return ir.Operation.create("stablehlo.slice", [part], [whole], bounds).results[0]


def _scatter_onto(addition: ir.Operation) -> None:
    """`x + scatter(y, places, updates)` becomes `scatter(x + y, places, updates)`, so that the gradient of an embedding that is the last
    product's weight, too, is added up over devices in two collectives. Two scatters become one of the updates of both where these are
    smaller than what they are added to, and stay else (`AlgebraicSimplifierVisitor::HandleAdd`)."""
    left, right = (_adding_scatter(value) for value in addition.operands)
    if left and right:
        if _is_cheap(left, right) and _are_joinable(left, right):
            _join(addition, left, right)
        return
    if (scatter := right or left) is None:
        return
    x, y = addition.operands[0 if right else 1], scatter.operands[0]
    scatter.move_after(addition)
    addition.results[0].replace_all_uses_with(scatter.results[0])
    scatter.operands[0] = _sum(addition, x, y)


def _join(addition: ir.Operation, left: ir.Operation, right: ir.Operation) -> None:
    """One scatter, behind the addition, of the updates of two."""
    places, updates = (left.operands[1], right.operands[1]), (left.operands[2], right.operands[2])
    at, update_at = _joined_along(left, *(shape_of(value) for value in places))
    left.move_after(addition)
    addition.results[0].replace_all_uses_with(left.results[0])
    with ir.InsertionPoint(left), left.location:
        left.operands[1], left.operands[2] = _concatenated(places, at), _concatenated(updates, update_at)
    left.operands[0] = _sum(addition, left.operands[0], right.operands[0])


def _are_joinable(one: ir.Operation, other: ir.Operation) -> bool:
    """Whether places and updates of two scatters can be put one behind the other: alike but for one dimension of the places."""
    names = ("scatter_dimension_numbers", "indices_are_sorted", "unique_indices")
    is_free = all("true" not in str(each.attributes[name]) for each in (one, other) for name in names[1:] if name in each.attributes)
    alike = is_free and one.attributes[names[0]] == other.attributes[names[0]]
    sizes = [shape_of(each.operands[1]) for each in (one, other)]
    return alike and len(sizes[0]) == len(sizes[1]) > 1 and sum(a != b for a, b in zip(*sizes, strict=True)) <= 1


def _joined_along(scatter: ir.Operation, one: list[int], other: list[int]) -> tuple[int, int]:
    """The dimension of places, and of updates, along which two scatters are joined: where they differ, else the first."""
    numbers = str(scatter.attributes["scatter_dimension_numbers"])
    windows, vector = re.search(r"update_window_dims = \[([^]]*)\]", numbers), re.search(r"index_vector_dim = (\d+)", numbers)
    inside = set(map(int, windows[1].split(","))) if windows else set()
    outside = [dim for dim in range(len(shape_of(scatter.operands[2]))) if dim not in inside]
    dims = [dim for dim in range(len(one)) if dim != (int(vector[1]) if vector else 0)]
    number = next((i for i, dim in enumerate(dims) if one[dim] != other[dim]), 0)
    return dims[number], outside[number]


def _concatenated(values: tuple[ir.Value, ir.Value], dim: int) -> ir.Value:
    one, other = (ir.RankedTensorType(value.type) for value in values)
    shape = [size + (other.shape[i] if i == dim else 0) for i, size in enumerate(one.shape)]
    joined = ir.RankedTensorType.get(shape, one.element_type)
    return ir.Operation.create("stablehlo.concatenate", [joined], list(values), {"dimension": int64(dim)}).results[0]


def _sum(addition: ir.Operation, x: ir.Value, y: ir.Value) -> ir.Value:
    """The addition of these two instead; where one is zero it goes, and the other is left."""
    rest = [value for value in (x, y) if not is_zero(value)]
    if len(rest) == 2:
        addition.operands[0], addition.operands[1] = rest
        return addition.results[0]
    addition.erase()
    return rest[0] if rest else x


def _adding_scatter(value: ir.Value) -> ir.Operation | None:
    """The scatter that makes a value by adding updates, if nothing else reads it."""
    op = producer(value)
    return op if op is not None and len(list(value.uses)) == 1 and adds_updates(op) else None


def _is_cheap(one: ir.Operation, other: ir.Operation) -> bool:
    return sum(math.prod(shape_of(each.operands[2])) for each in (one, other)) < math.prod(shape_of(one.results[0]))
