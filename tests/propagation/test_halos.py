"""What neighbours send each other, as planned: against what is worked out by hand, and against XLA's partitioner."""

import jax
import jax.numpy as jnp
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from jax import lax

from tests.support.moving_operators import CASES, HWIO, IMAGE, KERNEL, MESH, NHWC, conv, gradients, pool, program_of, spec, summed
from workbench.hardware.catalogue import parse_hardware
from workbench.propagation.structure.windows import DimWindow
from workbench.public_plan import Plan
from workbench.spmd.ask_partitioner import ask_partitioner
from workbench.tracing import trace

HALOS = ("convolution", "windowed reduction", "slice", "pad", "reshape", "reversal")
NOT_AS_XLA = (  # XLA has another way, or sends once what two read
    "depthwise, the kernel cut as the batch is: the image goes to it, the result comes back",
    # from JAX 0.12 on Shardy gathers a dimension of one element before a reshape, which XLA still sums
    *(["one row is summed with zeros"] if jax.__version_info__ >= (0, 12) else []),
)
BY_SHARDY = ("sort", "gather", "scatter")
"""Operators whose collectives Shardy itself tells."""
GATHERED = ("dynamic slice", "dynamic update", "top-k", "Fourier transform")
"""Operators whose operand XLA gathers along the split dimension."""


def plan_of(case):
    return Plan(program_of(case), case.mesh, case.layout)


PLAIN = [case for case in CASES if case.operator in (*HALOS, *BY_SHARDY, *GATHERED) and case.about not in NOT_AS_XLA]


@pytest.mark.parametrize("case", PLAIN, ids=str)
def test_an_operator_sends_what_is_worked_out_by_hand_and_says_so(case):
    report = plan_of(case).report()
    assert {("+".join(axes), kind): count for (axes, kind), count in report.by_axis_and_kind.items()} == case.sent
    assert [each for each in report.diagnostics if each.kind == "not counted"] == []


COUNTED = (*HALOS, *BY_SHARDY, *GATHERED, "select and scatter")
UNCOUNTED = [case for case in CASES if case.operator not in COUNTED and case.sent]


@pytest.mark.parametrize("case", UNCOUNTED, ids=str)
def test_what_is_not_counted_is_said_as_planned_and_not_where_the_partitioner_was_asked(case):
    plan = plan_of(case)
    assert [each for each in plan.report().diagnostics if each.kind == "not counted"]
    assert [each for each in plan.report("partitioned").diagnostics if each.kind == "not counted"] == []


def test_what_is_not_counted_is_named_with_the_way_to_ask_for_it():
    plan = Plan(trace(lambda x, y: jnp.concatenate([x, y[:16]]), spec(32, 16), spec(32, 16), dims={"x": "r c", "y": "r c"}), MESH, "r:b")
    (note,) = (each for each in plan.report().diagnostics if each.kind == "not counted")
    assert note.message == (
        "`concatenate` moves data along a sharded dimension, in 1 place. Shardy leaves that to XLA, so the plan does not count it. "
        'Use `plan.report("partitioned")`.'
    )


LAYOUTS = st.sampled_from((("m:8", "r:m", 8), ("a:2 b:4", "r:b", 4), ("a:2 b:4", "r:a+b", 8), ("a:4 b:2", "r:a", 4)))


@st.composite
def slices(draw, size):
    start, stop, stride = draw(st.integers(0, 3)), draw(st.integers(0, 3)), draw(st.sampled_from((1, 1, 2)))
    return lambda x: lax.slice(x, (start, 0), (size - stop, 8), (stride, 1))


@st.composite
def pads(draw, size):
    low, high, inside = draw(st.integers(0, 3)), draw(st.integers(0, 3)), draw(st.sampled_from((0, 0, 1)))
    return lambda x: lax.pad(x, jnp.float32(0), ((low, high, inside), (0, 0, 0)))


def sides(draw, length):
    """Size, stride and the two paddings of windows. In steps of two they divide over the devices as what they look at does: else XLA has
    ways of its own, as gathering all of it, which are not planned."""
    size = draw(st.integers(2, 4))
    stride, low, high = draw(st.sampled_from((1, 1, 2))), draw(st.integers(0, size - 1)), draw(st.integers(0, size - 1))
    count = (length + low + high - size) // stride + 1
    assume(stride == 1 or length % 16 == count % 8 == 0)
    return size, stride, low, high


@st.composite
def poolings(draw, size):
    of, stride, low, high = sides(draw, size)
    return lambda x: lax.reduce_window(x, 0.0, lax.add, (of, 1), (stride, 1), ((low, high), (0, 0)))


@st.composite
def convolutions(draw, size):
    of, stride, low, high = sides(draw, size)
    numbers, kernel = ("NHC", "HIO", "NHC"), jnp.ones((of, 8, 4))
    return lambda x: lax.conv_general_dilated(x[None], kernel, (stride,), ((low, high),), dimension_numbers=numbers)


@st.composite
def pooling_gradients(draw, size):
    of, stride, low, high = sides(draw, size)

    def pooled(x):
        return lax.reduce_window(x, -jnp.inf, lax.max, (of, 1), (stride, 1), ((low, high), (0, 0)))

    return jax.grad(lambda x: jnp.sum(jnp.sin(pooled(x))))


@pytest.mark.compile
@pytest.mark.parametrize("operators", [slices, pads, poolings, pooling_gradients, convolutions])
def test_plain_windows_send_what_the_partitioner_answers(operators):
    @settings(max_examples=10, deadline=None)
    @given(st.data())
    def law(data):
        mesh, layout, parts = data.draw(LAYOUTS)
        size = parts * data.draw(st.integers(4, 6))
        fn = data.draw(operators(size))
        plan = Plan(trace(lambda x: jnp.sum(jnp.sin(fn(jnp.sin(x)))), spec(size, 8), dims={"x": "r c"}), mesh, layout)
        assert plan.report().by_axis_and_kind == ask_partitioner(plan).by_axis_and_kind

    law()


