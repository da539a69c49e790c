"""Random plans to put to XLA's partitioner: programs of every kind, arguments laid out at random, values constrained at random."""

import functools
from math import prod

import jax
import jax.numpy as jnp
from hypothesis import strategies as st

from tests.propagation.test_random_programs import TRACED
from tests.support.layered import stack
from tests.support.stack import stack_program
from workbench.core.layout import Layout
from workbench.core.mesh import Mesh
from workbench.core.program import Program
from workbench.core.sharding import Sharding
from workbench.models import build
from workbench.propagation.module.function_calls import operations_called
from workbench.propagation.module.mlir_context import parse_module
from workbench.propagation.prepared_program import place_of
from workbench.public_plan import Plan
from workbench.tracing import trace

MESHES = ("x:8", "x:4 y:2", "x:2 y:4", "x:2 y:2 z:2", "x:3 y:2", "x:4", "x:1 y:4")


def halves(x: jax.Array, w: jax.Array) -> jax.Array:
    """Sums in four bytes of products in two."""
    return jnp.einsum("bi,io->bo", x, w, preferred_element_type=jnp.float32).sum(0).astype(jnp.bfloat16)


@jax.jit
def chosen(x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.where(x > 0, x, y)


@jax.jit
def layer(x: jax.Array, w: jax.Array) -> jax.Array:
    return chosen(x @ w, x) + jnp.roll(x, 1, 0)


def calls(x: jax.Array, w: jax.Array, v: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Functions that stay functions when they are lowered: called in one another, again, in a loop, and on other shapes' sides."""
    with jax.named_scope("first"):
        x = layer(x, w)
    with jax.named_scope("second"):
        x = layer(x, v)
    x, _ = jax.lax.scan(lambda x, _: (layer(x, v), None), x, None, length=3)
    return chosen(x, x.T), chosen(w.T, v)


@functools.cache
def calling() -> Program:
    return trace(calls, *[jax.ShapeDtypeStruct((32, 32), jnp.float32)] * 3, name="calls")


@functools.cache
def programs() -> tuple[Program, ...]:
    shapes = [jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in ((16, 32), (32, 24))]
    return (*TRACED, calling(), trace(halves, *shapes), stack(2), stack_program(2), build("two_layer"))


def traced_paths(program: Program) -> list[str]:
    """Of each operation of the program as traced, by its place."""
    module = parse_module(program.lowered)
    with module.context:
        return [place_of(op, scope)[0] for op, scope in operations_called(module.operation)]


@st.composite
def shardings(draw: st.DrawFn, shape: tuple[int, ...], mesh: Mesh, *, is_even: bool) -> Sharding:
    """Each dimension on any free axes, which divide it if that `is_even`."""
    free, dims = list(draw(st.permutations(mesh.names))), []
    for size in shape:
        axes: list[str] = []
        while free and draw(st.booleans()) and not (is_even and size % prod(mesh[axis] for axis in [*axes, free[-1]])):
            axes.append(free.pop())
        dims.append(tuple(axes))
    flags = tuple(draw(st.integers(0, 3)) == 0 for _ in dims)
    return Sharding(tuple(dims), flags if any(flags) else ())


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """A program with most of its arguments placed, and up to two of its values."""
    program, mesh = draw(st.sampled_from(programs())), Mesh(draw(st.sampled_from(MESHES)))
    overrides = [(each.path, draw(shardings(each.shape, mesh, is_even=True))) for each in program.arguments if draw(st.integers(0, 3))]
    ranks: dict[str, set[int]] = {}  # a constraint holds for all values of a path, which a shape fits only if they have one rank
    for each in program.operations:
        ranks.setdefault(each.path, set()).add(len(each.shape))
    values = [each for each in program.operations if each.path and each.shape and len(ranks[each.path]) == 1]
    chosen = draw(st.lists(st.sampled_from(values), max_size=2, unique_by=lambda each: each.path))
    constraints = [(each.path, draw(shardings(each.shape, mesh, is_even=draw(st.integers(0, 3)) > 0))) for each in chosen]
    return Plan(program, mesh, Layout("", tuple(overrides), tuple(constraints)))
