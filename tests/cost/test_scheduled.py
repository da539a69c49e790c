"""Cycles of scheduled kernels, against libtpu's own estimate of them."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import pytest

from tests.engine.test_compile import needs_libtpu
from workbench.cost.tpu_kernel_cycles import (
    Dot,
    Registers,
    estimated_cycles,
    is_unestimated,
    kernel_cycles,
    known_rates,
    rates_for,
    work_of,
)
from workbench.engine.compile.compile_targets import CLOCKS, open_target
from workbench.engine.hlo.compiled_kernels import visit_kernels
from workbench.engine.spmd.compiled_step import lower_step
from workbench.hardware.catalogue import parse_hardware
from workbench.public_plan import Plan
from workbench.spmd.compile_to_schedule import module_of
from workbench.tracing import trace

V5E = parse_hardware("TPU v5e 1x1")
RATES = known_rates()["tpu:v5e"]
NOTHING = Registers(0, 0, 0, 0, 0, 0, ())
F32, BF16 = jnp.float32, jnp.bfloat16


def spec(*shape, dtype=F32):
    return jax.ShapeDtypeStruct(shape, dtype)


def adam(w, m, v, g):
    m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g**2
    return w - 1e-3 * m / (jnp.sqrt(v) + 1e-8), m, v


KERNELS = {
    "sum": (lambda x, y: x + y, (spec(512, 512), spec(512, 512))),
    "rounded": (lambda x: x.astype(BF16) * 2, (spec(1024, 512),)),
    "optimizer": (adam, (spec(512, 1024),) * 4),
    "reduction": (lambda x: jnp.sum(jnp.exp(x), -1), (spec(512, 1024),)),
    "product": (lambda x, w: x @ w, (spec(1024, 512), spec(512, 2048))),
    "product of halves": (lambda x, w: x @ w, (spec(1024, 512, dtype=BF16), spec(512, 2048, dtype=BF16))),
    "large product": (lambda x, w: x @ w, (spec(4096, 2048), spec(2048, 2048))),
    "convolution": (
        lambda x, w: jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")),
        (spec(8, 32, 32, 64), spec(3, 3, 64, 64)),
    ),
}


def compiled(fn, shapes):
    plan = Plan(trace(fn, *shapes, name="kernels"), "all:1", hardware=V5E)
    return module_of(lower_step(plan, open_target(plan, V5E).mesh).compile())


@needs_libtpu
@pytest.mark.parametrize("name", KERNELS)
def test_the_kernels_of_a_program_take_about_as_long_as_libtpu_says(name):
    module = compiled(*KERNELS[name])
    visits = list(visit_kernels(module))
    stated = [visit.instruction.backend_config.get("window_config", {}).get("estimated_cycles") for visit in visits]
    true = sum(int(cycles) for cycles in stated if cycles)
    assert true > 0
    assert estimated_cycles(module, visits, RATES) == pytest.approx(true, rel=0.35)


@needs_libtpu
def test_what_libtpu_does_not_estimate_is_not_counted():
    module = compiled(jnp.sort, (spec(8, 1024),))
    visits = [each for each in visit_kernels(module) if "sort" in module.printed_opcode(each.instruction)]
    assert visits
    assert all(is_unestimated(module, each) for each in visits)
    assert estimated_cycles(module, visits, RATES) == 0


@needs_libtpu
def test_of_an_array_that_is_sliced_the_slice_is_read():
    module = compiled(lambda x, i: jax.lax.dynamic_slice(x, (i, 0), (8, 128)) * 2, (spec(4096, 128), spec(dtype=jnp.int32)))
    read = max(work_of(module, each).read for each in visit_kernels(module))
    assert read < 16


def test_each_window_has_a_start_and_each_register_its_ports():
    small, large = replace(NOTHING, read=100, written=50), replace(NOTHING, read=2 * RATES.window_registers)
    assert kernel_cycles(small, RATES) == RATES.window + 100 * RATES.read
    assert kernel_cycles(large, RATES) == 2 * RATES.window + large.read * RATES.read


def test_a_product_of_whole_tiles_keeps_all_units_busy():
    dot = Dot(rows=1024, columns=512, depth=256, passes=1, rounded=0.0)
    assert dot.cycles(RATES) == 1024 * 512 * 256 / (4 * 128 * 128)
    assert replace(dot, rows=1023, columns=511).cycles(RATES) == dot.cycles(RATES)


def test_traffic_of_main_memory_is_hidden_in_part():
    traffic = replace(NOTHING, read=100, main=100 * 4096)
    assert 0 < kernel_cycles(traffic, RATES) - kernel_cycles(replace(NOTHING, read=100), RATES) < 100 * 4096 / RATES.memory_bytes


@pytest.mark.parametrize(("name", "units", "side"), [("TPU v6e 2x4", 4, 256), ("TPU v5p 2x2x2", 8, 128), ("TPU v3 2x2", 2, 128)])
def test_a_chip_that_nothing_was_fitted_on_has_its_own_matrix_units_and_bandwidth(name, units, side):
    chip = parse_hardware(name).chip
    rates = rates_for(chip, CLOCKS[chip.target])
    assert (rates.units, rates.side) == (units, side)
    assert rates.memory_bytes * CLOCKS[chip.target] == pytest.approx(0.9 * chip.memory_bandwidth, rel=0.05)
