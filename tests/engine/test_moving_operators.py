"""Operators that move data along their dimensions, on eight devices: what XLA's partitioner answers is compiled, and what is run is the
unsharded result, but for the faults that the report tells."""

import functools
import importlib.util
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.choosing import parametrize_drawn
from tests.support.moving_operators import (
    CASES,
    HWIO,
    IMAGE,
    KERNEL,
    MESH,
    NHWC,
    PADDED_ALIKE,
    conv,
    gradients,
    pool,
    program_of,
    results,
    two_pools,
)
from workbench.analysis.analyze import analyze
from workbench.core.jax_installation import SHARES_PADDINGS
from workbench.engine import compile_plan
from workbench.engine.hlo.compiled_collectives import collectives_of
from workbench.engine.spmd.compiled_step import compile_step
from workbench.engine.spmd.device_mesh import host_value
from workbench.errors import PartitionError
from workbench.plan.edits import ShardDim
from workbench.public_plan import Plan
from workbench.reports.compiled import payload_by_axis_and_kind
from workbench.spmd.ask_partitioner import ask_partitioner
from workbench.spmd.compile_to_schedule import module_of
from workbench.tracing import trace

pytestmark = pytest.mark.compile

needs_libtpu = pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason="libtpu, the compiler for TPUs, is not installed")


class Ran(NamedTuple):
    compiled: dict[tuple[tuple[str, ...], str], int]  # bytes by mesh axes and kind
    sharded: list[np.ndarray]
    unsharded: list[np.ndarray]


@functools.cache
def ran(case):
    return run(plan_of(CASES[case]))


def plan_of(case):
    return Plan(program_of(case), case.mesh, case.layout)


def wrong_results(plan):
    """What the report says once the partitioner has answered."""
    return [each for each in analyze(plan, answer=ask_partitioner(plan, "cpu")).diagnostics if each.kind == "wrong result"]


def run(plan):
    step = compile_step(plan)
    found = step.advance(step.arguments(0), None)
    compiled = payload_by_axis_and_kind(collectives_of(module_of(step.compiled), plan.mesh))
    expected = results(plan.program.step.call, plan.program.step.feed(0))
    return Ran(compiled, [host_value(each) for each in found], expected)


def pytest_generate_tests(metafunc):
    """A third in every run, each operator among them, and convolutions of both kinds that XLA doubles and that it does not. What the
    partitioner answers of all is in `tests/spmd/test_operators.py`."""
    parametrize_drawn(metafunc, "case", range(len(CASES)), lambda number: [CASES[number].operator], lambda number: str(CASES[number]))
    parametrize_drawn(metafunc, "convolution", CONVOLUTIONS, lambda each: [(each.groups, each.is_doubled)], str)


def test_the_compiled_program_sends_what_the_partitioner_answers(case):
    assert ran(case).compiled == ask_partitioner(plan_of(CASES[case]), "cpu").by_axis_and_kind


def test_the_sharded_operator_is_the_unsharded_one(case):
    for ours, expected in zip(ran(case).sharded, ran(case).unsharded, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=2e-4, atol=1e-4 * max(np.abs(expected).max(initial=0), 1e-6))


class Convolution(NamedTuple):
    """Of so many groups, and whether the jaxlib of today made it too large."""

    groups: int
    mesh: str
    layout: str
    is_doubled: bool

    def __str__(self):
        return f"{self.groups} {self.mesh} {self.layout}"


