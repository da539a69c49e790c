"""Remat `dots_every:N`: of a layer's products of weights the first and every N-th after it are kept, and a fused attention's result."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax._src.ad_checkpoint import saved_residuals  # public only as a print

import workbench as wb
from tests.cost.test_memory import compiled_peak
from workbench.core.remat import Remat
from workbench.core.tensor import Role
from workbench.models import build
from workbench.models.decoder import decoder
from workbench.models.decoder.decoder_config import PRESETS
from workbench.models.decoder.decoder_weights import init
from workbench.models.layers.layer_checkpoint import checkpoint_layer
from workbench.plan.edits import SetRemat
from workbench.public_plan import Plan
from workbench.tracing import keep_every_dot

pytestmark = pytest.mark.compile

FUSED = replace(PRESETS["tiny"], fused="attention norm activation rotary loss")


def shapes_saved(fn, *arguments):
    """Shapes of what a function keeps besides its arguments."""
    return [aval.shape for aval, source in saved_residuals(fn, *arguments) if "argument" not in source and "constant" not in source]


def chain(weights, x):
    for each in weights:
        x = jnp.tanh(x @ each)
    return x


@pytest.mark.parametrize(("every", "kept"), [(1, (1, 2, 3, 4, 5)), (2, (1, 3, 5)), (3, (1, 4))])
def test_the_first_product_and_every_nth_after_it_are_kept(every, kept):
    weights = [jnp.ones((n, n + 1)) for n in range(5)]
    assert shapes_saved(keep_every_dot(chain, every), weights, jnp.ones((2, 0))) == [(2, number) for number in kept]


def test_each_layer_counts_its_own_products():
    def two(weights, x):
        return keep(weights[:3], keep(weights[:3], x) @ jnp.ones((3, 0)))

    keep = keep_every_dot(chain, 2)
    weights = [jnp.ones((n, n + 1)) for n in range(3)]
    kept = [shape for shape in shapes_saved(two, weights, jnp.ones((2, 0))) if shape[-1]]
    assert kept.count((2, 1)) == 2
    assert (2, 2) not in kept


def test_a_decoders_layer_keeps_every_other_product_and_its_attention():
    weights = init(jax.random.key(0), FUSED, scan=False)["layers"][0]
    layer = checkpoint_layer(partial(decoder.layer, config=FUSED), "alternate")
    kept = shapes_saved(layer, weights, jnp.ones((FUSED.batch, FUSED.seq, FUSED.d_model)), None)
    where = (FUSED.batch, FUSED.seq)
    assert kept == [
        (*where, FUSED.kv_heads, FUSED.qkv, FUSED.d_head),  # of queries, keys and values; then what attention computes
        (*where, FUSED.kv_heads, FUSED.q_per_kv, FUSED.d_head),
        (*where, FUSED.gate_up, FUSED.d_ff),
    ]


def test_a_function_with_a_derivative_of_its_own_is_one_product_or_an_attention():
    @jax.custom_vjp
    def product(x, w):
        return x @ w

    product.defvjp(lambda x, w: (x @ w, (x, w)), lambda kept, g: (g @ kept[1].T, kept[0].T @ g))

    @jax.custom_vjp
    def attention(x):
        return jnp.einsum("nij,nj->ni", jnp.einsum("ni,nj->nij", x, x), x)

    attention.defvjp(lambda x: (attention(x), x), lambda x, g: (x * g,))

    def layer(first, second, x):
        return jnp.sin(product(jnp.sin(attention(jnp.sin(product(x, first)))), second))

    kept = shapes_saved(keep_every_dot(layer, 2), jnp.ones((3, 5)), jnp.ones((5, 7)), jnp.ones((2, 3)))
    assert kept == [(2, 5), (2, 5)]


def test_what_devices_sum_in_a_shard_map_is_kept_and_what_they_gather_is_not():
    mesh = jax.make_mesh((2,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("x")

    def inside(x):
        return jnp.sin(jax.lax.psum(jnp.sin(x), "x")) * jnp.sin(jax.lax.all_gather(x, "x")).sum()

    keep = keep_every_dot(jax.shard_map(inside, mesh=mesh, in_specs=spec, out_specs=spec), 2)
    assert shapes_saved(keep, jnp.ones((4, 3))) == [(2, 3)]


@pytest.mark.parametrize("scan", [True, False])
def test_gradients_are_those_of_a_decoder_that_keeps_all(scan):
    batch = {"tokens": jnp.arange(16 * 64).reshape(16, 64) % 256, "targets": (jnp.arange(16 * 64).reshape(16, 64) * 7) % 256}
    params = init(jax.random.key(0), FUSED, scan=scan)
    plain, again = (
        jax.jit(jax.value_and_grad(decoder.make_loss(replace(FUSED, recompute=each))))(params, batch) for each in ("none", "alternate")
    )
    for one, other in zip(jax.tree.leaves(plain), jax.tree.leaves(again), strict=True):
        np.testing.assert_allclose(other, one, rtol=2e-4, atol=1e-6)


def test_a_mixture_takes_it_too():
    kept, least = (
        Plan(build("mixture", recompute=each), "data:8", "batch:data").report().memory.by_role[Role.ACTIVATION]
        for each in ("alternate", "full")
    )
    assert kept > least


def decoder_plan(recompute, **changes):
    return Plan(decoder.training_step(replace(FUSED, layers=4, d_ff=256, recompute=recompute, **changes)), "data:8", "batch:data")


def test_it_keeps_less_than_all_and_recomputes_less_than_full():
    reports = [decoder_plan(each).report() for each in ("none", "alternate", "full")]
    memory, flops = ([count(each) for each in reports] for count in (lambda each: each.memory.peak, lambda each: each.flops.unique))
    assert memory == sorted(memory, reverse=True)
    assert flops == sorted(flops)
    assert len(set(memory)) == len(set(flops)) == 3


@pytest.mark.parametrize("recompute", ["none", "alternate", "full"])
def test_its_peak_is_within_a_tenth_of_xlas(recompute):
    plan = decoder_plan(recompute, fused="")
    assert plan.report().memory.peak == pytest.approx(compiled_peak(plan), rel=0.1)


def test_a_plan_of_any_program_takes_it():
    def loss(params, batch):
        x, _ = jax.lax.scan(lambda x, layer: (x + chain(layer, x), None), batch, params)
        return jnp.square(x).sum()

    program = wb.trace_training(loss, [jnp.ones((4, 8, 8))] * 4, jnp.ones((64, 8)), optimizer=optax.sgd(0.1))
    plan = Plan(program, "data:8", f"{program.arguments[-1].dims[0]}:data")
    full, every = (plan.apply(SetRemat(Remat.parse(each))).report() for each in ("full", "dots_every:2"))
    product = 2 * 64 * 8 * 8 * 4  # FLOP, of four layers
    assert full.flops.unique - every.flops.unique == 2 * product
    assert every.memory.peak - full.memory.peak == 2 * 4 * (64 // 8) * 8 * 4  # two values of four layers, float32
