"""Calls are replaced by the bodies they call, so that a program is one function with loops: what the planner propagates over.

Done once, so that no edit pays for it, and every operation has one place and one named scope. (MLIR's own `inline` pass has no inliner
for `func` in jaxlib and leaves the calls.)
"""

from jax.extend.mlir import ir

from workbench.propagation.module.calls import CALL, CALLER, callee_of, functions_of, scope_in_call
from workbench.propagation.module.library_functions import move_to_call
from workbench.propagation.module.mlir_context import main_function
from workbench.propagation.module.operation_kinds import operations_below


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
