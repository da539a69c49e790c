"""What is sliced along a split dimension, at a place that is computed, is gathered whole: a stack of layers once, before its loop."""

import jax
import jax.numpy as jnp
import optax
import pytest

from tests.engine.test_compile import needs_libtpu
from workbench.analysis.tier_comparison import compare_collectives
from workbench.public_plan import Plan
from workbench.tracing import trace, trace_training

pytestmark = pytest.mark.compile

S = jax.ShapeDtypeStruct
STACK, ROWS = S((16, 64, 64), "float32"), S((32, 64), "float32")
TIERS = ("planned", "partitioned")
DIMS = {"w": "layer d_in d_out", "x": "row d_in"}


def layers(w, x):
    return jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, w)[0]


def trained():
    def loss(params, batch):
        return jnp.mean(layers(params["w"], batch["x"]) ** 2)

    return trace_training(loss, {"w": STACK}, {"x": ROWS}, optimizer=optax.sgd(0.1), dims=DIMS)


def cached():
    specs = S((512, 64), "float32"), S((), "int32"), S((64, 64), "float32")
    return trace(lambda w, at, x: jax.lax.dynamic_slice_in_dim(w, at, 64) @ x, *specs, dims={"w": "layer _"})


@pytest.mark.parametrize(
    ("make", "gathered"),
    [
        (trained, [(4 * 16 * 64 * 64, 1)] * 2),
        (lambda: trace(lambda w, x: layers(jnp.sin(w), x), STACK, ROWS, dims=DIMS), [(4 * 16 * 64 * 64, 1)]),
        (cached, [(4 * 512 * 64, 1)]),
    ],
)
def test_a_stack_that_is_split_along_its_layers_is_planned_as_it_is_partitioned(make, gathered):
    plan = Plan(make(), "data:8", "layer:data")
    planned, settled = plan.report(), plan.report("partitioned")
    assert [(each.payload, each.count) for each in planned.collectives if each.kind == "all-gather"] == gathered
    assert all(row.is_close for row in compare_collectives(planned, plan.partition().by_axis_and_kind))
    assert planned.memory.peak == settled.memory.peak
    assert "not counted" not in {each.kind for each in planned.notes}


def invariant(w, x):
    return jax.lax.scan(lambda x, _: (jnp.tanh(x @ w[0]), None), x, None, length=4)[0]


def casts(w, x):
    return jax.lax.scan(lambda x, w: (jnp.tanh(x @ w.astype("bfloat16")), None), x.astype("bfloat16"), w)[0]


def reads_twice(w, x):
    return jax.lax.scan(lambda x, w: (jnp.tanh(x @ w) + w.sum(), None), x, w)[0]


def recomputes(w, x):
    return jax.grad(lambda w: jax.lax.scan(jax.checkpoint(lambda x, w: (jnp.tanh(x @ w), None)), x, w)[0].sum())(w)


@needs_libtpu
@pytest.mark.parametrize(
    ("function", "layout"),
    [
        (layers, "layer:data"),
        (invariant, "row:data; w=[-, data, -]"),
        (casts, "layer:data"),
        (reads_twice, "layer:data"),
        (recomputes, "layer:data"),
    ],
)
def test_xla_tpu_gathers_in_each_turn_what_a_loop_does_not_change(function, layout):
    plan = Plan(trace(function, STACK, ROWS, dims=DIMS), "data:8", layout, hardware="TPU v5e 2x4")
    found = [[(each.payload, each.count) for each in plan.report(tier).collectives if each.kind == "all-gather"] for tier in TIERS]
    assert found[0] == found[1]
    assert all(count > 1 for _, count in found[0])


def recurrent(params, batch):
    def step(h, x):
        h = jnp.tanh(h @ params["w"] + x)
        return h, h

    return (jax.lax.scan(step, batch[0] * 0, batch)[1] ** 2).mean()


def two_products(params, batch):
    return (jnp.tanh(batch @ params["w"]) @ params["v"]).mean()


W = S((256, 256), "float32")
ACCUMULATED = two_products, {"w": W, "v": W}, S((64, 256), "float32"), "batch d", "batch:data; w=[data, -]; v=[-, data]", "accumulate:4"
IN_A_LOOP = {
    "weights of a recurrence": (recurrent, {"w": W}, S((6, 64, 256), "float32"), "time batch d", "batch:data; w=[data, -]", None),
    "gradients of micro-batches": ACCUMULATED,
    "whole gradients of micro-batches": (*ACCUMULATED[:4], "batch:data", "accumulate:4"),
}


@needs_libtpu
@pytest.mark.parametrize("name", IN_A_LOOP)
def test_xla_tpu_scatters_sums_in_each_turn_and_moves_whole_sums_behind_the_loop(name):
    loss, params, batch, dims, layout, pipeline = IN_A_LOOP[name]
    program = trace_training(loss, params, batch, optimizer=optax.sgd(0.1), dims={"batch": dims})
    plan = Plan(program, "data:8", layout, hardware="TPU v5e 2x4", pipeline=pipeline)
    kinds = ("all-reduce", "reduce-scatter")
    found = [
        sorted((each.kind, each.payload, each.count) for each in plan.report(tier).collectives if each.kind in kinds) for tier in TIERS
    ]
    assert found[0] == found[1]
