"""Products in float8 with dynamic scales: what they compute, what the workbench counts of them, and what is sent."""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from workbench.analysis.tier_comparison import compare_collectives
from workbench.cost.estimate import estimate
from workbench.cost.step_flops import count_dot_flops
from workbench.models.decoder import decoder
from workbench.models.decoder.decoder_config import PRESETS
from workbench.models.decoder.decoder_layouts import LAYOUTS
from workbench.models.decoder.decoder_weights import init
from workbench.public_plan import Plan
from workbench.spmd.ask_partitioner import ask_partitioner
from workbench.tracing.jaxpr.float8_products import SCALINGS, product_by, scaled_einsum

pytestmark = pytest.mark.compile

TINY = replace(PRESETS["tiny"], compute="bfloat16")
BATCH = {"tokens": np.arange(16 * 64).reshape(16, 64) % 256, "targets": (np.arange(16 * 64).reshape(16, 64) * 7) % 256}
E4M3_STEP = 2**-4
"""Half the distance between neighbours in float8_e4m3, relative: what rounding an operand may change."""


training_step = cache(decoder.training_step)


def random(*shape, seed=0):
    return jax.random.normal(jax.random.key(seed), shape)


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize(
    ("subscripts", "x", "w"),
    [("bsd,dhck->bshck", (2, 8, 32), (32, 2, 3, 4)), ("bshqk,hqkd->bsd", (2, 8, 2, 2, 4), (2, 2, 4, 32)), ("sb,db->ds", (8, 16), (4, 16))],
)
def test_a_product_and_its_gradients_are_off_by_the_rounding_of_its_operands(scaling, subscripts, x, w):
    """Each operand is off by an eighth of its spread at most (e5m2 keeps two bits), in all directions."""
    operands, weight = (random(*x), random(*w, seed=1)), random(*jnp.einsum(subscripts, jnp.ones(x), jnp.ones(w)).shape, seed=2)
    exact, rounded = (
        jax.value_and_grad(lambda *each, by=by: (product_by(by)(subscripts, *each) * weight).sum(), (0, 1))(*operands)
        for by in ("", scaling)
    )
    for right, ours in zip(exact[1], rounded[1], strict=True):
        assert 0 < jnp.linalg.norm(ours - right) / jnp.linalg.norm(right) < 0.125
    np.testing.assert_allclose(rounded[0], exact[0], atol=E4M3_STEP * float(jnp.abs(exact[0]) + jnp.linalg.norm(weight) * x[-1] ** 0.5))


@pytest.mark.parametrize("scaling", SCALINGS)
def test_what_eight_bits_hold_is_multiplied_exactly(scaling):
    """A row whose largest number is that of the type is not scaled, and small whole numbers have a place."""
    x = jnp.round(4 * jnp.clip(random(4, 8), -2, 2)).at[:, 0].set(448.0)
    w = jnp.round(4 * jnp.clip(random(8, 4, seed=1), -2, 2)).at[0].set(448.0)
    np.testing.assert_array_equal(scaled_einsum("sd,df->sf", x, w, scaling=scaling), x @ w)


def test_rows_are_scaled_each_by_itself():
    x, w = random(2, 64) * jnp.array([[1.0], [1e-4]]), random(64, 8, seed=1)
    off = {each: jnp.abs(scaled_einsum("sd,df->sf", x, w, scaling=each) / (x @ w) - 1)[1].mean() for each in SCALINGS}
    assert off["rowwise"] < off["tensorwise"] / 2


def test_zeros_have_a_product_and_a_gradient():
    for scaling in SCALINGS:
        found = jax.grad(lambda x, by=scaling: scaled_einsum("sd,df->sf", x, jnp.zeros((8, 4)), scaling=by).sum())(jnp.zeros((2, 8)))
        np.testing.assert_array_equal(found, jnp.zeros((2, 8)))


def test_a_decoder_trains_as_in_bfloat16():
    found = []
    for by in ("", *SCALINGS):
        params, loss = init(jax.random.key(0), TINY, scan=True), jax.jit(jax.value_and_grad(decoder.make_loss(replace(TINY, float8=by))))
        losses = []
        for _ in range(4):
            value, grads = loss(params, BATCH)
            params = jax.tree.map(lambda w, g: w - 0.1 * g, params, grads)
            losses.append(float(value))
        found.append(losses)
    for scaled in found[1:]:
        assert scaled[-1] < scaled[0] - 0.2
        assert scaled != found[0]
        np.testing.assert_allclose(scaled, found[0], rtol=0.01)