CONVOLUTIONS = (
    Convolution(1, "a:2 b:4", "h:b", True),
    Convolution(1, "a:2 b:4", "n:a; h:b", False),
    Convolution(1, "a:2 b:4", "h:b; o:a", True),
    Convolution(1, "a:2 b:4", "h:b; c:a", True),
    Convolution(1, "a:4 b:2", "h:b; o:a", True),
    Convolution(1, "a:4 b:2", "h:b; c:a", True),
    Convolution(1, "a:2 b:2 c:2", "n:a; h:b", True),
    Convolution(1, "a:2 b:2 c:2", "h:b; w:c; o:a", True),
    Convolution(1, "a:2 b:2 c:2", "h:b; c:a; n:c", False),
    Convolution(4, "a:2 b:4", "n:a", True),
    Convolution(4, "a:2 b:4", "n:a; c:b", False),
    Convolution(4, "a:2 b:4", "h:a", True),
    Convolution(4, "a:2 b:4", "c:a", False),
    Convolution(4, "a:2 b:2 c:2", "n:a; c:b", True),
    Convolution(4, "a:2 b:2 c:2", "n:a+b; c:c", False),
    Convolution(4, "a:2 b:2 c:2", "n:a; h:b", True),
)


def test_xla_makes_a_convolution_too_large_where_the_plan_says_so_and_nowhere_else(convolution):
    """A fact about jaxlib, which the diagnostic `wrong result` tells. Where this fails, XLA is mended: that diagnostic can go."""
    groups, mesh, layout, _ = convolution
    kernel, names = ((3, 3, 4, 16), "_ _ c o") if groups == 1 else ((3, 3, 1, 4), "_ _ _ c")
    fn = functools.partial(both, groups=groups)
    plan = Plan(trace(fn, IMAGE, jax.ShapeDtypeStruct(kernel, "float32"), dims={"x": "n h w c", "w": names}), mesh, layout)
    found = run(plan)
    assert found.compiled == ask_partitioner(plan, "cpu").by_axis_and_kind
    wrong = [
        np.abs(ours - expected).max() > 0.1 * np.abs(expected).max() for ours, expected in zip(found.sharded, found.unsharded, strict=True)
    ]
    assert any(wrong) == bool(wrong_results(plan))


@pytest.mark.parametrize(("fn", "argument", "names", "is_mistaken"), [pytest.param(*each, id=name) for name, *each in PADDED_ALIKE])
def test_xla_takes_one_padding_for_another_where_the_plan_says_so_and_nowhere_else(fn, argument, names, is_mistaken):
    """A fact about jaxlib before 0.12, as above. The diagnostic can go with the last of these versions."""
    is_mistaken &= SHARES_PADDINGS
    plan = Plan(trace(fn, argument, dims={"x": names}), MESH, "h:b")
    found = run(plan)
    assert found.compiled == ask_partitioner(plan, "cpu").by_axis_and_kind
    wrong = [not np.allclose(ours, expected, 1e-4, 1e-4) for ours, expected in zip(found.sharded, found.unsharded, strict=True)]
    notes = [each for each in plan.report().diagnostics if each.kind == "wrong result"]
    assert any(wrong) == bool(notes) == is_mistaken
    if is_mistaken:
        mended = run(notes[0].edits[0].apply(plan))
        for ours, expected in zip(mended.sharded, mended.unsharded, strict=True):
            np.testing.assert_allclose(ours, expected, 1e-4, 1e-4)


def notes(fn, layout, mesh=MESH, shapes=(IMAGE, KERNEL), dims=HWIO):
    plan = Plan(trace(fn, *shapes, dims=dims), mesh, layout)
    (note,) = wrong_results(plan)
    return plan, note


def test_a_convolution_that_xla_doubles_is_told_and_mended():
    plan, note = notes(gradients(conv()), "h:b")
    assert note.message == (
        "XLA makes this convolution 2 times too large: it sums the parts of its image over all devices, those along `a` too, which hold "
        "the same parts. Let `a` split the batch, or keep the image whole."
    )
    assert note.subject == "grad/conv_general_dilated"
    assert note.edits == (ShardDim("n", ("a",)),)
    assert wrong_results(note.edits[0].apply(plan)) == []


def test_a_kernel_that_makes_xla_double_a_convolution_is_left_whole():
    plan, note = notes(conv(), "h:b; o:a", "a:4 b:2")
    assert "4 times too large" in note.message
    assert note.edits == (ShardDim("o"),)
    assert wrong_results(note.edits[0].apply(plan)) == []


