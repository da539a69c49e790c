"""The shifting buffer against the same stages one after the other."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from workbench.tracing.spmd_pipeline.shifting_buffer import iterations_of, shifting_buffer

pytestmark = pytest.mark.compile

FREE = PartitionSpec.UNCONSTRAINED
WIDTH, EXAMPLES = 8, 4


def stage(weights, x):
    """Divides by a norm: an input of zeros, such as an empty buffer holds, makes NaN."""
    normal = x["h"] / jnp.linalg.norm(x["h"], axis=-1, keepdims=True)
    return {"h": x["h"] + jnp.tanh(normal @ weights["a"]) @ weights["b"] + 0.01 * x["number"][:, None], "number": x["number"]}


@cache
def case(stages: int, micro_batches: int, repeats: int):
    keys = jax.random.split(jax.random.key(stages), 3)
    weights = {name: 0.3 * jax.random.normal(key, (stages, repeats, WIDTH, WIDTH)) for name, key in zip("ab", keys, strict=False)}
    h = jax.random.normal(keys[2], (micro_batches, EXAMPLES, WIDTH))
    return weights, h, jnp.arange(micro_batches * EXAMPLES).reshape(micro_batches, EXAMPLES)


def loss(x):
    return (x["h"] ** 2 * jnp.arange(1, x["h"].shape[0] + 1)[:, None, None]).mean()


def one_after_the_other(weights, h, number):
    x = {"h": h, "number": number}
    stages, repeats = weights["a"].shape[:2]
    for place in range(stages * repeats):
        own = jax.tree.map(lambda leaf, s=place % stages, r=place // stages: leaf[s, r], weights)
        x = jax.vmap(lambda each, own=own: stage(own, each))(x)
    return loss(x)


def pipelined(weights, h, number, **options):
    stages, repeats = weights["a"].shape[:2]
    return loss(shifting_buffer(stage, weights, {"h": h, "number": number}, stages=stages, repeats=repeats, **options))


def agree(found, expected):
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=3e-5, atol=1e-6), found, expected)


SHAPES = [(1, 3, 2), (2, 3, 2), (3, 2, 2), (4, 8, 1)]


@pytest.mark.share(3)
@pytest.mark.parametrize(("stages", "micro_batches", "repeats"), SHAPES)
def test_loss_and_gradients_are_those_of_the_stages_one_after_the_other(stages, micro_batches, repeats):
    arguments = case(stages, micro_batches, repeats)
    expected = jax.jit(jax.value_and_grad(one_after_the_other, (0, 1)))(*arguments)
    remat = bool((stages + micro_batches) % 2)
    agree(jax.jit(jax.value_and_grad(lambda *given: pipelined(*given, remat=remat), (0, 1)))(*arguments), expected)


@pytest.mark.parametrize("remat", [True, False])
def test_no_number_of_the_bubble_reaches_a_gradient(remat):
    """A stage that is NaN on all but what belongs to it: each micro-batch carries how many stages it has seen."""

    def strict(weights, x):
        h = jnp.where(x["seen"] == weights["place"], x["h"], jnp.nan)
        return {"h": jnp.sin(h @ weights["a"]), "seen": x["seen"] + 1}

    def total(matrix, h):
        weights = {"a": matrix, "place": jnp.arange(3)[:, None]}
        done = shifting_buffer(strict, weights, {"h": h, "seen": jnp.zeros(4, jnp.int32)}, stages=3, remat=remat)
        return (done["h"] ** 2).sum()

    matrix, h = 0.3 * jax.random.normal(jax.random.key(0), (3, 1, WIDTH, WIDTH)), jnp.ones((4, WIDTH))
    value, gradients = jax.jit(jax.value_and_grad(total, (0, 1)))(matrix, h)
    assert np.isfinite(value)
    assert all(np.isfinite(each).all() for each in gradients)
    assert all(np.abs(each).max() > 0 for each in gradients)


def test_stages_lie_on_their_own_devices_beside_a_batch_that_is_split():
    mesh = jax.make_mesh((4, 2), ("stage", "data"), axis_types=(AxisType.Auto,) * 2)
    weights, h, number = case(4, 8, 1)

    def place_on_stages(tree):
        at = [NamedSharding(mesh, PartitionSpec("stage", *[FREE] * (leaf.ndim - 1))) for leaf in jax.tree.leaves(tree)]
        return jax.lax.with_sharding_constraint(tree, jax.tree.unflatten(jax.tree.structure(tree), at))

    staged, split = NamedSharding(mesh, PartitionSpec("stage")), NamedSharding(mesh, PartitionSpec(None, "data"))
    step = jax.jit(
        jax.value_and_grad(lambda *given: pipelined(*given, place_on_stages=place_on_stages)), in_shardings=(staged, split, split)
    )
    compiled = step.lower(weights, h, number).compile()
    text = compiled.as_text()
    assert "collective-permute" in text
    assert "all-gather" not in text
    placed = jax.tree.map(jax.device_put, (weights, h, number), (jax.tree.map(lambda _: staged, weights), split, split))
    agree(compiled(*placed), jax.value_and_grad(one_after_the_other)(weights, h, number))


@pytest.mark.parametrize("remat", [True, False])
def test_weights_are_kept_once_and_not_once_an_iteration(remat):
    weights, h, number = case(4, 8, 2)
    jaxpr = jax.make_jaxpr(jax.grad(lambda *given: pipelined(*given, remat=remat)))(weights, h, number)
    kept = [var.aval.shape for eqn in jaxpr.eqns if eqn.primitive.name == "scan" for var in eqn.outvars]
    iterations = iterations_of(4, 8, 2)
    assert any(shape[:1] == (iterations,) for shape in kept)
    assert (iterations, 4, WIDTH, WIDTH) not in kept


def test_the_bubble_is_the_share_of_iterations_that_do_nothing_new():
    """(S - 1) / (R M + S - 1): DOMAIN 3.6."""
    for stages, micro_batches, repeats in ((4, 8, 1), (4, 8, 3), (2, 32, 1)):
        worked = repeats * micro_batches
        assert iterations_of(stages, micro_batches, repeats) == worked + stages - 1
