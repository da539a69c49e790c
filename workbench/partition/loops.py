"""How often a loop runs, and which dimensions it runs over."""

from collections.abc import Iterator

from jax.extend.mlir import ir

from workbench.partition.context import constant, producer


def trip_count(op: ir.Operation) -> int | None:
    """How often a `while` runs, if it counts up from a constant to a constant in constant steps, as every scan and fori_loop does."""
    condition, body = (region.blocks[0] for region in op.regions)
    compare = producer(_last(condition).operands[0])
    if compare is None or compare.name != "stablehlo.compare":
        return None
    counter, limit = compare.operands
    if producer(counter) is not None:
        return None
    place = ir.BlockArgument(counter).arg_number
    if producer(limit) is None:
        carried = ir.BlockArgument(limit).arg_number
        if _last(body).operands[carried] != body.arguments[carried]:
            return None  # the limit moves
        limit = op.operands[carried]
    first, last, step = constant(op.operands[place]), constant(limit), _increment(body, place)
    if first is None or last is None or not step:
        return None
    return _turns(str(compare.attributes["comparison_direction"]), first, last, step)


def _turns(comparison: str, first: int, last: int, step: int) -> int | None:
    """How often `first`, `first + step`, ... is less than (at most, ...) `last`; `None` if for ever."""
    if any(direction in comparison for direction in ("GT", "GE")):  # counting down is counting up with all signs changed
        first, last, step = -first, -last, -step
    elif not any(direction in comparison for direction in ("LT", "LE")):
        return None
    end = last + any(direction in comparison for direction in ("LE", "GE"))
    if first >= end:
        return 0
    return -(-(end - first) // step) if step > 0 else None


def _last(block: ir.Block) -> ir.Operation:
    return list(block.operations)[-1].operation


def _increment(body: ir.Block, place: int) -> int | None:
    """By how much the body raises its counter each time, or lowers it, a negative number."""
    owner = producer(_last(body).operands[place])
    if owner is None or owner.name not in ("stablehlo.add", "stablehlo.subtract"):
        return None
    counter = body.arguments[place]
    left, right = owner.operands
    if left == counter:
        step = constant(right)
        return -step if step is not None and owner.name == "stablehlo.subtract" else step
    return constant(left) if right == counter and owner.name == "stablehlo.add" else None


def scanned_dimensions(op: ir.Operation, trips: int) -> Iterator[tuple[ir.Value, int]]:
    """The dimensions a scan takes apart or puts together one slice a turn: the leading dimension of its stacked inputs and outputs."""
    for each in op.regions[1].blocks[0].operations:
        inner = each.operation
        if inner.name == "stablehlo.dynamic_slice":
            whole, part = inner.operands[0], inner.results[0]
        elif inner.name == "stablehlo.dynamic_update_slice":
            whole, part = inner.operands[0], inner.operands[1]
        else:
            continue
        sizes = zip(ir.RankedTensorType(whole.type).shape, ir.RankedTensorType(part.type).shape, strict=True)
        yield from ((whole, i) for i, (size, taken) in enumerate(sizes) if taken == 1 and size == trips)
