"""How often a loop runs, and which dimensions it runs over."""

from collections.abc import Iterator

from jax.extend.mlir import ir

from workbench.partition.context import producer


def trip_count(op: ir.Operation) -> int | None:
    """How often a `while` runs, if it counts up from a constant to a constant in constant steps, as every scan and fori_loop does."""
    compares = [each.operation for each in op.regions[0].blocks[0].operations if each.operation.name == "stablehlo.compare"]
    if len(compares) != 1 or "LT" not in str(compares[0].attributes["comparison_direction"]):
        return None
    counter, limit = compares[0].operands
    if not isinstance(counter.owner, ir.Block):
        return None
    place = ir.BlockArgument(counter).arg_number
    if isinstance(limit.owner, ir.Block):
        limit = op.operands[ir.BlockArgument(limit).arg_number]
    first, last, step = _constant(op.operands[place]), _constant(limit), _increment(op.regions[1].blocks[0], place)
    if first is None or last is None or not step:
        return None
    return max(-(-(last - first) // step), 0)


def _increment(body: ir.Block, place: int) -> int | None:
    """By how much the body raises its counter each time."""
    last = list(body.operations)[-1].operation
    owner = producer(last.operands[place])
    if owner is None or owner.name != "stablehlo.add":
        return None
    steps = [_constant(operand) for operand in owner.operands]
    return next((step for step in steps if step is not None), None)


def _constant(value: ir.Value) -> int | None:
    owner = producer(value)
    if owner is None or owner.name not in ("stablehlo.constant", "sdy.constant"):
        return None
    elements = owner.attributes["value"]
    return int(elements[0]) if isinstance(elements, ir.DenseIntElementsAttr) and len(elements) == 1 else None


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
