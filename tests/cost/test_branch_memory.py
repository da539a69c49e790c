"""The branches of a condition share memory: a step peaks at the largest of them."""

import jax
import jax.numpy as jnp
import optax
import pytest

from workbench.public_plan import Plan
from workbench.tracing import trace, trace_training

ROWS, WEIGHTS = jax.ShapeDtypeStruct((256, 64), "float32"), jax.ShapeDtypeStruct((64, 512), "float32")


def peak(fn):
    return Plan(trace(fn, ROWS, WEIGHTS, dims={"x": "row col"}), "data:8", "row:data").report().peak


def grow(x, w):
    return jnp.exp(x @ w)


def sort(x, w):
    return jnp.sort(x @ w, 1) * jnp.sin(x @ w)


def zero(x, w):
    return jnp.zeros((x.shape[0], w.shape[1]))


@pytest.mark.parametrize("branches", [(grow, zero), (grow, sort), (zero, sort, grow)])
def test_a_step_peaks_at_its_largest_branch(branches):
    def choose(x, w):
        return jax.lax.switch(jnp.int32(x[0, 0]), [lambda each=each: each(x, w) for each in branches])

    largest = max(peak(each) for each in branches)
    assert largest <= peak(choose) < 1.02 * largest


@pytest.mark.parametrize(
    "wrap", [lambda each: optax.apply_if_finite(each, 5), lambda each: optax.conditionally_transform(each, lambda n: n < 5)]
)
def test_an_update_under_a_condition_takes_no_more_than_the_update(wrap):
    def loss(params, batch):
        return jnp.mean((batch @ params) ** 2)

    def step_peak(optimizer):
        square = jax.ShapeDtypeStruct((512, 512), "float32")
        program = trace_training(loss, square, jax.ShapeDtypeStruct((64, 512), "float32"), optimizer=optimizer, dims={"batch": "row col"})
        return Plan(program, "data:8", "row:data").report().peak

    plain = step_peak(optax.adam(1e-3))
    assert plain <= step_peak(wrap(optax.adam(1e-3))) < 1.02 * plain
