"""Dots and convolutions on GPUs: sums split over idle units, Winograd's algorithm, groups, and a library's calls, which nothing joins."""

from dataclasses import replace
from math import prod

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.cost.fusion.fuse_operations import kernels_of
from workbench.cost.gpu_dots import SPLITS, BlockedDot, convolution_seconds, has_tensor_cores, product_seconds
from workbench.cost.tile_padding import blocks_volume
from workbench.hardware.catalogue import parse_hardware
from workbench.hardware.hardware import Chip
from workbench.propagation import structure_of
from workbench.propagation.structure.operation_work import Convolution
from workbench.public_plan import Plan
from workbench.tracing import trace

S = jax.ShapeDtypeStruct
P100, H100 = (replace(parse_hardware(f"1 {name}").chip, efficiency={}) for name in ("P100", "H100"))
CHIPS = {name: parse_hardware(f"1 {name}").chip for name in ("P40", "P100", "V100", "T4", "A100", "H100", "B200")}


def unsplit(dot: BlockedDot, dtype: str, chip: Chip) -> float:
    volume = blocks_volume(*dot, chip.matmul_tile, narrow=not has_tensor_cores(chip, dtype))
    return 2 * volume / (chip.peak(dtype) * chip.efficiency_of("matmul"))


def seconds_of(function, *arguments, hardware: str) -> float:
    report = Plan(trace(function, *arguments), "x:1", hardware=hardware).report()
    return report.step_time.total - report.step_time.launch


def convolve(x, w, stride=1, groups=1):
    numbers = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, w, (stride,) * 2, "SAME", dimension_numbers=numbers, feature_group_count=groups)


def gradient_of_inputs(x, w, dy):
    return jax.linear_transpose(lambda x: convolve(x, w), x)(dy)[0]


def gradient_of_kernel(x, w, dy):
    return jax.linear_transpose(lambda w: convolve(x, w), w)(dy)[0]


def plain(window: tuple[int, int] = (3, 3), groups: int = 1) -> Convolution:
    return Convolution(groups, window, features=3, places=(1, 2), is_plain=True)


# Split sums.


def test_a_deep_sum_of_few_blocks_is_split_over_idle_units():
    """Two blocks of 128 x 256 on 132 units: 64 of these work on 32 parts of each sum; the parts are written and read."""
    dot = BlockedDot(1, 256, 256, 1 << 20)
    assert unsplit(dot, "bfloat16", H100) > 20 * product_seconds(dot, "bfloat16", H100)
    parts = min(2 * blocks_volume(*dot, H100.matmul_tile, splits) / H100.peak("bfloat16") for splits in SPLITS)
    added = product_seconds(dot, "bfloat16", H100) - parts
    assert added == pytest.approx(2 * 32 * 256 * 256 * 4 / H100.memory_bandwidth + H100.launch)


def test_parts_that_memory_would_carry_too_slowly_are_not_made():
    slow = replace(H100, name="slow memory", memory_bandwidth=1e9)
    dot = BlockedDot(1, 256, 256, 4096)
    assert product_seconds(dot, "bfloat16", slow) == unsplit(dot, "bfloat16", slow)


def test_a_product_of_whole_waves_is_not_split():
    dot = BlockedDot(1, 128 * 12, 256 * 11, 4096)
    assert product_seconds(dot, "bfloat16", H100) == unsplit(dot, "bfloat16", H100)


sizes = st.integers(1, 1 << 14)


@given(
    st.sampled_from(sorted(CHIPS)),
    st.sampled_from(["float32", "bfloat16", "float16"]),
    st.builds(BlockedDot, st.integers(1, 64), sizes, sizes, sizes),
)
def test_a_split_is_never_slower_and_never_faster_than_all_units_at_their_peak(name, dtype, dot):
    chip = CHIPS[name]
    least = 2 * prod(dot) / (chip.peak(dtype) * chip.efficiency_of("matmul"))
    assert least * (1 - 1e-9) <= product_seconds(dot, dtype, chip) <= unsplit(dot, dtype, chip)


@pytest.mark.parametrize("hardware", ["1 P100", "1 A100", "1 H100"])
def test_the_gradient_of_a_kernel_is_about_as_fast_as_the_convolution_itself(hardware):
    """64 channels at 112 x 112: the result is 576 x 64, five blocks, and the sum is over 401,408 places."""
    x, w = S((32, 112, 112, 64), "float32"), S((3, 3, 64, 64), "float32")
    forward = seconds_of(convolve, x, w, hardware=hardware)
    backward = seconds_of(gradient_of_kernel, x, w, x, hardware=hardware)
    assert backward < 2 * forward


# Winograd.


@pytest.mark.parametrize("of", [convolve, gradient_of_inputs, gradient_of_kernel])
def test_a_plain_convolution_of_3_x_3_and_its_gradients_take_fewer_multiplications_than_they_count(of):
    """F(4 x 4, 3 x 3) multiplies 36 times for 144: with many channels a P100 is faster than its peak would allow."""
    x, w = S((32, 56, 56, 256), "float32"), S((3, 3, 256, 256), "float32")
    seconds = seconds_of(of, x, w, *(() if of is convolve else (x,)), hardware="1 P100")
    peak = 2 * 32 * 56 * 56 * 9 * 256 * 256 / P100.peak("float32")
    assert peak / 4 < seconds < peak / 1.5


