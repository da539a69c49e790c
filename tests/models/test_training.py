"""The models as plain JAX on one device: they learn, and their forms agree."""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from workbench.models import gpt, mnist, two_layer
from workbench.models.data import english_text
from workbench.models.gpt_config import PRESETS

pytestmark = pytest.mark.compile

SMALL = replace(PRESETS["tiny"], layers=2, batch=4, seq=16, biases=True)


def losses(loss, params, optimizer, data, steps: int) -> list[float]:
    @jax.jit
    def step(params, state, batch):
        value, gradient = jax.value_and_grad(loss)(params, batch)
        updates, state = optimizer.update(gradient, state, params)
        return optax.apply_updates(params, updates), state, value

    state, values = optimizer.init(params), []
    for number in range(steps):
        params, state, value = step(params, state, data(number))
        values.append(float(value))
    return values


def test_tiny_learns_from_real_text():
    config = PRESETS["tiny"]
    values = losses(
        gpt.make_loss(config),
        gpt.init(jax.random.key(0), config, scan=True),
        optax.adamw(config.learning_rate),
        english_text.batches(config.batch, config.seq),
        steps=30,
    )
    assert values[0] == pytest.approx(np.log(256) + 1 / 6, abs=0.1), "untrained: logits of variance 1/3 over 256 bytes"
    assert values[-1] < 3.2, "better than the frequencies of single bytes tell"


def test_the_classifier_learns_the_drawn_digits():
    values = losses(mnist.loss, mnist.init(jax.random.key(0)), optax.sgd(0.1), mnist.batches(100), steps=30)
    assert values[-1] < values[0] / 3


@cache
def gradients(*, scan: bool, remat: bool):
    params = gpt.init(jax.random.key(1), SMALL, scan=scan)
    batch = english_text.batches(SMALL.batch, SMALL.seq)(0)
    value, gradient = jax.jit(jax.value_and_grad(gpt.make_loss(SMALL, remat=remat)))(params, batch)
    if not scan:
        gradient = {**gradient, "layers": jax.tree.map(lambda *layers: jnp.stack(layers), *gradient["layers"])}
    return value, gradient


@pytest.mark.share(3)
@pytest.mark.parametrize(("scan", "remat"), [(False, False), (True, True), (False, True)])
def test_every_form_has_the_loss_and_gradients_of_the_scanned_one(scan, remat):
    expected, found = gradients(scan=True, remat=False), gradients(scan=scan, remat=remat)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), found, expected)


def test_a_position_does_not_see_those_after_it():
    params = gpt.init(jax.random.key(0), SMALL, scan=True)
    tokens = english_text.batches(SMALL.batch, SMALL.seq)(0)["tokens"]
    changed = tokens.copy()
    changed[:, 9] = (changed[:, 9] + 1) % 256
    before, after = (gpt.apply(params, each, SMALL) for each in (tokens, changed))
    np.testing.assert_allclose(before[:, :9], after[:, :9], rtol=1e-6)
    assert not np.allclose(before[:, 9:], after[:, 9:])


def test_the_loss_is_the_cross_entropy_of_optax():
    batch = english_text.batches(SMALL.batch, SMALL.seq)(0)
    params = gpt.init(jax.random.key(0), SMALL, scan=True)
    logits = gpt.apply(params, batch["tokens"], SMALL)
    expected = optax.softmax_cross_entropy_with_integer_labels(logits, batch["targets"]).mean()
    assert float(gpt.make_loss(SMALL)(params, batch)) == pytest.approx(float(expected), rel=1e-5)


def test_the_two_layer_gradients_are_those_of_half_the_squared_output():
    keys = jax.random.split(jax.random.key(0), 3)
    x, w, v = (jax.random.normal(key, shape) for key, shape in zip(keys, ((4, 8), (8, 16), (16, 8)), strict=True))
    found = two_layer.two_layer(x, w, v)
    dw, dv = jax.grad(lambda w, v: jnp.square(two_layer.forward(x, w, v)).sum() / 2, argnums=(0, 1))(w, v)
    np.testing.assert_allclose(found["y"], two_layer.forward(x, w, v))
    np.testing.assert_allclose(found["dw"], dw, rtol=1e-4)
    np.testing.assert_allclose(found["dv"], dv, rtol=1e-4)
