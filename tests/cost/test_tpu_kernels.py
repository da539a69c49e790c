"""Which kernels XLA:TPU makes of what, and how long they take: the planner's rules, and that libtpu itself follows them."""

import importlib.util
from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import pytest

from workbench.analysis.analyze import analyze
from workbench.cost.fusion.fuse_operations import kernels_of
from workbench.cost.kernel_times import ROW_LAUNCHES
from workbench.cost.tile_padding import passes_volume
from workbench.engine import compile_plan
from workbench.hardware.catalogue import parse_hardware
from workbench.propagation import structure_of
from workbench.public_plan import Plan
from workbench.tracing import trace

pytestmark = pytest.mark.compile

S = jax.ShapeDtypeStruct
ROWS = 256
TPU = parse_hardware("TPU v5e 1x1")
needs_libtpu = pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason="libtpu, the compiler for TPUs, is not installed")


def floats(*shape):
    return S(shape, "float32")


def convolved(x, kernel):
    return jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def look_up(table, places):
    """The gradient of an embedding that looks up one token at a time, as Equinox has it."""

    def total(table):
        rows = jax.vmap(lambda place: jax.lax.dynamic_slice(table, (place, 0), (1, table.shape[1])))(places)
        return (rows**2).sum()

    return jax.grad(total)(table)


class Rule(NamedTuple):
    """A program, and how many kernels it is on a TPU, of which so many multiply."""

    function: object
    arguments: tuple
    kernels: int
    multiplying: int


RULES = {
    "a slice of a product alone is multiplied": Rule(lambda x, w: (x @ w)[:, :-1].max(-1), (floats(4, 256, 512), floats(512, 256)), 1, 1),
    "a slice of several is read from memory": Rule(
        lambda x, w, y: ((h := x @ w)[:, :256] + y, h[:, 256:] * y), (floats(256, 512), floats(512, 512), floats(256, 256)), 2, 1
    ),
    "a matrix and a vector are multiplied element by element": Rule(lambda w, v: w @ v, (floats(512, 1024), floats(1024)), 1, 0),
    "two vectors are, too": Rule(jnp.outer, (floats(512), floats(1024)), 1, 0),
    "a convolution reads its kernel backwards": Rule(
        lambda x, kernel: convolved(x, jnp.flip(kernel, (0, 1))), (floats(8, 16, 16, 128), floats(3, 3, 128, 128)), 1, 1
    ),
}


@needs_libtpu
@pytest.mark.parametrize("name", RULES)
def test_kernels_are_those_that_the_compiler_makes(name):
    rule = RULES[name]
    plan = Plan(trace(rule.function, *rule.arguments), "x:1", hardware=TPU)
    compiled = [each for each in compile_plan(plan).kernels if each.kind not in ("prefetch", "copy")]
    planned = kernels_of(structure_of(plan.program), recomputes=True)
    assert (planned.count, len({each.kernel for each in planned.dots})) == (rule.kernels, rule.multiplying)
    assert (len(compiled), sum(each.flops > 0 for each in compiled)) == (rule.kernels, rule.multiplying)


@needs_libtpu
@pytest.mark.parametrize(("rows", "multiplying"), [(1, 0), (2, 1), (8, 1)])
def test_one_row_is_multiplied_on_the_vector_unit_and_two_on_the_matrix_units(rows, multiplying):
    """As in decoding: by libtpu's own estimate one row takes many times as long as two."""
    plan = Plan(trace(lambda x, w: x @ w, S((rows, 4096), "bfloat16"), S((4096, 3584), "bfloat16")), "x:1", hardware=TPU)
    compiled, planned = compile_plan(plan).kernels, analyze(plan).kernel_costs
    assert sum(each.flops > 0 for each in compiled) == sum(each.flops > 0 for each in planned) == multiplying
    found, expected = (max(each.seconds or 0.0 for each in kernels) for kernels in (compiled, planned))
    assert (found > 100e-6) == (expected > 100e-6) == (rows == 1)
    if rows == 1:  # of more, libtpu fetches the weights beside what comes before, and counts the kernel alone
        assert expected == pytest.approx(found, rel=0.35)


@needs_libtpu
def test_rows_found_by_several_coordinates_are_added_one_by_one():
    plan = Plan(trace(look_up, floats(2048, 512), S((ROWS,), "int32")), "x:1", hardware=TPU)
    in_loops = [each for each in compile_plan(plan).kernels if each.count == ROWS and each.seconds]
    assert len(in_loops) in (4, 5)  # libtpu 0.0.50 fuses a slice into the next kernel, 0.0.42 does not
    scatter = next(each for each in analyze(plan).kernel_costs if each.kind == "scatter")
    assert scatter.launch > ROWS * ROW_LAUNCHES * TPU.chip.launch
    assert scatter.total_seconds == pytest.approx(
        sum(each.seconds * each.count for each in in_loops), rel=0.3 if len(in_loops) == 5 else 0.35
    )


@pytest.mark.parametrize(
    ("sizes", "cycles"),
    [((8 * 16 * 16, 128, 128, 9), 4608), ((8 * 8 * 8, 256, 256, 9), 4608), ((8 * 32 * 32, 64, 64, 9), 18432)],
)
def test_a_convolution_is_a_product_of_whole_channels_for_each_place_of_its_kernel(sizes, cycles):
    """The cycles that libtpu estimates of convolutions, less the 256 of every product; 65,536 multiply-adds a cycle."""
    rows, columns, channels, passes = sizes
    assert passes * passes_volume(rows, columns, channels, (128, 128)) / 128**2 / 4 == cycles


def test_a_convolution_takes_so_many_passes_as_its_kernel_has_places():
    structure = structure_of(trace(convolved, floats(8, 16, 16, 128), floats(3, 3, 128, 128)))
    assert [op.work.passes for op in structure.ops if op.work.flops] == [9]


def test_the_gradient_of_a_kernel_sums_over_all_its_places_at_once():
    def total(kernel, x):
        return (convolved(x, kernel) ** 2).sum()

    structure = structure_of(trace(jax.grad(total), floats(3, 3, 128, 128), floats(8, 16, 16, 128)))
    assert [op.work.passes for op in structure.ops if op.work.flops] == [9, 1]


def test_what_the_compiler_gives_no_estimate_of_is_in_the_step_and_not_in_the_estimate():
    picked = analyze(Plan(trace(lambda x, i: x[i], floats(4096, 512), S((1024,), "int32")), "x:1", hardware=TPU)).step_time
    assert picked.unestimated > 0
    assert picked.estimate + picked.unestimated == pytest.approx(picked.compute * picked.sustained + picked.launch)


def test_a_step_that_settles_keeps_what_the_compiler_says_nothing_of():
    def step(x, i, w):
        return x[i] @ w

    arguments = floats(4096, 512), S((1024,), "int32"), floats(512, 512)
    time = analyze(Plan(trace(step, *arguments), "x:1", hardware=TPU)).step_time
    assert 0 < time.unestimated < time.total
    settled = time.scaled(3.0)
    assert settled.compute * settled.sustained + settled.launch == pytest.approx(3 * time.estimate + time.unestimated)
    assert replace(time, unestimated=0.0).scaled(3.0).total == pytest.approx(3 * time.total)