@pytest.mark.parametrize(
    ("function", "kernel", "taps"),
    [(convolve, (1, 1, 256, 256), 1), (lambda x, w: convolve(x, w, stride=2), (3, 3, 256, 256), 9 / 4), (convolve, (5, 5, 256, 256), 25)],
)
def test_no_other_convolution_does(function, kernel, taps):
    seconds = seconds_of(function, S((32, 56, 56, 256), "float32"), S(kernel, "float32"), hardware="1 P100")
    assert seconds >= 2 * 32 * 56 * 56 * taps * 256 * 256 / P100.peak("float32")


def test_tensor_cores_multiply_as_it_stands():
    x, w = S((32, 56, 56, 256), "bfloat16"), S((3, 3, 256, 256), "bfloat16")
    assert seconds_of(convolve, x, w, hardware="1 H100") >= 2 * 32 * 56 * 56 * 9 * 256 * 256 / H100.peak("bfloat16")
    assert [has_tensor_cores(CHIPS[name], "float32") for name in CHIPS] == [False, False, False, False, True, True, True]
    assert [has_tensor_cores(CHIPS[name], "float16") for name in CHIPS] == [False, False, True, True, True, True, True]


def test_one_small_picture_is_not_transformed():
    """At 6 x 6 the transformed kernel is larger than all else: with 1,152 channels the algorithm changes with the size of the batch."""
    summed = 9 * 1152
    few, many = (convolution_seconds(plain(), (count, 6, 6, 1152), summed, "float32", P100) for count in (1, 64))
    assert few == product_seconds(BlockedDot(1, 36, 1152, summed), "float32", P100)
    assert many < product_seconds(BlockedDot(1, 64 * 36, 1152, summed), "float32", P100)


# Implicit GEMM: channels, groups, one tap.


def test_a_convolution_of_one_tap_is_a_product():
    found = convolution_seconds(plain((1, 1)), (32, 14, 14, 512), 1024, "bfloat16", H100)
    assert found == product_seconds(BlockedDot(1, 32 * 14 * 14, 512, 1024), "bfloat16", H100)


def test_three_channels_of_a_picture_are_eight_to_a_tensor_core():
    shape = (32, 112, 112, 256)
    three, eight = (convolution_seconds(plain((7, 7)), shape, 49 * channels, "bfloat16", H100) for channels in (3, 8))
    assert three == eight
    three, eight = (convolution_seconds(plain((7, 7)), shape, 49 * channels, "float32", P100) for channels in (3, 8))
    assert three < 0.65 * eight


def test_pictures_that_the_gradient_of_a_kernel_sums_over_are_no_channels():
    gradient = Convolution(1, (64, 64), features=3, places=(0, 1), is_plain=True)
    one, eight = (convolution_seconds(gradient, (3, 3, 512, 512), 64 * 64 * count, "bfloat16", H100) for count in (1, 8))
    assert one < eight / 4


@pytest.mark.parametrize("hardware", ["1 P100", "1 A100", "1 H100"])
def test_a_depthwise_convolution_takes_about_as_long_as_its_traffic(hardware):
    x, w = S((32, 56, 56, 512), "float32"), S((3, 3, 1, 512), "float32")
    chip = parse_hardware(hardware).chip
    traffic = 2 * 4 * 32 * 56 * 56 * 512 / (chip.memory_bandwidth * chip.efficiency_of("operands"))
    assert traffic <= seconds_of(lambda x, w: convolve(x, w, groups=512), x, w, hardware=hardware) < 2 * traffic


def test_groups_are_products_of_their_own():
    found = convolution_seconds(plain(groups=4), (64, 14, 14, 512), 9 * 128, "bfloat16", H100)
    assert found == product_seconds(BlockedDot(4, 64 * 14 * 14, 128, 9 * 128), "bfloat16", H100)


@pytest.mark.parametrize(
    ("function", "kernel", "read"),
    [
        (convolve, (3, 3, 8, 16), Convolution(1, (3, 3), 3, (1, 2), is_plain=True)),
        (lambda x, w: convolve(x, w, stride=2), (3, 3, 8, 16), Convolution(1, (3, 3), 3, (1, 2), is_plain=False)),
        (lambda x, w: convolve(x, w, groups=8), (5, 1, 1, 16), Convolution(8, (5, 1), 3, (1, 2), is_plain=True)),
    ],
)
def test_what_a_convolution_is_is_read_off_the_program(function, kernel, read):
    program = trace(function, S((4, 8, 8, 8), "float32"), S(kernel, "float32"))
    assert [op.work.convolution for op in structure_of(program).ops if op.work.convolution] == [read]


def test_the_gradient_of_a_kernel_has_the_picture_as_its_window():
    gradient = trace(gradient_of_kernel, *(S(shape, "float32") for shape in ((4, 8, 8, 8), (3, 3, 8, 16), (4, 8, 8, 16))))
    (found,) = (op for op in structure_of(gradient).ops if op.work.convolution)
    assert (found.work.convolution.window, found.work.convolution.is_plain) == ((8, 8), True)


# A library's call.


@pytest.mark.parametrize(("recomputes", "kernels"), [(True, 1), (False, 3)])
def test_nothing_fuses_into_a_convolution_but_on_a_tpu(recomputes, kernels):
    def rectified(x, w):
        return jnp.tanh(convolve(jnp.exp(x), w))

    structure = structure_of(trace(rectified, S((4, 8, 8, 8), "float32"), S((3, 3, 8, 8), "float32")))
    assert kernels_of(structure, recomputes=recomputes).count == kernels
