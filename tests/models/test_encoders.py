"""T5, the Conformer and the 3-D U-Net as plain JAX on one device: they learn, their forms agree, and they see what they should."""

from dataclasses import replace
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from workbench.models import conformer, t5, unet
from workbench.models.conformer import PRESETS as CONFORMERS
from workbench.models.data import synthetic_data
from workbench.models.layers.norms_and_losses import batch_norm, instance_norm, layer_norm, rms_norm
from workbench.models.t5 import PRESETS as T5S
from workbench.models.unet import PRESETS as UNETS

pytestmark = pytest.mark.compile

SPEECH = replace(CONFORMERS["tiny"], batch=4, seq=32)
WORDS = replace(T5S["tiny"], batch=8)
SCANS = replace(UNETS["tiny"], batch=2, size=8)

MODELS = {
    "conformer": (conformer.make_loss(SPEECH), partial(conformer.init, config=SPEECH, scan=True)),
    "t5": (t5.make_loss(WORDS), partial(t5.init, config=WORDS, scan=True)),
    "unet": (unet.make_loss(SCANS), partial(unet.init, config=SCANS)),
}
BATCHES = {
    "conformer": synthetic_data.speech(SPEECH.batch, SPEECH.seq, SPEECH.features, SPEECH.vocab),
    "t5": t5.passage_batches(WORDS),
    "unet": synthetic_data.scans(SCANS.batch, SCANS.size, 1, SCANS.classes),
}


@cache
def made(name):
    """Of a model: the loss, parameters (their layers scanned), and batches."""
    loss, init = MODELS[name]
    return loss, jax.jit(init)(jax.random.key(0)), BATCHES[name]


@cache
def gradient(name):
    return jax.jit(jax.value_and_grad(made(name)[0]))


@pytest.mark.parametrize(
    ("name", "untrained", "rate"), [("conformer", np.log(32) + 0.5, 0.3), ("t5", np.log(256) + 0.5, 0.3), ("unet", np.log(4) + 0.5, 0.1)]
)
def test_it_learns(name, untrained, rate):
    """It begins knowing nothing: the logarithm of the number of classes, and half the variance of its logits."""
    _, params, data = made(name)
    params, values = jax.tree.map(np.asarray, params), []
    for number in range(20):
        value, slope = gradient(name)(params, data(number))
        params = jax.tree.map(lambda each, grad: each - rate * np.asarray(grad), params, slope)
        values.append(float(value))
    assert values[0] == pytest.approx(untrained, abs=0.6)
    assert np.mean(values[-3:]) < 0.8 * values[0]


@pytest.mark.parametrize("name", ["conformer", "t5"])
def test_layers_apart_have_the_loss_and_gradients_of_scanned_ones(name):
    def apart(stacked):
        return [jax.tree.map(lambda leaf, i=i: leaf[i], stacked) for i in range(2)]

    loss, params, data = made(name)
    stacks = params.keys() & {"layers", "encoder", "decoder"}
    value, expected = gradient(name)(params, data(0))
    found, grads = jax.jit(jax.value_and_grad(loss))({**params, **{each: apart(params[each]) for each in stacks}}, data(0))
    grads = {**grads, **{each: jax.tree.map(lambda *layers: np.stack(layers), *grads[each]) for each in stacks}}
    np.testing.assert_allclose(found, value, rtol=1e-5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5), grads, expected)


def test_a_token_written_does_not_see_those_after_it():
    params, batch = t5.init(jax.random.key(0), WORDS, scan=True), t5.passage_batches(WORDS)(0)
    changed = batch["tokens"].copy()
    changed[:, 9] = (changed[:, 9] + 1) % 256
    run = jax.jit(lambda source, tokens: t5.apply(params, source, tokens, WORDS))
    before, after, other = run(batch["source"], batch["tokens"]), run(batch["source"], changed), run(batch["source"][::-1], batch["tokens"])
    np.testing.assert_allclose(before[:, :9], after[:, :9], rtol=1e-5, atol=1e-5)
    assert not np.allclose(before[:, 9:], after[:, 9:])
    assert not np.allclose(before, other), "and it sees what was read"


def test_distances_share_buckets_the_more_the_longer_they_are():
    """Raffel et al. 2020, section 2.1: 32 buckets, the last for 128 and beyond."""
    reach = np.arange(-299, 300)
    hidden, seen = (np.asarray(jax.jit(partial(t5.buckets, number=32, both_ways=both))(reach)) for both in (False, True))
    back = hidden[reach <= 0][::-1]
    np.testing.assert_array_equal(back[:16], np.arange(16))
    assert (np.diff(back) >= 0).all()
    assert (back[127:] == 31).all()
    assert (hidden[reach > 0] == 0).all(), "the future has none of its own where it is hidden"
    assert (seen[reach <= 0].max(), seen[reach > 0].min(), seen.max()) == (15, 17, 31)


def test_the_convolution_of_a_conformer_sees_as_far_as_its_kernel():
    x = jnp.zeros((1, 16, 3)).at[0, 8].set(1.0)
    seen = np.asarray(conformer._depthwise(x, jnp.ones((5, 1, 3))))
    assert np.flatnonzero(seen[0, :, 0]).tolist() == [6, 7, 8, 9, 10]


def test_widening_a_volume_is_the_transposed_convolution():
    keys = jax.random.split(jax.random.key(0), 2)
    x, w = jax.random.normal(keys[0], (2, 3, 4, 5, 6)), jax.random.normal(keys[1], (2, 2, 2, 6, 7))
    expected = jax.lax.conv_transpose(x, w, (2, 2, 2), "VALID", dimension_numbers=("NDHWC", "DHWIO", "NDHWC"), transpose_kernel=False)
    # The windows of `conv_transpose` are turned round.
    np.testing.assert_allclose(unet._upsample({"w": w[::-1, ::-1, ::-1]}, x), expected, rtol=1e-4, atol=1e-4)


def test_pooling_is_the_maximum_of_windows_that_do_not_overlap():
    x = jax.random.normal(jax.random.key(0), (2, 4, 6, 8, 3))
    window = (1, 2, 2, 2, 1)
    np.testing.assert_array_equal(unet._max_pool(x), jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, window, "VALID"))


@pytest.mark.parametrize(("norm", "over"), [(layer_norm, (3,)), (batch_norm, (0, 1, 2)), (instance_norm, (1, 2))])
def test_a_normalised_value_has_mean_0_and_variance_1(norm, over):
    x = 3 + 5 * jax.random.normal(jax.random.key(0), (4, 8, 8, 16))
    plain = norm({}, x)
    np.testing.assert_allclose(plain.mean(over), 0, atol=1e-5)
    np.testing.assert_allclose(plain.var(over), 1, atol=1e-3)
    np.testing.assert_allclose(norm({"scale": jnp.full(16, 2.0), "bias": jnp.full(16, 7.0)}, x), 2 * plain + 7, rtol=1e-5)


def test_the_root_mean_square_becomes_1_and_the_mean_stays():
    x = 3 + jax.random.normal(jax.random.key(0), (4, 64))
    found = rms_norm({"scale": jnp.ones(64)}, x)
    np.testing.assert_allclose(jnp.square(found).mean(-1), 1, rtol=1e-5)
    assert (found.mean(-1) > 0.8).all()
