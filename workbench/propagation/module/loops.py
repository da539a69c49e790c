"""Loops of a module: their trip counts, the dimensions they run over, and the values they capture instead of carrying."""

import re
from collections.abc import Iterator

from jax.extend.mlir import ir

from workbench.propagation.module.mlir_context import constant_value, is_zero, producer, shape_of

# Trip counts, and the dimensions that a loop runs over.

_WITH_START = 2  # operands of a reduction of one array


def trip_count(op: ir.Operation) -> int | None:
    """The trip count of a `while` with constant start, limit and step, like every scan and fori_loop."""
    return _trips_by_condition(op, _last_operation(op.regions[0].blocks[0]).operands[0])


def max_trip_count(op: ir.Operation) -> int | None:
    """The trip count limit, independent of data, of a solver, a search or one of Equinox's bounded loops."""
    bounds = (_trips_by_condition(op, item) for item in _conditions(_last_operation(op.regions[0].blocks[0]).operands[0]))
    return min((item for item in bounds if item is not None), default=None)


def _conditions(value: ir.Value) -> Iterator[ir.Value]:
    """The conditions that must all hold for a Boolean value to be true."""
    owner = producer(value)
    if owner is not None and owner.name == "stablehlo.and":
        for operand in owner.operands:
            yield from _conditions(operand)
    elif owner is not None and _is_repeated_truth(owner):
        yield from _conditions(owner.operands[0])
    else:
        yield value


def _is_repeated_truth(op: ir.Operation) -> bool:
    """Return whether an operation only passes a Boolean value on: a conversion, `x != False`, any of one element."""
    if op.name == "stablehlo.reduce":
        return len(op.operands) == _WITH_START and shape_of(op.operands[0]) == ()
    if op.name not in ("stablehlo.convert", "stablehlo.compare") or str(ir.RankedTensorType(op.operands[0].type).element_type) != "i1":
        return False
    if op.name == "stablehlo.convert":
        return True
    truth, other = op.operands  # `prune` has the first read twice, for a splat
    return "NE" in str(op.attributes["comparison_direction"]) and (other == truth or is_zero(other))


def _trips_by_condition(op: ir.Operation, condition: ir.Value) -> int | None:
    body, compare = op.regions[1].blocks[0], producer(condition)
    if compare is None or compare.name != "stablehlo.compare":
        return None
    counter, limit = compare.operands
    if producer(counter) is not None:
        return None
    position = ir.BlockArgument(counter).arg_number
    if producer(limit) is None:
        carried = ir.BlockArgument(limit).arg_number
        if _last_operation(body).operands[carried] != body.arguments[carried]:
            return None  # the limit is not constant
        limit = op.operands[carried]
    first, last, step = constant_value(op.operands[position]), constant_value(limit), _increment(body, position)
    if first is None or last is None or not step:
        return None
    return _count_trips(str(compare.attributes["comparison_direction"]), first, last, step)


def _count_trips(comparison: str, first: int, last: int, step: int) -> int | None:
    """The number of values `first`, `first + step`, ... that satisfy the comparison with `last`; `None` if infinite."""
    if any(direction in comparison for direction in ("GT", "GE")):  # counting down is counting up with all signs changed
        first, last, step = -first, -last, -step
    elif not any(direction in comparison for direction in ("LT", "LE")):
        return None
    end = last + any(direction in comparison for direction in ("LE", "GE"))
    if first >= end:
        return 0
    return -(-(end - first) // step) if step > 0 else None


def _last_operation(block: ir.Block) -> ir.Operation:
    return list(block.operations)[-1].operation


def _increment(body: ir.Block, position: int) -> int | None:
    """The change of the body's counter in each iteration; negative if it counts down."""
    owner = producer(_last_operation(body).operands[position])
    if owner is None or owner.name not in ("stablehlo.add", "stablehlo.subtract"):
        return None
    counter = body.arguments[position]
    left, right = owner.operands
    if left == counter:
        step = constant_value(right)
        return -step if step is not None and owner.name == "stablehlo.subtract" else step
    return constant_value(left) if right == counter and owner.name == "stablehlo.add" else None


def scanned_dimensions(op: ir.Operation, trips: int) -> Iterator[tuple[ir.Value, int]]:
    """The dimensions that a scan slices or stacks, one slice per iteration."""
    for item in op.regions[1].blocks[0].operations:
        inner = item.operation
        if inner.name == "stablehlo.dynamic_slice":
            whole, part = inner.operands[0], inner.results[0]
        elif inner.name == "stablehlo.dynamic_update_slice":
            whole, part = inner.operands[0], inner.operands[1]
        else:
            continue
        sizes = zip(ir.RankedTensorType(whole.type).shape, ir.RankedTensorType(part.type).shape, strict=True)
        yield from ((whole, i) for i, (size, part_size) in enumerate(sizes) if part_size == 1 and size == trips)


# Loop invariants are captured by the loop instead of carried, as XLA does before it propagates shardings.
#
# A scan's constants and stacked inputs pass through the StableHLO loop unchanged. If carried, they would force one sharding on every use in
# the loop through the carry's data-flow edge; if captured, each use is free, as in XLA's partitioner. As in its Shardy round trip
# (`xla-sdy-open-while-free-vars-sharding`), an open sharding constraint before the loop lets the inside differ from the outside.

_CONSTRAINING = re.compile(r'["=]|\{\}')  # an axis, replicated or unreduced axes, or a closed whole dimension


def capture_invariants(parent: ir.Operation) -> None:
    """Capture the invariants of every loop below `parent`, outer loops first, in place."""
    for region in parent.regions:
        for block in region.blocks:
            for item in list(block.operations):
                op = item.operation
                if op.name == "stablehlo.while":
                    _capture(op)
                if len(op.regions) and op.name.startswith(("stablehlo.while", "stablehlo.case", "stablehlo.if")):
                    capture_invariants(op)


def _capture(loop: ir.Operation) -> None:
    condition, body = (region.blocks[0] for region in loop.regions)
    returning = list(body.operations)[-1].operation
    for i, argument in enumerate(body.arguments):
        if returning.operands[i] != argument or not ir.RankedTensorType(argument.type).rank:
            continue
        start = loop.operands[i]
        opened = _open_constraint(start, loop)
        argument.replace_all_uses_except(opened, returning)
        condition.arguments[i].replace_all_uses_with(opened)
        loop.results[i].replace_all_uses_with(start)


def _open_constraint(value: ir.Value, before: ir.Operation) -> ir.Value:
    dims = ", ".join(["{?}"] * ir.RankedTensorType(value.type).rank)
    # The mesh is declared when a plan is known (`propagate`); an inline empty mesh here makes Shardy's passes crash.
    sharding = ir.Attribute.parse(f"#sdy.sharding<@mesh, [{dims}]>")
    insertion_point = ir.InsertionPoint(before)
    return ir.Operation.create(
        "sdy.sharding_constraint", [value.type], [value], {"sharding": sharding}, loc=before.location, ip=insertion_point
    ).result


def is_open(constraint: ir.Operation) -> bool:
    """Return whether a constraint requests nothing, like those inserted before loops."""
    return _CONSTRAINING.search(str(constraint.attributes["sharding"])) is None
