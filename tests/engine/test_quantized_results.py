"""Checks of steps with values of eight bits: a code that rounds the other way is explained, a wrong result is not."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import workbench as wb
from workbench.engine.spmd.against_unsharded import check_step, largest_gap, quantization_step
from workbench.engine.spmd.compiled_step import compile_step

pytestmark = pytest.mark.compile
WIDTH, ROWS = 64, 16


@wb.layer
def layer(weights, x):
    return jnp.tanh(x @ weights["w"])


def loss(params, batch):
    x = batch["x"]
    for weights in params:
        x = layer(weights, x)
    return jnp.square(x - batch["y"]).mean()


def program(optimizer, precision):
    keys = jax.random.split(jax.random.key(0), 4)
    params = [{"w": jax.random.normal(key, (WIDTH, WIDTH)) / 8} for key in keys[:2]]
    batch = {name: np.asarray(jax.random.normal(key, (ROWS, WIDTH))) for name, key in zip("xy", keys[2:], strict=True)}
    traced = wb.trace_training(loss, params, batch, optimizer=optimizer, dims={"batch/x": "batch _", "batch/y": "batch _"})
    return traced.variant(precision=wb.Precision.parse(precision)) if precision else traced


@pytest.mark.parametrize(("optimizer", "precision"), [("adam8bit", ""), ("adamw", "float8"), ("adam8bit", "float8")])
def test_a_right_step_passes_and_one_without_the_gradient_of_half_of_the_batch_does_not(optimizer, precision):
    step = compile_step(wb.Plan(program(optimizer, precision), "data:2", "batch:data"))
    right = check_step(step, step.arguments(0))
    assert not right.is_wrong
    assert right.explained < 0.3

    def forget_half(*arguments):
        batch = [jnp.concatenate([each[: ROWS // 2]] * 2) for each in arguments[-2:]]
        return step.call(*arguments[:-2], *(jax.device_put(each, old.sharding) for each, old in zip(batch, arguments[-2:], strict=True)))

    assert check_step(replace(step, call=forget_half), step.arguments(0)).is_wrong


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "int8", "int4"])
def test_one_step_of_each_code_is_no_difference_and_two_are(dtype):
    kind = jnp.dtype(dtype)
    codes = np.arange(-8, 8).astype(kind) if "int" in dtype else np.arange(256, dtype=np.uint8).view(kind)
    values = np.unique(codes[np.isfinite(codes.astype(np.float64))].astype(np.float64))
    codes = values[values >= 0].astype(kind)
    assert largest_gap(codes[:-1], codes[1:]) == largest_gap(codes[1:], codes[:-1]) == 0
    assert largest_gap(codes[2:], codes[:-2]) > 0
    assert quantization_step(codes[:1]).item() > 0
