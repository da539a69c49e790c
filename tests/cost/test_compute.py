"""Kernels and their time: closed forms of single products, what fuses, and flops by both conventions."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import optax
import pytest

from tests.support.machines import flat
from workbench.analysis.analyze import analyze
from workbench.core.tensor import Role
from workbench.cost.fusion.fuse_operations import kernels_of
from workbench.cost.tile_padding import padded_volume
from workbench.models import build
from workbench.propagation import structure_of
from workbench.public_plan import Plan
from workbench.tracing import trace, trace_training

S = jax.ShapeDtypeStruct
X = S((512, 512), "float32")
BYTES = 4 * 512 * 512


@pytest.mark.parametrize(
    ("sizes", "tile", "volume"),
    [
        ((512, 256, 128), (), 512 * 256 * 128),
        ((512, 256, 128), (128, 128), 512 * 256 * 128),
        ((6, 64, 64), (128, 128), 8 * 128 * 128),
        ((130, 100, 1), (128, 128, 16), 256 * 128 * 16),
    ],
)
def test_sizes_are_rounded_up_to_the_tile_of_the_matrix_unit(sizes, tile, volume):
    assert padded_volume(*sizes, tile) == volume


def test_a_product_takes_its_flops_or_its_traffic_whichever_is_longer():
    plan = Plan(trace(lambda x, y: x @ y, X, X), "x:1")
    slow_unit = analyze(plan, flat("unit", flops=1e9, memory_bandwidth=1e15)).step_time
    slow_memory = analyze(plan, flat("memory", flops=1e15, memory_bandwidth=1e9)).step_time
    assert (slow_unit.total, slow_unit.memory) == (pytest.approx(2 * 512**3 / 1e9), 0.0)
    assert (slow_memory.total, slow_memory.arithmetic) == (pytest.approx(3 * BYTES / 1e9), 0.0)


@pytest.mark.parametrize(
    ("function", "kernels", "on_tpu"),
    [
        (lambda x: jnp.tanh(jnp.exp(x) + 1) * 2, 1, 1),
        (lambda x: jnp.tanh(x @ x), 1, 1),
        (lambda x: jnp.exp(x).sum(0), 1, 1),
        (lambda x: (jnp.exp(x) @ x) @ x, 2, 2),
        (lambda x: ((h := jnp.tanh(x @ x)) @ x, h.sum()), 3, 2),
    ],
)
def test_kernels_are_counted_as_the_compiler_fuses(function, kernels, on_tpu):
    structure = structure_of(trace(function, X))
    assert [kernels_of(structure, recomputes=each).count for each in (False, True)] == [kernels, on_tpu]


def test_kernels_run_as_often_as_their_loop_turns():
    def loop(x):
        return jax.lax.fori_loop(0, 7, lambda _, h: h @ h, x)

    kernels = kernels_of(structure_of(trace(loop, X)))
    assert kernels.times[kernels.dots[0].kernel] == 7


@pytest.mark.parametrize("recomputes", [False, True])
def test_a_kernel_does_each_operation_once_for_an_element_by_however_many_ways_it_is_reached(recomputes):
    """Each round of random bits reads both words of the one before it, twice."""
    structure = structure_of(trace(lambda x: x * jax.random.bernoulli(jax.random.key(0), 0.9, x.shape), X))
    assert kernels_of(structure, recomputes=recomputes).steps.sum() < 4 * len(structure.ops)


def test_dropout_costs_what_its_random_bits_cost():
    def drop(x, w, rate):
        return (x @ w) * jax.random.bernoulli(jax.random.key(0), 1 - rate, X.shape) if rate else x @ w

    without, dropped = (Plan(trace(lambda x, w, rate=rate: drop(x, w, rate), X, X), "x:1") for rate in (0.0, 0.1))
    ring = flat("vector", memory_bandwidth=1e15)
    ring = replace(ring, chip=replace(ring.chip, vector_flops=1e9))
    bits = analyze(dropped, ring).step_time.total - analyze(without, ring).step_time.total
    assert 100 < bits / (512 * 512 / 1e9) < 200  # 20 rounds of 5 operations and what is around them


@pytest.mark.parametrize("recomputes", [False, True])
@pytest.mark.parametrize("arguments", [{}, {"scan": False}, {"remat": True}])
def test_kernels_read_only_what_is_there(arguments, recomputes):
    """Whatever a kernel reads is an argument, a part of one, or written by another kernel."""
    structure = structure_of(build("gpt", **arguments))
    kernels = kernels_of(structure, recomputes=recomputes)
    for kernel, value in zip(kernels.readers, kernels.read, strict=True):
        born = structure.values[value].maker
        assert born < 0 or kernels.of[born] != kernel
    assert len({*kernels.of} - {-1}) == kernels.count


def test_flops_of_a_training_step_are_six_nd_and_attention():
    report = Plan(build("gpt", preset="gpt2-small", layers=2), "x:1").report()
    flops, program = report.flops, report.plan.program
    assert flops.six_nd == 6 * program.parameters * 8 * 1024
    assert flops.model == flops.unique


@pytest.mark.compile
@pytest.mark.share(3)
@pytest.mark.parametrize("factor", [1.0, 1.25])
@pytest.mark.parametrize("options", [{}, {"scan": False}, {"dispatch": "product"}, {"recompute": "full"}], ids=str)
def test_of_experts_those_count_that_a_token_has_room_in(options, factor):
    """Two of eight, times the capacity factor: 16 or 20 places for the 64 tokens of a sequence."""
    program = build("mixture", **options, experts=8, top_k=2, seq=64, capacity_factor=factor)
    flops = Plan(program, "x:1").report().flops
    experts = sum(each.elements for each in program.arguments if each.role is Role.PARAMETER and "experts" in each.dims)
    tokens = max(each.elements for each in program.arguments if each.role is Role.INPUT)
    assert 0 < experts < program.parameters
    assert flops.six_nd == 6 * round(program.parameters - experts * (1 - factor / 4)) * tokens


def test_a_stack_of_weights_that_every_token_goes_through_counts_whole():
    def loss(params, batch):
        x = params["table"][batch["ids"]].reshape(*batch["ids"].shape, 4, 8)
        return jnp.sum(jnp.einsum("bsgd,gdf->bsgf", x, params["grouped"]) ** 2)

    params = {"table": jax.ShapeDtypeStruct((64, 32), "float32"), "grouped": jax.ShapeDtypeStruct((4, 8, 8), "float32")}
    ids = {"ids": jax.ShapeDtypeStruct((8, 16), "int32")}
    program = trace_training(loss, params, ids, optimizer=optax.sgd(0.1), dims={"batch/ids": "batch seq"})
    assert Plan(program, "x:1").report().flops.six_nd == 6 * program.parameters * 8 * 16


def test_what_is_computed_again_is_not_what_the_model_needs():
    plain, again = (Plan(build("gpt", remat=remat), "x:1").report().flops for remat in (False, True))
    assert again.model == plain.unique < again.unique


def test_a_program_without_tokens_has_no_six_nd():
    assert Plan(build("two_layer"), "all:8").report().flops.six_nd == 0


def test_utilisation_is_flops_over_what_the_devices_could_do():
    report = analyze(Plan(build("gpt", remat=True), "data:8", "batch:data"), flat("test"))
    could = report.step_time.total * 1e12
    assert report.step_time.mfu == pytest.approx(report.flops.model / 8 / could)
    assert report.step_time.hfu == pytest.approx(report.flops.per_device / could)
    assert report.step_time.hfu > report.step_time.mfu
