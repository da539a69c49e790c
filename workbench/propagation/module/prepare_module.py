"""From lowered StableHLO to a module ready for edits: everything that no layout changes is done here, once a trace.

    lowered module  ->  meshes merged, calls inlined  ->  the form XLA's partitioner sees  ->  loop invariants captured
                    ->  constants set apart  ->  irrelevant operations dropped  ->  rules populated  ->  operations numbered

The result propagates as the program does in XLA, in half the operations.
"""

from jax.extend.mlir import ir

from workbench.propagation.module.function_calls import CALL, CALLER, callee_of, functions_of, move_to_call, scope_in_call
from workbench.propagation.module.hlo_form import to_hlo_form
from workbench.propagation.module.loops import capture_invariants
from workbench.propagation.module.mlir_context import main_function, number_operations, producer, run_passes
from workbench.propagation.module.operation_kinds import CONSTANTS, CONTROL_FLOW, ELEMENTWISE, operations_below
from workbench.propagation.module.source_location import readable_path, scope_of
from workbench.propagation.module.source_meshes import drop_single_devices
from workbench.propagation.module.varying_axes import mark_varying_axes

ID = "wb_id"
SKIPS_LINKS = "wb_skips_links"
"""On an operation of the optimiser whose operand stands for what dropped links make of it: for another value than other readers have."""


def prepare(module: ir.Module) -> None:
    """Prepare a module with one mesh for edits, in place."""
    with module.context, ir.Location.unknown():
        drop_single_devices(module.operation)
        inline_calls(module.operation)
        to_hlo_form(main_function(module.operation))
        capture_invariants(main_function(module.operation))
        mark_varying_axes(module.operation)
        run_passes(module.operation, "sdy-constant-or-scalar-splitter")
        prune(main_function(module.operation))
        run_passes(module.operation, "sdy-add-data-flow-edges,func.func(sdy-populate-op-sharding-rules)")
        number_operations(main_function(module.operation), ID)


# Pruning: operations that do not affect sharding are dropped, once a trace, so that every edit propagates over half the operations.
#
# Three things can be dropped without changing any sharding or what is sent:
#
# - a scalar's broadcast, where an elementwise operation reads it beside a whole tensor: it gets its one reader's sharding and is never
#   sent;
# - all but one of several equal scalar constants, which have no dimension to shard;
# - in the optimiser, links of an elementwise chain with one reader and one whole operand of the same type: a reshard before or after such
#   a
#   link moves the same bytes. (Elsewhere they stay, for they may be constrained by name.)


def prune(main: ir.Operation) -> None:
    """Drop irrelevant operations, in place; in loops and branches too."""
    _share_scalar_constants(main)
    scalars: dict[ir.Value, bool] = {}
    for block in _blocks(main):
        for each in list(block.operations):
            op = each.operation
            if op.name in ELEMENTWISE and len(op.operands) > 1:
                _drop_scalar_broadcasts(op, scalars)
            if op.name in ELEMENTWISE and _in_the_optimizer(op):
                _skip_elementwise_links(op)
    for block in _blocks(main):
        _erase_unused(block)


def _blocks(parent: ir.Operation) -> list[ir.Block]:
    found = []
    for region in parent.regions:
        for block in region.blocks:
            found.append(block)
            for each in block.operations:
                if each.operation.name in CONTROL_FLOW:
                    found += _blocks(each.operation)
    return found


def _share_scalar_constants(main: ir.Operation) -> None:
    for block in _blocks(main):
        known: dict[ir.Attribute, ir.Value] = {}
        for each in list(block.operations):
            op = each.operation
            if op.name in CONSTANTS and not _shape(op.results[0]) and not isinstance(_element(op.results[0]), ir.ComplexType):
                first = known.setdefault(op.attributes["value"], op.results[0])
                if first != op.results[0]:
                    op.results[0].replace_all_uses_with(first)
                    op.erase()


def _element(value: ir.Value) -> ir.Type:
    """The element type of a tensor; jaxlib reads no attribute of complex numbers."""
    return ir.RankedTensorType(value.type).element_type


def _drop_scalar_broadcasts(op: ir.Operation, scalars: dict[ir.Value, bool]) -> None:
    operands = list(op.operands)
    spread = [_is_scalar_broadcast(value, scalars) for value in operands]
    whole = [value for value, is_spread in zip(operands, spread, strict=True) if not is_spread]
    for i, value in enumerate(operands):
        if spread[i]:
            # The same type if there is one; a comparison's other operand may differ in type, and its shape is all that sharding looks at.
            alike = [other for other in whole if _shape(other) == _shape(value)] if op.name == "stablehlo.compare" else []
            like = [other for other in whole if other.type == value.type] or alike
            if like:
                op.operands[i] = like[0]


