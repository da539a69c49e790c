"""What operators send by themselves, against what is worked out by hand; the compiled truth is in `tests/engine`."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from tests.own_operators import (
    BY_SHARDY,
    CASES,
    HWIO,
    IMAGE,
    KERNEL,
    MESH,
    NHWC,
    conv,
    gradients,
    program_of,
    spec,
    summed,
    two_pools,
)
from workbench.catalogue import parse_hardware
from workbench.edits import PlaceDim
from workbench.partition.halo import exchange
from workbench.partition.own_communication import ALL_OPERATORS
from workbench.partition.own_communication.windows import Window
from workbench.plan import Plan
from workbench.tracing import trace


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_operator_sends_what_is_worked_out_by_hand(case):
    found = Plan(program_of(case), case.mesh, case.layout).report().by_axis_and_kind
    assert {("+".join(axes), kind): count for (axes, kind), count in found.items()} == case.sent


def test_every_member_of_the_family_is_in_the_table():
    assert {case.operator for case in CASES} == {each.name for each in ALL_OPERATORS} | set(BY_SHARDY)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_is_counted_is_not_said_to_be_uncounted(case):
    assert [each for each in Plan(program_of(case), case.mesh, case.layout).report().diagnostics if each.kind == "not counted"] == []


@pytest.mark.parametrize(
    ("part", "left", "right", "sizes"),
    [
        (4, (1, 1, 1), (1, 1, 1), [1, 1]),
        (4, (0, 0, 0), (0, 0, 0), []),
        (4, (6,) * 8, (6,) * 8, [2, 4, 4, 2]),  # two neighbours either way
        (4, (0, -1, -2), (1, 2, 3), [2]),  # what a pad at the end shifts: the first part needs one more, the second two
    ],
)
def test_borders_are_as_long_as_the_longest(part, left, right, sizes):
    wanted = part + max(a + b for a, b in zip(left, right, strict=True))
    assert [piece.size for piece in exchange(part, left, right, left[0], wanted, part * len(left))] == sizes


def test_borders_as_long_as_everything_are_no_borders():
    assert exchange(4, (0, 4, 8), (8, 4, 0), 0, 12, 12) is None


@pytest.mark.parametrize(("window", "count"), [(Window(3, 1, 1, 1), 16), (Window(3, 2, 0, 1), 8), (Window(3, 1, 1, 1, dilation=2), 14)])
def test_windows_are_counted_as_convolutions_count_them(window, count):
    assert window.count(16) == count


def notes(fn, shapes, dims, layout, mesh=MESH, hardware=None):
    plan = Plan(trace(fn, *shapes, dims=dims), mesh, layout, hardware=hardware and parse_hardware(hardware))
    return plan, {each.kind: each for each in plan.report().diagnostics if each.kind not in ("unused axis", "duplicated work")}


def transform(x):
    return jnp.fft.fft(x)


def ragged(x, w, sizes):
    return lax.ragged_dot(x, w, sizes)


def test_what_a_tpu_makes_of_a_cut_transform_is_not_told():
    shapes, dims = (spec(32, 16, dtype="complex64"),), {"x": "r c"}
    _, found = notes(transform, shapes, dims, "c:b", hardware="TPU v5e 2x4")
    assert "`fft` moves data along a sharded dimension, in 1 place." in found["not counted"].message
    assert not notes(transform, shapes, dims, "r:b", hardware="TPU v5e 2x4")[1]


def test_a_tpu_rounds_the_borders_of_a_convolution_and_sends_them_once():
    sent = {}
    for hardware in (None, parse_hardware("TPU v5e 2x4")):
        plan = Plan(trace(gradients(conv()), IMAGE, KERNEL, dims=HWIO), MESH, "n:a; h:b", hardware=hardware)
        sent[hardware and "tpu"] = plan.report().by_axis_and_kind[("b",), "collective-permute"]
    assert sent == {None: 2 * (1024 + 2048 + 1024), "tpu": 2 * (512 + 1024)}


def test_an_operation_without_a_rule_is_named():
    shapes = (spec(32, 16), spec(4, 16, 8), spec(4, dtype="int32"))
    _, found = notes(ragged, shapes, {"x": "t d", "w": "e d f"}, "t:b")
    assert found["no sharding rule"].message.startswith("Shardy has no rule for `ragged_dot`, in 1 place:")
    assert not notes(ragged, shapes, {"x": "t d", "w": "e d f"}, "")[1]


def test_a_convolution_that_xla_doubles_is_told_and_mended():
    plan, found = notes(gradients(conv()), (IMAGE, KERNEL), HWIO, "h:b")
    note = found["wrong result"]
    assert "2 times too large" in note.message
    assert note.subject == "grad/conv_general_dilated"
    assert note.edits == (PlaceDim("n", ("a",)),)
    assert "wrong result" not in {each.kind for each in note.edits[0].apply(plan).report().diagnostics}


def test_a_kernel_that_makes_xla_double_a_convolution_is_left_whole():
    plan, found = notes(conv(), (IMAGE, KERNEL), HWIO, "h:b; o:a", "a:4 b:2")
    assert "4 times too large" in found["wrong result"].message
    assert found["wrong result"].edits == (PlaceDim("o"),)
    assert "wrong result" not in {each.kind for each in found["wrong result"].edits[0].apply(plan).report().diagnostics}


def test_two_poolings_that_xla_pads_alike_are_told_and_mended():
    plan, found = notes(two_pools(lax.max, -jnp.inf), (IMAGE,), NHWC, "n:a; h:b")
    assert found["wrong result"].message == (
        "XLA makes the padding of this operation and of `reduce_window_sum` once: both read the same value through the same windows, but "
        "they pad it with different numbers, and one of the two comes out wrong. Leave whole what `b` splits here, or let one of them read "
        "other windows."
    )
    assert found["wrong result"].edits == (PlaceDim("h"),)
    assert "wrong result" not in {each.kind for each in found["wrong result"].edits[0].apply(plan).report().diagnostics}


def test_a_convolution_that_is_taken_apart_as_a_product_is_counted():
    """One by one: the gradient of its kernel, cut as the optimiser's state is (ZeRO), sums over the batch."""
    shapes, dims = (spec(8, 16, 16, 8), spec(1, 1, 8, 8)), {"x": "n h w c", "w": "_ _ i o"}
    _, found = notes(gradients(one_by_one), shapes, dims, "n:a; w=[-, -, a, -]")
    assert "not counted" not in found


def one_by_one(x, w):
    return lax.conv_general_dilated(x, w, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def test_a_gradient_that_stops_the_compiler_is_told():
    _, found = notes(gradients(conv(3, 1, 1)), (IMAGE, spec(1, 3, 4, 8)), HWIO, "n:a; h:b")
    assert "negative padding (-1) of a dilated operand (3)" in found["compiler stops"].message


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
        plan = Plan(trace(jax.grad(summed(lambda x: jnp.roll(x, 1, 1))), spec(8, 32, 16, 4, dtype="bfloat16"), dims=NHWC), MESH, "h:b")
        return plan.updated(hardware=hardware and parse_hardware(hardware)).report().by_axis_and_kind[("b",), "collective-permute"]

    assert sent("8 CPU") == 2 * sent(None)