def test_two_poolings_that_xla_pads_alike_are_told_and_mended(monkeypatch):
    monkeypatch.setattr("workbench.analysis.diagnose_operators.SHARES_PADDINGS", True)
    plan, note = notes(two_pools(jax.lax.max, -jnp.inf), "n:a; h:b", shapes=(IMAGE,), dims=NHWC)
    assert note in plan.report().diagnostics  # before the partitioner is asked, too
    assert note.message == (
        "XLA makes the padding of this operation and of `reduce_window_sum` once: both read the same value through the same windows, but "
        "they pad it with different numbers, and one of the two comes out wrong. Leave whole what `b` splits here, or let one of them read "
        "other windows."
    )
    assert note.edits == (ShardDim("h"),)
    assert wrong_results(note.edits[0].apply(plan)) == []


def test_a_gradient_that_stops_the_compiler_is_told_with_ways_out():
    shapes = IMAGE, jax.ShapeDtypeStruct((1, 3, 4, 8), "float32")
    plan = Plan(trace(gradients(conv(3, 1, 1)), *shapes, dims=HWIO, name="strided"), MESH, "n:a; h:b")
    with pytest.raises(PartitionError, match=r"partitioner ended by SIGABRT while it partitioned strided\. Last output: ") as caught:
        plan.partition()
    assert "choose a stride and padding whose gradient needs no negative padding" in caught.value.ways_out[0]
    assert plan.report().sent > 0  # as planned


def both(x, w, groups):
    """The result and both gradients of a convolution, of a linear one: what is wrong in one does not spread."""
    result, pull = jax.vjp(conv(groups=groups), x, w)
    return (result, *pull(jnp.ones_like(result)))


def test_a_deep_spatial_network_is_the_unsharded_one():
    """M19: blocks with borders, several layers deep, strided, dilated and uneven (23 rows over 4)."""

    def network(x, w):
        y = jnp.tanh(conv(2)(x[:, :46], w))
        return jnp.mean(jnp.square(conv(1, 3, 3, dilation=3)(y[..., :4], w)), axis=(1, 2))

    shapes = (jax.ShapeDtypeStruct((8, 48, 16, 4), "float32"), KERNEL)
    plan = Plan(trace(jax.value_and_grad(lambda x, w: network(x, w).sum(), argnums=1), *shapes, dims=HWIO), MESH, "n:a; h:b")
    found = run(plan)
    for ours, expected in zip(found.sharded, found.unsharded, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-3, atol=1e-4)


@needs_libtpu
def test_a_tpu_sends_what_its_compiler_answers_for_it():
    """Borders rounded to two bytes and sent once for a convolution and its weight gradient; the fault of the latter, too."""

    def fn(x, w):
        return gradients(conv())(x, w), pool(3, 2, 0, 1)(jnp.sin(x)), jnp.roll(x, 5, 1), jnp.cumsum(x, 1), x[:, 4:20]

    plan = Plan(trace(fn, IMAGE, KERNEL, dims=HWIO), MESH, "h:b", hardware="TPU v5e 2x4")
    answer = plan.partition().by_axis_and_kind
    assert answer == compile_plan(plan).by_axis_and_kind
    assert answer[("a", "b"), "all-reduce"] == 1152


def test_a_running_sum_along_a_cut_dimension_takes_the_memory_that_the_compiler_says():
    """What is gathered, and of that the window that a device's part of the sum reaches over."""
    program = trace(lambda x: jnp.cumsum(x, 0), jax.ShapeDtypeStruct((512, 256), "float32"), dims={"x": "rows _"})
    plan = Plan(program, "all:8", "rows:all")
    found = compile_step(plan).compiled.memory_analysis()
    peak = found.argument_size_in_bytes + found.output_size_in_bytes + found.temp_size_in_bytes
    for answer in (None, ask_partitioner(plan, "cpu")):
        assert analyze(plan, answer=answer).memory.peak == pytest.approx(peak, rel=0.02)
