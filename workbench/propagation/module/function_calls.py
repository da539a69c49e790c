"""The functions of a lowered module and the calls between them, seen as one list of operations, as if inlined.

XLA partitions a program with its functions as JAX lowered them. Shardy propagates through calls, not always with the
same result as through inlined calls (`prepare_module`). So compilers get functions, and the planner, which needs one
list of operations, inlined ones. An operation has the same position in that list in both.
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
    """Give each call its own copy of the function, in place, so that statements apply to one call only."""
    run_passes(module, "sdy-flatten-call-graph")


def call_composites(module: ir.Operation) -> None:
    """Replace `jax.lax.composite`s by calls of their decompositions, in place, as XLA does by default."""
    for function in functions_of(module).values():
        for op in list(operations_below(function)):
            if op.name == _COMPOSITE:
                call = ir.Operation.create(
                    CALL,
                    [result.type for result in op.results],
                    list(op.operands),
                    {"callee": op.attributes["decomposition"]},
                    loc=op.location,
                    ip=ir.InsertionPoint(op),
                )
                for old, new in zip(op.results, call.results, strict=True):
                    old.replace_all_uses_with(new)
                op.erase()


def operations_called(module: ir.Operation) -> Iterator[tuple[ir.Operation, str]]:
    """The operations of the program as if each call were inlined, each with the scope of its call."""
    functions = functions_of(module)

    def walk(parent: ir.Operation, scope: str) -> Iterator[tuple[ir.Operation, str]]:
        for op in _operations_in(parent):
            if op.name == CALL:
                inner = walk(functions[callee_of(op)], scope_in_call(op, scope))
                yield from (pair for pair in inner if pair[0].name != _RETURN)
                continue
            yield op, scope
            if op.name in CONTROL_FLOW:
                yield from walk(op, scope)

    return walk(main_function(module), "")


def number_operations_and_calls(module: ir.Operation) -> Iterator[tuple[ir.Operation, int]]:
    """The operations and calls of all functions, each with its position in its own function's list, calls expanded.

    An operation's position in the program's list (`operations_called`) is its number plus those of the calls that lead
    to it.
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
    operations = (op.operation for op in module.regions[0].blocks[0].operations)
    return {ir.StringAttr(op.attributes["sym_name"]).value: op for op in operations if op.name == "func.func"}


def callee_of(call: ir.Operation) -> str:
    return ir.FlatSymbolRefAttr(call.attributes["callee"]).value


def scope_in_call(op: ir.Operation, caller: str = "") -> str:
    """An operation's scope, prefixed by that of the call it was inlined from, else by `caller`."""
    if CALLER in op.attributes:
        caller = ir.StringAttr(op.attributes[CALLER]).value
    return "/".join(scope for scope in (caller, scope_of(op.location)) if scope)


def _operations_in(parent: ir.Operation) -> Iterator[ir.Operation]:
    return (item.operation for region in parent.regions for block in region.blocks for item in block.operations)


# Library functions in a lowered module, such as `jnp.where`: their operations get the source line of the user's call.
#
# JAX caches the trace of a jitted function with the call stack of its first caller, possibly another line of the program or another
# program.

_JITTED = "jit:"  # begins the location of a function that `jax.jit` made
_NUMBER = re.compile(r"_\d+$")  # suffix of the second function of a name


def set_library_call_stacks(module: ir.Operation, users: Collection[str]) -> None:
    """Give operations of jitted functions the stack of their first call, in place, except for the `users`' functions."""
    for name, function in functions_of(module).items():
        if name not in users and _NUMBER.sub("", name) not in users and (stack := _first_call_stack(function)) is not None:
            for op in operations_below(function):
                op.location = _with_call_stack(op.location, stack)


def set_separate_call_stacks(module: ir.Operation) -> None:
    """Give the operations of each separate function (`separate_calls`) the call stack of its call, in place."""
    functions = functions_of(module)

    def place(parent: ir.Operation) -> None:
        for op in operations_below(parent):
            if op.name == CALL:
                callee = functions[callee_of(op)]
                set_call_stack(operations_below(callee), callee, op)
                place(callee)

    place(main_function(module))


def set_call_stack(operations: Iterable[ir.Operation], callee: ir.Operation, call: ir.Operation) -> None:
    """Give operations whose call stack is that of the callee's first call the stack of this call."""
    first, present = _first_call_stack(callee), _call_stack(call.location)
    if first is None or present is None or first == present:
        return
    for op in operations:
        stack = _call_stack(op.location)
        if stack is not None and stack == first:
            op.location = _with_call_stack(op.location, present)


def _first_call_stack(function: ir.Operation) -> ir.Location | None:
    """The call stack of a jitted function's first call; `None` for other functions, or if JAX does not record it."""
    location = function.location
    is_jitted = isinstance(location, ir.NameLoc) and location.name_str == _JITTED
    return _call_stack(location.child_loc) if is_jitted else None


def _call_stack(location: ir.Location) -> ir.Location | None:
    stack = location.child_loc if isinstance(location, ir.NameLoc) else location
    return None if isinstance(stack, ir.UnknownLoc) else stack


def _with_call_stack(location: ir.Location, stack: ir.Location) -> ir.Location:
    return ir.Location.name(location.name_str, stack, location.context) if isinstance(location, ir.NameLoc) else stack
