"""The functions of a lowered module, one for each call: as Shardy has them, and so XLA where it compiles what `jit` lowered.

Shardy propagates through calls as they stand, and what it leaves at their edges is not always what it leaves where the bodies stand in
place of the calls (`inline`). So the compilers are asked with functions, and the planner, which needs one list of operations, without.
"""

from collections.abc import Iterator

from jax.extend.mlir import ir

from workbench.partition.context import main_function, run_passes
from workbench.partition.location import scope_of
from workbench.partition.operations import CONTROL_FLOW, operations_below

CALLER = "wb_caller"  # the named scope of the call that an operation stands in
_CALL, _RETURN = "func.call", "func.return"
_LIKE = "sdy.original_func_name"  # by which Shardy, when it is done, makes one of functions alike again


def separate_calls(module: ir.Operation) -> None:
    """Give each `func.call` a function of its own, in place, and each operation in one the scope of its call (`CALLER`)."""
    run_passes(module, "sdy-flatten-call-graph")
    functions = functions_of(module)
    for function in functions.values():
        if _LIKE in function.attributes:
            del function.attributes[_LIKE]  # two operations would have one name
    _tag(main_function(module), functions, "")


def operations_called(module: ir.Operation) -> Iterator[ir.Operation]:
    """The operations of the program as they would stand if each call were its function's body: those of the module once it is inlined."""
    return _called(main_function(module), functions_of(module))


def calls_of(module: ir.Operation) -> Iterator[ir.Operation]:
    """Every `func.call`."""
    return (op for function in functions_of(module).values() for op in operations_below(function) if op.name == _CALL)


def functions_of(module: ir.Operation) -> dict[str, ir.Operation]:
    """By name."""
    all_ops = (op.operation for op in module.regions[0].blocks[0].operations)
    return {ir.StringAttr(op.attributes["sym_name"]).value: op for op in all_ops if op.name == "func.func"}


def callee_of(call: ir.Operation) -> str:
    """The name of the function that is called."""
    return ir.FlatSymbolRefAttr(call.attributes["callee"]).value


def caller_scope(call: ir.Operation) -> str:
    """The scope of all that a call does."""
    outer = ir.StringAttr(call.attributes[CALLER]).value if CALLER in call.attributes else ""
    return "/".join(word for word in (outer, scope_of(call.location)) if word)


def _tag(parent: ir.Operation, functions: dict[str, ir.Operation], scope: str) -> None:
    for op in _inside(parent):
        if scope:
            op.attributes[CALLER] = ir.StringAttr.get(scope)
        if op.name == _CALL:
            _tag(functions[callee_of(op)], functions, caller_scope(op))
        elif op.name in CONTROL_FLOW:
            _tag(op, functions, scope)


def _called(parent: ir.Operation, functions: dict[str, ir.Operation]) -> Iterator[ir.Operation]:
    for op in _inside(parent):
        if op.name == _CALL:
            yield from (each for each in _called(functions[callee_of(op)], functions) if each.name != _RETURN)
            continue
        yield op
        if op.name in CONTROL_FLOW:
            yield from _called(op, functions)


def _inside(parent: ir.Operation) -> Iterator[ir.Operation]:
    return (each.operation for region in parent.regions for block in region.blocks for each in block.operations)