@pytest.mark.parametrize(
    ("window", "count"), [(DimWindow(3, 1, 1, 1), 16), (DimWindow(3, 2, 0, 1), 8), (DimWindow(3, 1, 1, 1, dilation=2), 14)]
)
def test_windows_are_counted_as_convolutions_count_them(window, count):
    assert window.count(16) == count


def foreign(x):
    return jax.ffi.ffi_call("foreign", jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


def test_an_operation_without_a_rule_is_named():
    program = trace(foreign, spec(32, 16), dims={"x": "t d"})
    found = {each.kind: each.message for each in Plan(program, MESH, "t:b").report().diagnostics}
    assert found["no sharding rule"].startswith("Shardy has no rule for `custom_call`, in 1 place:")
    planned, settled = (Plan(program, MESH, "t:b").report(*tier) for tier in ((), ("partitioned",)))
    assert planned.by_axis_and_kind == settled.by_axis_and_kind != {}
    assert found["no sharding rule"] == {each.kind: each.message for each in settled.diagnostics}["no sharding rule"]
    assert "no sharding rule" not in {each.kind for each in Plan(program, MESH).report().diagnostics}


def test_a_convolution_that_is_taken_apart_as_a_product_is_counted():
    """One by one: the gradient of its kernel, cut as the optimizer's state is (ZeRO), sums over the batch."""
    shapes, dims = (spec(8, 16, 16, 8), spec(1, 1, 8, 8)), {"x": "n h w c", "w": "_ _ i o"}
    report = Plan(trace(gradients(one_by_one), *shapes, dims=dims), MESH, "n:a; w=[-, -, a, -]").report()
    assert "not counted" not in {each.kind for each in report.diagnostics}


def one_by_one(x, w):
    return lax.conv_general_dilated(x, w, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def test_borders_take_time_and_stand_in_the_timeline():
    report = Plan(trace(conv(), IMAGE, KERNEL, dims=HWIO), MESH, "h:b", hardware=parse_hardware("TPU v5e 2x4")).report()
    assert [(each.kind, each.axes, each.count) for each in report.collectives] == [("collective-permute", ("b",), 2)]
    assert report.collectives[0].seconds > 0
    assert report.step_time.communication > 0
    assert [each.kind for each in report.timeline.events if each.stream == "b"] == ["collective-permute"] * 2


def test_borders_in_a_loop_are_sent_each_turn():
    def fn(x, w):
        return lax.fori_loop(0, 5, lambda _, y: jnp.tanh(conv()(y, w)), x)

    report = Plan(trace(fn, IMAGE, spec(3, 3, 4, 4), dims=HWIO), MESH, "h:b").report()
    assert [(each.kind, each.payload, each.count) for each in report.collectives] == [("collective-permute", 2048, 10)]


def test_halves_are_sent_as_halves_and_by_a_cpu_as_wholes():
    def sent(hardware):
        program = trace(jax.grad(summed(pool(3, 1, 1, 1))), spec(8, 32, 16, 4, dtype="bfloat16"), dims=NHWC)
        plan = Plan(program, MESH, "h:b", hardware=hardware and parse_hardware(hardware))
        return plan.report().by_axis_and_kind[("b",), "collective-permute"]

    assert sent("8 CPU") == 2 * sent(None)


def test_a_prefix_sum_along_a_cut_dimension_sends_borders_and_nothing_of_what_is_empty():
    """JAX takes every second element until one is left, and of that every second."""
    program = trace(lambda x: lax.associative_scan(jnp.add, x), spec(8, 16), dims={"x": "r c"})
    planned, partitioned = (Plan(program, "a:2", "r:a").report(tier).by_axis_and_kind for tier in ("planned", "partitioned"))
    assert planned[("a",), "collective-permute"] == partitioned[("a",), "collective-permute"] == 256
    assert planned == partitioned


@pytest.mark.parametrize(("mesh", "layout"), [("a:4", "r:a"), ("a:2 b:4", "r:b; c:a")])
def test_a_scan_of_a_recurrence_along_a_cut_dimension_sends_the_padding_of_odd_halves(mesh, layout):
    def joined(one, two):
        return one[0] * two[0], two[0] * one[1] + two[1]

    program = trace(lambda a, b: lax.associative_scan(joined, (a, b))[1], spec(32, 8), spec(32, 8), dims={"a": "r c", "b": "r c"})
    planned, partitioned = (Plan(program, mesh, layout).report(tier) for tier in ("planned", "partitioned"))
    assert planned.by_axis_and_kind == partitioned.by_axis_and_kind
    assert "`slice`" not in "".join(each.message for each in planned.diagnostics if each.kind == "not counted")


def test_tpus_round_the_borders_of_convolutions_and_send_those_of_one_value_once():
    """A kernel's gradient reads the borders that the convolution read; its sum over windows is not folded with that over the batch."""
    program = trace(jax.grad(lambda w, x: jnp.sum(jnp.tanh(conv()(x, w)))), KERNEL, IMAGE, dims={"x": "n h w c"})
    report = Plan(program, "data:2 model:4", "n:data; h:model", hardware="TPU v5e 2x4").report()
    assert report.by_axis_and_kind == {
        (("model",), "collective-permute"): 2 * (8 // 2 * 16 * 4) * 2,
        (("data",), "all-reduce"): 3 * 3 * 4 * 8 * 4,
        (("model",), "all-reduce"): 3 * 3 * 4 * 8 * 4,
    }
