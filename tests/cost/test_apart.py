"""Kernels that collectives cut: windowed einsums, casts before a gather, epilogues after a reduction; and what is done before a loop."""

from dataclasses import replace
from math import prod

import jax
import jax.numpy as jnp
import pytest

from workbench.analysis.analyze import analyze
from workbench.core.tensor import itemsize
from workbench.cost.fusion.fuse_operations import kernels_of
from workbench.cost.fusion.loop_edges import hoisted_casts, unfilled_stacks
from workbench.cost.windowed_dots import LONGEST_RING, WindowedSteps, decompose_collective_matmuls, plan_windowed_dots
from workbench.hardware.catalogue import parse_hardware
from workbench.models import build
from workbench.propagation import local_shape, partition, structure_of
from workbench.public_plan import Plan
from workbench.tracing import trace

S = jax.ShapeDtypeStruct
SLICES = {"v3": "TPU v3 2x2", "v4": "TPU v4 2x2x2", "v5e": "TPU v5e 2x4", "v5p": "TPU v5p 2x2x2", "v6e": "TPU v6e 2x4"}
ROWS = 8192  # so many that it is the weight that is gathered
SUMMED, COLUMNS = "m:x; w=[x, -]", "m:x; w=[-, x]"  # the weight is split along what is summed, or along its columns


def apart(layout, hardware, mesh="x:8", dtype="bfloat16", function=jnp.matmul):
    program = trace(function, S((ROWS, 1024), dtype), S((1024, 512), dtype), dims={"x": "m k", "w": "k n"})
    plan = Plan(program, mesh, layout, hardware=parse_hardware(hardware))
    kernels = kernels_of(structure_of(program), recomputes=True)
    found = partition(plan, plan.hardware)
    placed = zip(found.structure.values, found.dims, strict=True)
    local_bytes = [itemsize(dtype) * prod(local_shape(value.shape, dims or (), plan.mesh)) for value, dims in placed]
    windows = plan_windowed_dots(kernels, found, local_bytes, plan.mesh, plan.hardware.chip)
    return decompose_collective_matmuls(kernels, found, local_bytes, plan.mesh, plan.hardware.chip, windows)


def multiply(x, w):
    return x @ w


@pytest.mark.parametrize("chip", SLICES)
@pytest.mark.parametrize(("layout", "is_summed"), [(SUMMED, True), (COLUMNS, False)])
def test_a_gathered_weight_is_multiplied_piece_by_piece_on_the_chips_that_do_so(chip, layout, is_summed):
    steps = list(apart(layout, SLICES[chip], function=multiply).steps.values())
    assert steps == ([WindowedSteps(4, is_summed)] if chip in ("v4", "v5e", "v5p") else [])


def test_a_ring_that_is_too_long_is_not_windowed():
    assert LONGEST_RING == 32
    assert not apart(SUMMED, "TPU v5e 8x8", mesh="x:64", function=multiply).steps


def test_products_of_wide_floats_are_not_windowed():
    assert not apart(SUMMED, "TPU v5e 2x4", dtype="float32", function=multiply).steps


def test_a_weight_that_two_products_read_is_gathered_whole():
    def twice(x, w):
        return (x @ w, (x + 1) @ w)

    assert not apart(SUMMED, "TPU v5e 2x4", function=twice).steps


def test_an_epilogue_after_a_reduction_is_a_kernel_of_its_own():
    def added(x, w):
        return jnp.tanh(x @ w)

    one, cut = (apart(layout, "TPU v3 2x2", function=added) for layout in ("m:x", "k:x"))
    assert (one.launches.sum(), one.moved.sum()) == (0, 0)
    assert cut.launches.sum() == 1
    assert cut.elements.sum() == ROWS * 512
    assert cut.moved.sum() == 2 * 2 * ROWS * 512  # written, and read again


def test_nothing_is_cut_where_it_was_not_seen():
    assert apart(SUMMED, "8 H100", function=multiply).moved.sum() == 0


def test_scanned_weights_are_cast_before_their_loop_and_only_once():
    def layer(x, w):
        return x @ w.astype(x.dtype), None

    def scanned(x, w):
        first, _ = jax.lax.scan(layer, x, w)
        return jax.lax.scan(layer, first, w)[0]

    def unrolled(x, w):
        return layer(layer(x, w[0])[0], w[1])[0]

    weights = S((2, 64, 64), "float32")
    structures = [
        structure_of(trace(each, S((64, 64), dtype), weights))
        for each, dtype in ((scanned, "bfloat16"), (unrolled, "bfloat16"), (scanned, "float32"))
    ]
    assert [len(hoisted_casts(each)) for each in structures] == [1, 0, 0]


def test_what_a_loop_writes_forwards_is_not_filled_first():
    def turns(x, *, reverse):
        return jax.lax.scan(lambda carry, each: (carry, each + carry), x[0], x, reverse=reverse)[1]

    there, back = (structure_of(trace(lambda x, r=r: turns(x, reverse=r), S((8, 4), "float32"))) for r in (False, True))
    assert [there.values[each].shape for each in unfilled_stacks(there)] == [(8, 4)]
    assert not unfilled_stacks(back)


@pytest.mark.parametrize("depth", [3, 60])
def test_a_place_that_is_reached_in_many_ways_is_looked_at_once(depth):
    def turn(carry, each):
        at, stack = carry
        place = at
        for _ in range(depth):
            place = place + place  # 2 ** depth ways to the counter
        return (at + 1, jax.lax.dynamic_update_slice(stack, each[None], (place,))), None

    def turns(x):
        return jax.lax.scan(turn, (0, jnp.zeros(8)), x)[0][1]

    assert len(unfilled_stacks(structure_of(trace(turns, S((8,), "float32"))))) == 1


def test_what_a_run_sustains_is_no_part_of_the_compilers_estimate():
    plan = Plan(build("two_layer"), "rows:2 cols:4", "batch:rows; hidden:cols")
    hardware = parse_hardware("TPU v5e 2x4")
    whole, half = (
        analyze(plan, replace(hardware, chip=replace(hardware.chip, efficiency={**hardware.chip.efficiency, "sustained": share})))
        for share in (1.0, 0.5)
    )
    assert half.step_time.compute == pytest.approx(2 * whole.step_time.compute)
    assert half.step_time.estimate == pytest.approx(whole.step_time.estimate)


def test_single_numbers_take_no_kernel_of_a_tpu():
    plan = Plan(trace(lambda x: x * 2 + 1, S((), "float32")), "x:8", hardware=parse_hardware("TPU v5e 2x4"))
    assert plan.report().step_time.launch == 0
