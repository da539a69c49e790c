"""Functions of a lowered module that are a library's, such as `jnp.where`: their operations lie where the user called them.

JAX keeps what it traced of a jitted function, with the call stack of whoever called it first: another line of the program, or another
program. The user's line is that of the call.
"""

import re
from collections.abc import Collection, Iterable

from jax.extend.mlir import ir

from workbench.propagation.module.calls import CALL, callee_of, functions_of
from workbench.propagation.module.mlir_context import main_function
from workbench.propagation.module.operation_kinds import operations_below

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
