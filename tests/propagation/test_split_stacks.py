"""What is sliced along a split dimension, at a place that is computed, is gathered whole: a stack of layers once, before its loop."""

import jax
import jax.numpy as jnp
import optax
import pytest

from workbench.analysis.tier_comparison import compare_collectives
from workbench.public_plan import Plan
from workbench.tracing import trace, trace_training

pytestmark = pytest.mark.compile

S = jax.ShapeDtypeStruct
STACK, ROWS = S((16, 64, 64), "float32"), S((32, 64), "float32")
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
