"""The functions of a lowered module and the calls between them, seen as one list of operations, as if inlined.

XLA partitions a program with its functions as JAX lowered them. Shardy propagates through calls, and the result is not always the same as
with inlined calls (`prepare_module`). So the compilers are given functions, and the planner, which needs one list of operations, inlined
ones. An operation has the same place in that list in both.
"""

import re
from collections.abc import Collection, Iterable, Iterator

from jax.extend.mlir import ir

from workbench.propagation.module.mlir_context import main_function, run_passes
from workbench.propagation.module.operation_kinds import CONTROL_FLOW, operations_below
from workbench.propagation.module.source_location import scope_of

CALLER = "wb_caller"  # the named scope of the call that an operation was inlined from
CALL = "func.call"
_RETURN = "func.return"
_COMPOSITE = "stablehlo.composite"


def separate_calls(module: ir.Operation) -> None:
    """Give each call a function of its own, in place, so that a statement about an operation applies to one call only."""
    run_passes(module, "sdy-flatten-call-graph")


def call_composites(module: ir.Operation) -> None:
    """Make each composite (`jax.lax.composite`) a call of its decomposition, in place, as XLA does where a backend has nothing better for
    it."""
    for function in functions_of(module).values():
        for op in list(operations_below(function)):
            if op.name == _COMPOSITE:
                call = ir.Operation.create(
                    CALL,
                    [each.type for each in op.results],
                    list(op.operands),
                    {"callee": op.attributes["decomposition"]},
                    loc=op.location,
                    ip=ir.InsertionPoint(op),
                )
                for old, new in zip(op.results, call.results, strict=True):
                    old.replace_all_uses_with(new)
                op.erase()


def operations_called(module: ir.Operation) -> Iterator[tuple[ir.Operation, str]]:
    """The operations of the program as if each call were inlined, and the scope of the call they are in."""
    functions = functions_of(module)

    def walk(parent: ir.Operation, scope: str) -> Iterator[tuple[ir.Operation, str]]:
        for op in _operations_in(parent):
            if op.name == CALL:
                inner = walk(functions[callee_of(op)], scope_in_call(op, scope))
                yield from (each for each in inner if each[0].name != _RETURN)
                continue
            yield op, scope
            if op.name in CONTROL_FLOW:
                yield from walk(op, scope)

    return walk(main_function(module), "")


def number_operations_and_calls(module: ir.Operation) -> Iterator[tuple[ir.Operation, int]]:
    """The operations and calls of all functions, each with its place in the list of its function alone.

    At a call, that list goes on with the called function's. So the place of an operation in the program's list (`operations_called`) is the
    sum of the numbers of the calls that lead to it and its own.
    """
    functions, sizes = functions_of(module), dict[str, int]()

    def count_operations(name: str) -> int:
        if name not in sizes:
            sizes[name] = sum(
                count_operations(callee_of(op)) if op.name == CALL else op.name != _RETURN for op in operations_below(functions[name])
            )
        return sizes[name]

    for function in functions.values():
        position = 0
        for op in operations_below(function):
            yield op, position
            position += count_operations(callee_of(op)) if op.name == CALL else 1


def functions_of(module: ir.Operation) -> dict[str, ir.Operation]:
    """The functions of a module by name."""
    every = (op.operation for op in module.regions[0].blocks[0].operations)
    return {ir.StringAttr(op.attributes["sym_name"]).value: op for op in every if op.name == "func.func"}


def callee_of(call: ir.Operation) -> str:
    """The name of the function that a call calls."""
    return ir.FlatSymbolRefAttr(call.attributes["callee"]).value


def scope_in_call(op: ir.Operation, caller: str = "") -> str:
    """The scope of an operation within that of the call it was inlined from, else within `caller`."""
    if CALLER in op.attributes:
        caller = ir.StringAttr(op.attributes[CALLER]).value
    return "/".join(scope for scope in (caller, scope_of(op.location)) if scope)


def _operations_in(parent: ir.Operation) -> Iterator[ir.Operation]:
    return (each.operation for region in parent.regions for block in region.blocks for each in block.operations)


# Functions of a lowered module that are a library's, such as `jnp.where`: their operations lie where the user called them.
#
# JAX keeps what it traced of a jitted function, with the call stack of whoever called it first: another line of the program, or another
# program. The user's line is that of the call.

_JITTED = "jit:"  # begins the location of a function that `jax.jit` made
_NUMBER = re.compile(r"_\d+$")  # ends the name of a function that is not the first of its name


def place_library_functions(module: ir.Operation, users: Collection[str]) -> None:
    """Give the operations of jitted functions the call stack of the first call, in place, but for those of the `users`' functions."""
    for name, function in functions_of(module).items():
        if name not in users and _NUMBER.sub("", name) not in users and (stack := _first_call_stack(function)) is not None:
            for op in operations_below(function):
                op.location = _with_call_stack(op.location, stack)


def place_separate_calls(module: ir.Operation) -> None:
    """The same for every call of a module in which each has a function of its own (`separate_calls`)."""
    functions = functions_of(module)

    def place(parent: ir.Operation) -> None:
        for op in operations_below(parent):
            if op.name == CALL:
                callee = functions[callee_of(op)]
                move_to_call(operations_below(callee), callee, op)
                place(callee)

    place(main_function(module))


def move_to_call(operations: Iterable[ir.Operation], callee: ir.Operation, call: ir.Operation) -> None:
    """What lies where its function was called first, and not inside it, lies where it is called now."""
    first, here = _first_call_stack(callee), _call_stack(call.location)
    if first is None or here is None or first == here:
        return
    for op in operations:
        stack = _call_stack(op.location)
        if stack is not None and stack == first:
            op.location = _with_call_stack(op.location, here)


def _first_call_stack(function: ir.Operation) -> ir.Location | None:
    """From where a jitted function is called first; `None` for any other function, and where JAX does not say it."""
    location = function.location
    is_jitted = isinstance(location, ir.NameLoc) and location.name_str == _JITTED
    return _call_stack(location.child_loc) if is_jitted else None


def _call_stack(location: ir.Location) -> ir.Location | None:
    """The call stack in the location of an operation, which is a name around it."""
    stack = location.child_loc if isinstance(location, ir.NameLoc) else location
    return None if isinstance(stack, ir.UnknownLoc) else stack


def _with_call_stack(location: ir.Location, stack: ir.Location) -> ir.Location:
    """The location of an operation with another call stack."""
    return ir.Location.name(location.name_str, stack, location.context) if isinstance(location, ir.NameLoc) else stack
