"""The program in the form that XLA's partitioner sees: StableHLO after a round trip through HLO, as far as it affects propagation.

Shardy's answer depends on the order of operations where candidate axes tie, and on what is a reshape. Three things differ after the trip:

- there is no CHLO, and Shardy has no rules for it: an elementwise CHLO operation becomes a StableHLO one of the same rule, a top-k the
  custom call that XLA makes of it (what they compute does not matter here; `KIND` remembers what they were);
- HLO broadcasts only into new dimensions: one that inserts dimensions of size 1 is a reshape there, and one that stretches
  dimensions of size 1 is a reshape and a broadcast;
- a computation's operations stand in post-order from its root.
"""

import math
from collections.abc import Iterator

from jax.extend.mlir import ir

from workbench.propagation.module.function_calls import CALLER
from workbench.propagation.module.mlir_context import number_operations, producer
from workbench.propagation.module.operation_kinds import CONTROL_FLOW

KIND = "wb_kind"  # the kind of an operation before it was replaced
ORDER = "wb_order"  # an operation's place as traced, which is about the order a compiler runs it in


def to_hlo_form(main: ir.Operation) -> None:
    """Rewrite main and its loops, in place, each operation marked with its place as traced."""
    number_operations(main, ORDER)
    _rewrite(main)


def _rewrite(main: ir.Operation) -> None:
    for region in main.regions:
        for block in region.blocks:
            for each in list(block.operations):
                op = each.operation
                if op.name in CONTROL_FLOW:
                    _rewrite(op)
                elif op.name == "stablehlo.broadcast_in_dim":
                    _split_broadcast(op)
                elif op.name.startswith("chlo."):
                    _replace_chlo(op)
            _sort_post_order(block)


def _split_broadcast(op: ir.Operation) -> None:
    source, result = ir.RankedTensorType(op.operands[0].type), ir.RankedTensorType(op.results[0].type)
    if not source.rank or source == result:
        return
    dims = list(ir.DenseI64ArrayAttr(op.attributes["broadcast_dimensions"]))
    kept_dims = [i for i, dim in enumerate(dims) if source.shape[i] != 1 or result.shape[dim] == 1]
    if math.prod(source.shape) == math.prod(result.shape):
        value = _create_like("stablehlo.reshape", op.operands[0], result, {}, op)
    elif len(kept_dims) < len(dims):
        squeezed = ir.RankedTensorType.get([source.shape[i] for i in kept_dims], source.element_type)
        inner = _create_like("stablehlo.reshape", op.operands[0], squeezed, {}, op)
        dims_attribute = ir.DenseI64ArrayAttr.get([dims[i] for i in kept_dims])
        value = _create_like("stablehlo.broadcast_in_dim", inner, result, {"broadcast_dimensions": dims_attribute}, op)
    else:
        return
    op.results[0].replace_all_uses_with(value)
    op.erase()


def _replace_chlo(op: ir.Operation) -> None:
    attributes = {KIND: ir.StringAttr.get(op.name.removeprefix("chlo.")), **_copied_marks(op)}
    if op.name == "chlo.top_k":
        name, attributes["call_target_name"] = "stablehlo.custom_call", ir.StringAttr.get("mhlo.topk")
    elif all(operand.type == op.results[0].type for operand in op.operands):
        name = "stablehlo.exponential" if len(op.operands) == 1 else "stablehlo.multiply"
    else:
        return
    types = [result.type for result in op.results]
    operands = list(op.operands)[:2]  # a function of more arguments (polynomials, polygamma) is as elementwise with two
    new = ir.Operation.create(name, types, operands, attributes, loc=op.location, ip=ir.InsertionPoint(op))
    for old, result in zip(op.results, new.results, strict=True):
        old.replace_all_uses_with(result)
    op.erase()


def _create_like(name: str, operand: ir.Value, result: ir.Type, attributes: dict[str, ir.Attribute], old: ir.Operation) -> ir.Value:
    return ir.Operation.create(
        name, [result], [operand], attributes | _copied_marks(old), loc=old.location, ip=ir.InsertionPoint(old)
    ).result


def _copied_marks(old: ir.Operation) -> dict[str, ir.Attribute]:
    return {key: old.attributes[key] for key in (CALLER, ORDER) if key in old.attributes}


def _sort_post_order(block: ir.Block) -> None:
    """Every operation right after its operands, the first operand first; operations without readers behind the rest."""
    ops = [each.operation for each in block.operations]
    inside, root = set(ops), ops[-1]
    order: dict[ir.Operation, None] = {}
    for start in (root, *ops[:-1]):
        _visit_depth_first(start, inside, order)
    for op in order:
        if op != root:
            op.move_before(root)


def _visit_depth_first(start: ir.Operation, inside: set[ir.Operation], order: dict[ir.Operation, None]) -> None:
    """Depth first without recursion: an unrolled model is thousands of operations deep."""
    entered = {start}
    stack = [(start, _operand_makers(start, inside))]
    while stack:
        op, reads = stack[-1]
        step = next((each for each in reads if each not in order and each not in entered), None)
        if step is None:
            stack.pop()
            order.setdefault(op)
        else:
            entered.add(step)
            stack.append((step, _operand_makers(step, inside)))


def _operand_makers(op: ir.Operation, inside: set[ir.Operation]) -> Iterator[ir.Operation]:
    """The operations of the block whose results `op` reads, in its loops and branches too."""
    for operand in op.operands:
        if (source := producer(operand)) is not None and source in inside:
            yield source
    for region in op.regions:
        for block in region.blocks:
            for each in block.operations:
                yield from _operand_makers(each.operation, inside)
