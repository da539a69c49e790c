"""What a `shard_map` sends is planned as XLA makes it."""

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

from workbench.public_plan import Plan
from workbench.tracing import trace

pytestmark = pytest.mark.compile

MESH = AbstractMesh((4, 2), ("data", "model"), (AxisType.Auto,) * 2)
X, W, V = (jax.ShapeDtypeStruct(shape, "float32") for shape in ((64, 32), (32, 128), (128, 32)))
WEIGHTS = P("data"), P(None, "model"), P("model")


def mapped(body, in_specs, out_specs, **options):
    return jax.shard_map(body, mesh=MESH, in_specs=in_specs, out_specs=out_specs, **options)


def tensor_parallel(x, w, v):
    return mapped(lambda x, w, v: jax.lax.psum(jnp.tanh(x @ w) @ v, "model"), WEIGHTS, P("data"))(x, w, v)


def sequence_parallel(x, w, v):
    def body(x, w, v):
        hidden = jnp.tanh(jax.lax.all_gather(x, "model", axis=0, tiled=True) @ w)
        return jax.lax.psum_scatter(hidden @ v, "model", scatter_dimension=0, tiled=True)

    return mapped(body, (P(("data", "model")), *WEIGHTS[1:]), P(("data", "model")))(x, w, v)


def transposed(x, _w, _v):
    return mapped(lambda x: jax.lax.all_to_all(x, "data", 1, 0, tiled=True), P("data"), P(None, "data"))(x)


def ring(x, _w, _v):
    def body(x):
        size = jax.lax.axis_size("data")
        pairs = [(i, (i + 1) % size) for i in range(size)]
        step = lambda carried, _: ((jax.lax.ppermute(carried[0], "data", pairs), carried[1] + jnp.tanh(carried[0])), None)  # noqa: E731
        return jax.lax.scan(step, (x, x * 0), None, length=size)[0][1]

    return mapped(body, P("data"), P("data"))(x)


def along_one_of_two_axes(x, _w, _v):
    return mapped(lambda x: jax.lax.psum(jnp.tanh(x), "data"), P("data"), P(), axis_names={"data"})(x)


def over_both_axes(x, _w, _v):
    return mapped(lambda x: jax.lax.pmean(x.sum(0), ("data", "model")), P(("data", "model")), P())(x)


def of_a_pair(x, _w, v):
    return mapped(lambda x, v: jax.lax.psum((x.sum(0), v.sum(0)), "data"), (P("data"), P("data")), P())(x, v)


def largest(x, _w, _v):
    return mapped(lambda x: jax.lax.pmax(x.max(0), "data"), P("data"), P())(x)


def differentiated(x, w, v):
    return jax.grad(lambda arguments: tensor_parallel(*arguments).sum())((x, w, v))


def gathering_weights(x, w, _v):
    inner = mapped(lambda x, w: jnp.tanh(x @ jax.lax.all_gather(w, "data", axis=0, tiled=True)), (P("data"), P("data")), P("data"))
    return jax.grad(lambda w: inner(x, w).sum())(w)


def of_two_bytes(x, _w, _v):
    return mapped(lambda x: jax.lax.psum(x.astype("bfloat16"), "data"), P("data"), P())(x)


SENDING = (*(tensor_parallel, sequence_parallel, transposed, ring, along_one_of_two_axes, over_both_axes, of_a_pair, largest),)
SENDING += (differentiated, gathering_weights, of_two_bytes)


@pytest.mark.parametrize("function", SENDING)
@pytest.mark.parametrize("mesh", ["data:4 model:2", "model:2 data:4", "data:4 model:2 pipe:2"])
def test_a_collective_of_a_shard_map_is_planned_as_it_is_partitioned(function, mesh):
    plan = Plan(trace(function, X, W, V, dims={"x": "row col"}), mesh)
    planned, partitioned = (
        sorted((each.kind, each.axes, each.payload, each.count) for each in plan.report(tier).collectives)
        for tier in ("planned", "partitioned")
    )
    assert planned == partitioned
    assert planned