@pytest.mark.parametrize("scaling", SCALINGS)
def test_the_layers_products_are_counted_at_the_rate_of_eight_bits(scaling):
    config = replace(TINY, float8=scaling)
    plan = Plan(training_step(config), "data:8", "batch:data", hardware="8 H100")
    flops = count_dot_flops(estimate(plan).partitioned, plan.mesh)
    weights = config.d_model * (config.kv_heads * config.d_head * (config.qkv + config.q_per_kv) + 3 * config.d_ff)
    eight = {dtype: each.unique for dtype, each in flops.items() if dtype.startswith("float8")}
    assert sum(eight.values()) == 3 * 2 * config.batch * config.seq * config.layers * weights
    gradients_in_e5m2 = eight.get("float8_e5m2", 0)
    assert gradients_in_e5m2 == (sum(eight.values()) // 3 if scaling == "tensorwise" else 0)  # where a gradient is the first operand
    assert set(flops) - set(eight) == {"bfloat16"}


@pytest.mark.parametrize("hardware", ["8 H100", "8 B200"])
def test_large_products_take_half_the_time(hardware):
    large = replace(TINY, layers=1, d_model=4096, d_head=128, kv_heads=8, q_per_kv=4, d_ff=14336, seq=2048, batch=8)
    found = [
        estimate(Plan(training_step(replace(large, float8=each), scan=False), "data:8", "batch:data", hardware=hardware))
        for each in ("", *SCALINGS)
    ]
    plain, *scaled = ((each.times.dots.sum(), each.traffic, each.step_time.total) for each in found)
    for dots, traffic, total in scaled:
        assert plain[0] / 2 < dots < plain[0] / 1.6  # the head and the attention's core are as before
        assert traffic > plain[1]  # scales and casts pass over every operand
        assert total < plain[2]


def test_weights_split_over_replicas_are_gathered_in_eight_bits():
    """They are cast where they lie; so are they sent, by Shardy and by XLA's own partitioner."""
    fsdp = LAYOUTS[2]
    config = replace(TINY, vocab=512, float8="tensorwise")
    plan = Plan(training_step(config), *fsdp, hardware="8 H100")
    weight = config.d_model * config.gate_up * config.d_ff
    asked = ask_partitioner(plan, "cuda").collectives
    for sent in (plan.report().collectives, asked):
        assert {each.payload for each in sent if each.kind == "all-gather"} >= {weight, weight // 2}
        assert 2 * weight not in {each.payload for each in sent if each.kind == "all-gather"}


@pytest.mark.parametrize(("mesh", "layout"), LAYOUTS[1::2])
@pytest.mark.parametrize("scaling", SCALINGS)
def test_what_xlas_cpu_sends_is_what_the_plan_says(scaling, mesh, layout):
    """It has no arithmetic of eight bits, and sends two bytes for one."""
    plan = Plan(training_step(replace(TINY, float8=scaling)), mesh, layout, hardware="8 CPU")
    assert [row for row in compare_collectives(plan.report(), ask_partitioner(plan, "cpu").by_axis_and_kind) if not row.agrees] == []


@pytest.mark.parametrize("scaling", SCALINGS)
def test_a_sharded_product_is_the_unsharded_one(scaling):
    """The largest magnitude is that of the whole operand, not of a device's part of it."""
    mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    x, w = random(8, 16) * jnp.arange(1, 9)[:, None], random(16, 8, seed=1)
    placed = [jax.device_put(each, jax.NamedSharding(mesh, spec)) for each, spec in ((x, P("data", "model")), (w, P("model", "data")))]
    product = jax.jit(jax.value_and_grad(lambda x, w: jnp.square(scaled_einsum("sd,df->sf", x, w, scaling=scaling)).sum(), (0, 1)))
    for one, other in zip(jax.tree.leaves(product(*placed)), jax.tree.leaves(product(x, w)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-3)


def test_a_layer_that_keeps_every_other_product_counts_those_in_eight_bits():
    memory = [
        Plan(training_step(replace(TINY, float8="rowwise", recompute=each)), "data:8", "batch:data").report().memory.peak
        for each in ("none", "alternate", "full")
    ]
    assert memory == sorted(memory, reverse=True)
    assert len(set(memory)) == 3
