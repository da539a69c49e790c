"""Laws over random programs, meshes and layouts: the partitioner never crashes, and shapes multiply back to the whole."""

from math import prod

import jax
import jax.numpy as jnp
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.core.layout import Layout
from workbench.core.mesh import Mesh
from workbench.core.sharding import Sharding
from workbench.propagation import partition, read_result_dims
from workbench.public_plan import Plan
from workbench.tracing import trace

F32 = jnp.float32


def mlp(x, w, v):
    return jax.nn.relu(x @ w) @ v


def attention(x, w):
    h = (x @ w).reshape(*x.shape[:2], 4, -1)
    scores = jnp.einsum("bshd,bthd->bhst", h, h)
    return jnp.einsum("bhst,bthd->bshd", jax.nn.softmax(jnp.where(scores > 0, scores, -1e9)), h)


def convolution(x, w):
    return jax.lax.conv_general_dilated(x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def recurrence(x, w):
    return jax.lax.scan(lambda h, step: (jnp.tanh(h @ w + step),) * 2, jnp.zeros(x.shape[1:]), x)


def embedding(table, tokens):
    return jnp.take(table, jnp.asarray(tokens, jnp.int32), axis=0).sum(1)


def rearrangements(x):
    return jnp.cumsum(x, 0), jnp.sort(x, 1), x[1:, ::2], jnp.pad(x, ((1, 1), (0, 2))), jnp.concatenate([x, x], 1), jnp.roll(x, 1, 0)


def data_dependent_loop(x):
    return jax.lax.while_loop(lambda s: s[0] < x.sum(), lambda s: (s[0] + 1, s[1] @ s[1].T), (0.0, x @ x.T))


def branches(x):
    return jax.lax.cond(x.sum() > 0, lambda y: y @ y.T, lambda y: jnp.zeros((y.shape[0],) * 2), x)


def rematerialised(x, w):
    return jax.checkpoint(lambda h: jnp.tanh(h @ w))(x).sum(0)


PROGRAMS = (
    (mlp, [(16, 32), (32, 64), (64, 24)]),
    (attention, [(4, 12, 32), (32, 64)]),
    (convolution, [(8, 16, 16, 4), (3, 3, 4, 8)]),
    (recurrence, [(6, 8, 16), (16, 16)]),
    (embedding, [(32, 16), (8, 6)]),
    (rearrangements, [(16, 32)]),
    (data_dependent_loop, [(16, 16)]),
    (branches, [(8, 16)]),
    (rematerialised, [(16, 32), (32, 8)]),
)
DIFFERENTIABLE = (mlp, attention, convolution, recurrence, rematerialised)


def gradient_of(fn):
    def gradient(*args):
        def total(*args):
            return sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(fn(*args)))

        return jax.grad(total, argnums=tuple(range(len(args))))(*args)

    return gradient


def programs():
    return [(fn, shapes) for fn, shapes in PROGRAMS] + [(gradient_of(fn), shapes) for fn, shapes in PROGRAMS if fn in DIFFERENTIABLE]


TRACED = [trace(fn, *[jax.ShapeDtypeStruct(shape, F32) for shape in shapes]) for fn, shapes in programs()]


@st.composite
def plans(draw):
    """A random program with every argument placed at random: each dimension on any free axes that divide it."""
    program = draw(st.sampled_from(TRACED))
    mesh = Mesh(tuple(zip("xyz", draw(st.lists(st.sampled_from([1, 2, 3, 4, 8]), min_size=1, max_size=3)), strict=False)))
    overrides = []
    for tensor in program.arguments:
        free, dims = list(draw(st.permutations(mesh.names))), []
        for size in tensor.shape:
            axes: list[str] = []
            while free and draw(st.booleans()) and size % prod(mesh[axis] for axis in [*axes, free[-1]]) == 0:
                axes.append(free.pop())
            dims.append(tuple(axes))
        overrides.append((tensor.path, Sharding(tuple(dims))))
    return Plan(program, mesh, Layout("", tuple(overrides)))


@settings(max_examples=150)
@given(plans())
def test_shapes_multiply_back_to_the_whole(plan):
    report = plan.report()
    for placement in report.arguments:
        assert prod(placement.local_shape) * prod(placement.sharding.parts(plan.mesh)) == placement.tensor.elements
    for placement in report.results:
        assert prod(placement.local_shape) * prod(placement.sharding.parts(plan.mesh)) >= placement.tensor.elements
    for value in report.values:
        assert prod(value.local_shape) * prod(value.sharding.parts(plan.mesh)) >= prod(value.shape)


@settings(max_examples=60)
@given(plans())
def test_a_report_holds_no_impossible_number(plan):
    report = plan.report()
    assert report.memory.peak >= sum(placement.local_bytes for placement in report.arguments)
    assert report.flops.unique <= report.flops.per_device * plan.mesh.size  # padding and duplication only add
    assert all(
        each.payload > 0 and 0 < each.sent <= 2 * each.payload and set(each.axes) <= set(plan.mesh.names) for each in report.collectives
    )
    assert report.plan is plan


@settings(max_examples=30)
@given(plans())
def test_the_same_plan_has_the_same_report(plan):
    first, second = plan.report(), plan.report()
    assert (first.collectives, first.memory, first.flops, first.values) == (second.collectives, second.memory, second.flops, second.values)


@settings(max_examples=60)
@given(plans())
def test_results_are_sharded_alike_whether_or_not_communication_is_made_explicit(plan):
    assert read_result_dims(plan) == partition(plan).results


@given(st.sampled_from(TRACED))
def test_on_one_device_nothing_is_sent(program):
    report = Plan(program, "x:1").report()
    assert report.collectives == ()
    assert report.flops.per_device == report.flops.unique
