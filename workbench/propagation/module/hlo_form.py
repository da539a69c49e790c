"""Rewrites StableHLO into the form that XLA's partitioner sees after a round trip through HLO, as far as it affects
propagation.

Shardy's answer depends on the order of operations where candidate axes tie, and on which operations are reshapes. The
round trip changes four things:

- there is no CHLO, for which Shardy has no rules: an elementwise CHLO operation becomes a StableHLO one of the same
  rule, a top-k XLA's custom call (the computed values do not matter here; `KIND` stores the original kind);
- HLO broadcasts only into new dimensions: a broadcast that inserts dimensions of size 1 is a reshape, and one that
  stretches dimensions of size 1 is a reshape and a broadcast;
- a concatenation of an array with empty ones is the array;
- a computation's operations stand in post-order from its root.
"""

import math
from collections.abc import Iterator

from jax.extend.mlir import ir

from workbench.propagation.module.function_calls import CALLER
from workbench.propagation.module.mlir_context import number_operations, producer
from workbench.propagation.module.operation_kinds import CONTROL_FLOW, operations_below

KIND = "wb_kind"  # the kind of an operation before it was replaced
ORDER = "wb_order"  # an operation's traced position, roughly the order in which a compiler runs it
_HIDDEN = "wb.hidden"  # name and attributes of an operation that another stands in for
_SHARDING = "sdy.sharding"


def to_hlo_form(main: ir.Operation) -> None:
    """Rewrite main and its loops in place, and mark each operation with its traced position."""
    number_operations(main, ORDER)
    _rewrite(main)


def _rewrite(main: ir.Operation) -> None:
    for region in main.regions:
        for block in region.blocks:
            for item in list(block.operations):
                op = item.operation
                if op.name in CONTROL_FLOW:
                    _rewrite(op)
                elif op.name == "stablehlo.broadcast_in_dim":
                    _split_broadcast(op)
                elif op.name.startswith("chlo."):
                    _replace_chlo(op)
                elif op.name == "stablehlo.concatenate":
                    _drop_empty_parts(op)
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


def _drop_empty_parts(op: ir.Operation) -> None:
    """Drop a concatenation with parts without elements only, as at the end of `jax.lax.associative_scan`."""
    whole = [operand for operand in op.operands if operand.type == op.results[0].type]
    if len(op.operands) > 1 and whole and math.prod(ir.RankedTensorType(whole[0].type).shape):
        op.results[0].replace_all_uses_with(whole[0])
        op.erase()


def _replace_chlo(op: ir.Operation) -> None:
    name = op.name.removeprefix("chlo.")
    _create_stand_in(op, {KIND: ir.StringAttr.get(name), **_copied_marks(op)})


def hide_chlo(main: ir.Operation) -> None:
    """Replace CHLO operations for a propagation, in place, such that `restore_chlo` can undo it."""
    for op in list(operations_below(main)):
        if op.name.startswith("chlo."):
            attributes = ir.DictAttr.get(dict(op.attributes.items()))
            _create_stand_in(op, {_HIDDEN: ir.DictAttr.get({"name": ir.StringAttr.get(op.name), "attributes": attributes})})


def restore_chlo(main: ir.Operation) -> None:
    """Put the operations of `hide_chlo` back, in place, with the shardings that they have received."""
    for op in list(operations_below(main)):
        if _HIDDEN in op.attributes:
            hidden = ir.DictAttr(op.attributes[_HIDDEN])
            attributes = {item.name: item.attr for item in ir.DictAttr(hidden["attributes"])}
            if _SHARDING in op.attributes:
                attributes[_SHARDING] = op.attributes[_SHARDING]
            _replace(op, ir.StringAttr(hidden["name"]).value, list(op.operands), attributes)


def _create_stand_in(op: ir.Operation, attributes: dict[str, ir.Attribute]) -> None:
    if op.name == "chlo.top_k":
        _replace(op, "stablehlo.custom_call", list(op.operands), {**attributes, "call_target_name": ir.StringAttr.get("mhlo.topk")})
    elif all(operand.type == op.results[0].type for operand in op.operands):
        _replace(op, "stablehlo.exponential" if len(op.operands) == 1 else "stablehlo.multiply", list(op.operands), attributes)


def _replace(op: ir.Operation, name: str, operands: list[ir.Value], attributes: dict[str, ir.Attribute]) -> None:
    types = [result.type for result in op.results]
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
    """Move every operation right after its operands, the first operand first; operations without readers go last."""
    ops = [item.operation for item in block.operations]
    inside, root = set(ops), ops[-1]
    order: dict[ir.Operation, None] = {}
    for start in (root, *ops[:-1]):
        _visit_depth_first(start, inside, order)
    for op in order:
        if op != root:
            op.move_before(root)


def _visit_depth_first(start: ir.Operation, inside: set[ir.Operation], order: dict[ir.Operation, None]) -> None:
    """Without recursion, as an unrolled model is thousands of operations deep."""
    entered = {start}
    stack = [(start, _operand_makers(start, inside))]
    while stack:
        op, reads = stack[-1]
        step = next((maker for maker in reads if maker not in order and maker not in entered), None)
        if step is None:
            stack.pop()
            order.setdefault(op)
        else:
            entered.add(step)
            stack.append((step, _operand_makers(step, inside)))


def _operand_makers(op: ir.Operation, inside: set[ir.Operation]) -> Iterator[ir.Operation]:
    """The operations of the block whose results `op` reads, also inside its loops and branches."""
    for operand in op.operands:
        if (source := producer(operand)) is not None and source in inside:
            yield source
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield from _operand_makers(inner.operation, inside)