def _skip_elementwise_links(op: ir.Operation) -> None:
    """Skip producers that only pass on one tensor of the same type."""
    for i, value in enumerate(op.operands):
        source = value
        while (link := producer(source)) is not None and _has_one_tensor_operand(link, source):
            source = link.operands[0]
        if source != value and source.type == value.type:
            op.operands[i] = source
            op.attributes[SKIPS_LINKS] = ir.UnitAttr.get()


def _has_one_tensor_operand(link: ir.Operation, result: ir.Value) -> bool:
    if link.name not in ELEMENTWISE or link.operands[0].type != result.type or any(other != link.operands[0] for other in link.operands):
        return False
    return len({use.owner for use in result.uses}) == 1 and _in_the_optimizer(link)


def _in_the_optimizer(op: ir.Operation) -> bool:
    """Whether it is in the scope that `trace_training` puts around the optimiser's update."""
    return readable_path(scope_of(op.location)).startswith("optimizer/")


def _shape(value: ir.Value) -> list[int]:
    return list(ir.RankedTensorType(value.type).shape) if isinstance(value.type, ir.RankedTensorType) else []


def _is_scalar_broadcast(value: ir.Value, scalars: dict[ir.Value, bool]) -> bool:
    owner = producer(value)
    return owner is not None and owner.name == "stablehlo.broadcast_in_dim" and _is_computed_from_scalars(owner.operands[0], scalars)


def _is_computed_from_scalars(value: ir.Value, known: dict[ir.Value, bool]) -> bool:
    """Whether a scalar is made of scalars alone: dropping a reader of it can drop no communication."""
    pending = [value]  # a stack, not recursion: the norm of all gradients is a chain as long as the list of tensors
    while pending:
        each = pending[-1]
        owner = None if _shape(each) else producer(each)
        operands = [] if owner is None else list(owner.operands)
        if each in known:
            pending.pop()
        elif _shape(each) or (owner is not None and len(owner.regions)) or not all(known.get(operand, True) for operand in operands):
            known[each] = False
        elif (unknown := next((operand for operand in operands if operand not in known), None)) is not None:
            pending.append(unknown)
        else:
            known[each] = True
    return known[value]


def _erase_unused(block: ir.Block) -> None:
    erasable = ELEMENTWISE | {"stablehlo.broadcast_in_dim", *CONSTANTS}
    for each in reversed(list(block.operations)):
        op = each.operation
        if op.name in erasable and not any(any(result.uses) for result in op.results):
            op.erase()


# Calls are replaced by the bodies they call, so that a program is one function with loops: what the planner propagates over.
#
# Done once, so that no edit pays for it, and every operation has one place and one named scope. (MLIR's own `inline` pass has no inliner
# for `func` in jaxlib and leaves the calls.)


def inline_calls(module: ir.Operation) -> None:
    """Inline every `func.call` reachable from main, in place, and drop the other functions."""
    functions = functions_of(module)
    _inline_region(main_function(module), functions)
    for name, function in functions.items():
        if name != "main":
            function.erase()


def _inline_region(parent: ir.Operation, functions: dict[str, ir.Operation]) -> None:
    for region in parent.regions:
        for block in region.blocks:
            pending = [op.operation for op in block.operations]
            pending.reverse()
            while pending:
                op = pending.pop()
                if op.name == CALL:
                    callee = functions[callee_of(op)]
                    pending.extend(reversed(_expand_call(op, callee)))
                elif len(op.regions):
                    _inline_region(op, functions)


def _expand_call(call: ir.Operation, callee: ir.Operation) -> list[ir.Operation]:
    """Clone the callee's operations in front of the call, connect them, and erase the call."""
    scope = ir.StringAttr.get(scope_in_call(call))
    block = callee.regions[0].blocks[0]
    values = dict(zip(block.arguments, call.operands, strict=True))
    clones = []
    for op in block.operations:
        source = op.operation
        if source.name == "func.return":
            for result, value in zip(call.results, source.operands, strict=True):
                result.replace_all_uses_with(values.get(value, value))
            continue
        clone = source.clone(ir.InsertionPoint(call))
        _rewire(clone, values)
        _tag_scope(clone, scope)
        move_to_call((clone, *operations_below(clone)), callee, call)
        values.update(zip(source.results, clone.results, strict=True))
        clones.append(clone)
    call.erase()
    return clones


def _rewire(op: ir.Operation, values: dict[ir.Value, ir.Value]) -> None:
    for i, operand in enumerate(op.operands):
        if operand in values:
            op.operands[i] = values[operand]
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                _rewire(inner.operation, values)


def _tag_scope(op: ir.Operation, scope: ir.Attribute) -> None:
    """Put the call's scope on the clone and all inside it; calls inside get theirs when they are expanded."""
    op.attributes[CALLER] = scope
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                if CALLER not in inner.operation.attributes:
                    _tag_scope(inner.operation, scope)
