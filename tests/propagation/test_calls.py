"""A program with its functions and one with the bodies in place of the calls have the same operations, at the same places."""

import inspect
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from tests.support.spmd_plans import calling, programs
from workbench.propagation import module_of
from workbench.propagation.module.function_calls import (
    CALL,
    callee_of,
    functions_of,
    number_operations_and_calls,
    operations_called,
    separate_calls,
    set_separate_call_stacks,
)
from workbench.propagation.module.mlir_context import main_function, parse_module
from workbench.propagation.module.operation_kinds import operations_below
from workbench.propagation.module.prepare_module import inline_calls
from workbench.propagation.prepared_program import place_of
from workbench.public_plan import Plan
from workbench.tracing import trace


def seen(module):
    return [(op.name, *place_of(op, scope)) for op, scope in operations_called(module.operation)]


def inlined(program):
    module = parse_module(program.lowered)
    with module.context:
        inline_calls(module.operation)
    return module


@pytest.mark.parametrize("program", programs(), ids=lambda program: program.name)
def test_the_operations_that_are_called_are_those_that_stand_there_once_they_are_inlined(program):
    module = inlined(program)
    as_lowered, separate = parse_module(program.lowered), parse_module(program.lowered)
    separate_calls(separate.operation)
    set_separate_call_stacks(separate.operation)
    assert seen(separate) == seen(module)
    assert [op.name for op, _ in operations_called(as_lowered.operation)] == [name for name, *_ in seen(module)]
    assert [op for op, _ in operations_called(module.operation)] == list(operations_below(main_function(module.operation)))


def places(module):
    """Of each operation that is called, the sum of the numbers on the way to it."""
    functions, numbers = functions_of(module.operation), dict(number_operations_and_calls(module.operation))

    def walk(parent, before):
        for op in operations_below(parent):
            if op.name == CALL:
                yield from walk(functions[callee_of(op)], before + numbers[op])
            elif op.name != "func.return" or parent == main_function(module.operation):
                yield before + numbers[op]

    return list(walk(main_function(module.operation), 0))


@pytest.mark.parametrize("program", programs(), ids=lambda program: program.name)
def test_the_numbers_of_calls_and_operations_add_up_to_places(program):
    module = parse_module(program.lowered)
    assert places(module) == list(range(len(seen(module))))


def test_each_call_has_a_function_of_its_own_once_they_are_separated():
    module = parse_module(calling().lowered)
    before = seen(module)
    with module.context:
        separate_calls(module.operation)
    calls = [callee_of(op) for op, _ in number_operations_and_calls(module.operation) if op.name == CALL]
    assert len(set(calls)) == len(calls) == len(functions_of(module.operation)) - 1 > 0
    assert seen(module) == before


@pytest.mark.parametrize(("layout", "functions"), [("x=[m, -]", "shared"), ("x=[m, -]; @first/layer/dot_general=[-, m]", "separate")])
def test_compilers_are_asked_with_the_functions_that_jit_leaves_unless_one_call_is_spoken_of(layout, functions):
    lowered, asked = parse_module(calling().lowered), parse_module(module_of(Plan(calling(), "m:8", layout)))
    shared, found = len(functions_of(lowered.operation)), len(functions_of(asked.operation))
    assert found == shared if functions == "shared" else found > shared


def test_a_program_without_functions_has_its_own_numbers():
    module = parse_module(trace(lambda x: x + 1, jax.ShapeDtypeStruct((8,), "float32")).lowered)
    assert [number for _, number in number_operations_and_calls(module.operation)] == list(range(4))


def test_a_composite_is_what_it_is_made_of():
    spec = jax.ShapeDtypeStruct((8, 4), "float32")
    program = trace(jax.lax.composite(jax.numpy.tanh, name="a.kernel"), spec, dims={"x": "rows cols"})
    assert [each.kind for each in program.operations if each.kind != "return"] == ["tanh"]
    assert seen(parse_module(program.lowered)) == seen(inlined(program))
    assert Plan(program, "data:2", "rows:data").report("partitioned").sent == 0


@jax.jit
def doubled(x):
    return jnp.where(x > 0, x + x, x)


def line_of(code, text):
    """The line of a function that this text stands in."""
    lines, first = inspect.getsourcelines(code)
    return f"{Path(__file__).name}:{first + next(number for number, line in enumerate(lines) if text in line)}"


def test_what_a_library_computes_lies_where_it_is_called_and_what_the_user_wrote_where_it_stands():
    def first(x):
        return jnp.where(x < 1, doubled(x), x) + 1

    def second(x):
        with jax.named_scope("one"):
            y = jnp.where(x < 1, x * 2, x)
        with jax.named_scope("other"):
            y = y + jnp.where(x < 1, x, x * 3)
        return doubled(y)

    example = jax.ShapeDtypeStruct((8, 4), "float32")
    trace(first, example)  # JAX keeps what it traces here
    for program in (trace(second, example), trace(second, example)):
        lines = {op.path: op.source for op in program.operations if op.kind == "select"}
        assert lines == {
            "one/_where/select_n": line_of(second, "x * 2"),
            "other/_where/select_n": line_of(second, "x * 3"),
            "doubled/_where/select_n": line_of(doubled, "jnp.where"),
        }
