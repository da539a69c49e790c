"""The mixture of experts as plain JAX: who gets which token, that going there and back is exact, and what is sent."""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from workbench.core.tensor import Role
from workbench.models import build
from workbench.models.data import english_text
from workbench.models.mixture import mixture, mixture_weights
from workbench.models.mixture.experts import assign, experts, make_dispatch_mask, route
from workbench.models.mixture.mixture import expert_parallel
from workbench.models.mixture.mixture_config import PRESETS
from workbench.public_plan import Plan

pytestmark = pytest.mark.compile

TINY, TOP2 = PRESETS["tiny"], PRESETS["tiny-top2"]
ROOMY = {"capacity_factor": TINY.experts / TINY.top_k}  # a place for every token in every expert
WAYS = [pytest.param(replace(config, **ROOMY), id=config.dispatch) for config in (TINY, TOP2)]


def logits(config):
    return jax.random.normal(jax.random.key(0), (3, config.seq, config.experts))


@cache
def layer(config):
    """Weights of one mixture, and activations."""
    params = mixture_weights.init(jax.random.key(1), config, scan=False)["layers"][0]["experts"]
    return jax.tree.map(lambda leaf: 8 * leaf, params), jax.random.normal(jax.random.key(2), (3, config.seq, config.d_model))


def every_expert(weights, x, config):
    """The same sum, with every expert computed for every token."""
    gates, _ = route(jnp.einsum("bsd,de->bse", x, weights["router"]), config)
    up = jnp.einsum("bsd,edgf->bsegf", x, weights["w1"])
    hidden = jax.nn.silu(up[..., 0, :]) * up[..., 1, :] if config.expert_gates > 1 else jax.nn.gelu(up[..., 0, :])
    return jnp.einsum("bsef,efd,bse->bsd", hidden, weights["w2"], gates)


@pytest.mark.parametrize("score", ["softmax", "sigmoid"])
def test_a_token_chooses_its_best_experts(score):
    config = replace(TINY, score=score)
    gates, load = route(logits(config), config)
    assert ((gates > 0).sum(-1) == config.top_k).all()
    best = jnp.sort(logits(config), -1)[..., -config.top_k, None]
    np.testing.assert_array_equal(gates > 0, logits(config) >= best)
    assert (load >= 1 - 1e-5).all(), "1 is an even load"


def test_an_even_load_counts_one():
    config = replace(TINY, top_k=1)
    turns = jax.nn.one_hot(jnp.arange(config.seq) % config.experts, config.experts)[None]
    np.testing.assert_allclose(route(1e-3 * turns, config)[1], 1.0, rtol=1e-5)


def test_device_limited_routing_stays_in_the_best_groups():
    config = replace(TINY, groups=4, top_groups=2)
    gates, _ = route(logits(config), config)
    used = (gates.reshape(3, config.seq, config.groups, -1) > 0).any(-1).sum(-1)
    assert ((gates > 0).sum(-1) == config.top_k).all()
    assert used.max() == config.top_groups
    assert (jnp.argmax(gates, -1) == jnp.argmax(logits(config), -1)).all(), "the best expert of all is in the best group here"


@pytest.mark.parametrize("config", [replace(TINY, capacity_factor=0.5), TINY])
def test_an_expert_keeps_the_tokens_that_its_router_gives_most(config):
    gates, _ = route(logits(config), config)
    share, tokens = assign(gates, config)
    assert share.shape == tokens.shape == (3, config.experts, config.capacity)
    np.testing.assert_array_equal(share, jnp.sort(gates.swapaxes(1, 2))[..., ::-1][..., : config.capacity])
    np.testing.assert_array_equal(jnp.take_along_axis(gates.swapaxes(1, 2), tokens, -1), share)


def test_a_place_is_for_one_token_and_first_choices_come_first():
    config = replace(TOP2, capacity_factor=0.5)
    gates, _ = route(logits(config), config)
    mask = make_dispatch_mask(gates, config)
    assert mask.sum(1).max() == 1, "a place has one token at most"
    assert mask.sum(3).max() == 1, "a token has one place in an expert at most"
    assert not (mask.sum(3) * (gates == 0)).any(), "and none in an expert it did not choose"
    first = gates == gates.max(-1, keepdims=True)
    took = (mask.sum(3) * first).sum(1)
    np.testing.assert_array_equal(took, jnp.minimum(first.sum(1), config.capacity))


@pytest.mark.parametrize("config", WAYS)
def test_with_room_for_all_it_is_the_sum_over_the_chosen_experts(config):
    weights, x = layer(config)
    np.testing.assert_allclose(experts(weights, x, config)[0], every_expert(weights, x, config), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("config", WAYS)
def test_and_so_are_its_gradients(config):
    weights, x = layer(config)
    ours, expected = (
        jax.grad(lambda weights, x, apply=apply: jnp.square(apply(weights, x)).mean(), argnums=(0, 1))(weights, x)
        for apply in (lambda weights, x: experts(weights, x, config)[0], lambda weights, x: every_expert(weights, x, config))
    )
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4 * float(jnp.abs(b).max())), ours, expected)


@pytest.mark.share(3)
@pytest.mark.parametrize(("preset", "recompute"), [("tiny", "kernels"), ("tiny-top2", "full")])
def test_a_scanned_mixture_has_the_loss_and_gradients_of_one_that_recomputes(preset, recompute):
    config = replace(PRESETS[preset], batch=2, seq=16)
    params, batch = mixture_weights.init(jax.random.key(1), config, scan=True), english_text.batches(2, 16)(0)
    value, expected = jax.jit(jax.value_and_grad(mixture.make_loss(config)))(params, batch)
    apart = {**params, "layers": [jax.tree.map(lambda leaf, i=i: leaf[i], params["layers"]) for i in range(config.sparse)]}
    found, grads = jax.jit(jax.value_and_grad(mixture.make_loss(replace(config, recompute=recompute))))(apart, batch)
    grads = {**grads, "layers": jax.tree.map(lambda *layers: jnp.stack(layers), *grads["layers"])}
    np.testing.assert_allclose(found, value, rtol=1e-5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-6), grads, expected)


def test_it_learns_from_real_text():
    config = replace(TINY, batch=8)
    optimizer, loss, data = optax.adamw(config.learning_rate), mixture.make_loss(config), english_text.batches(8, config.seq)
    params = mixture_weights.init(jax.random.key(0), config, scan=True)
    state = optimizer.init(params)

    @jax.jit
    def step(params, state, batch):
        value, gradient = jax.value_and_grad(loss)(params, batch)
        updates, state = optimizer.update(gradient, state, params)
        return optax.apply_updates(params, updates), state, value

    values = []
    for number in range(30):
        params, state, value = step(params, state, data(number))
        values.append(float(value))
    assert values[0] == pytest.approx(np.log(256) + 1 / 6, abs=0.15)
    assert values[-1] < 3.3


@pytest.mark.parametrize(("preset", "shares"), [("tiny", True), ("tiny-top2", False)])
def test_a_mixture_sends_its_tokens_there_and_back_in_both_passes(preset, shares):
    """GShard, section 3.3: two all-to-alls forward and two backward, each of all places."""
    config = PRESETS[preset]
    report = Plan(build("mixture", preset=preset), "expert:8", expert_parallel(batch="expert", shares=shares)).report()
    places = 4 * config.batch // 8 * config.experts * config.capacity
    sent = sorted(each.payload for each in report.collectives if each.kind == "all-to-all" for _ in range(each.count))
    assert sent == sorted(config.sparse * (4 * [places * config.d_model] + 2 * shares * [places]))
    assert {each.kind for each in report.collectives} == {"all-to-all", "all-reduce"}
    spread = {each.tensor.path for each in report.arguments if "expert" in str(each.sharding) and each.tensor.role is Role.PARAMETER}
    assert spread == {"params/layers/experts/w1", "params/layers/experts/w2"}
