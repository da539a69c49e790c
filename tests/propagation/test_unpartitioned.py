"""Operations that XLA does not partition: every device gathers what they read and does all of their work, in every tier."""

import jax
import jax.numpy as jnp
import pytest

from workbench.public_plan import Plan
from workbench.tracing import trace

LAYOUT = ("NHWC", "HWIO", "NHWC")
IMAGES, ROWS = jax.ShapeDtypeStruct((16, 8, 8, 32), "float32"), jax.ShapeDtypeStruct((16, 64), "float32")


def convolve(groups, strides=(1, 1)):
    kernel = jnp.ones((3, 3, 32 // groups, 32))

    def function(x):
        return jax.lax.conv_general_dilated(x, kernel, strides, "SAME", None, None, LAYOUT, feature_group_count=groups)

    return function


def transform(x):
    return jnp.fft.fft2(x)


def filter_rows(x):
    return jnp.fft.irfft(jnp.fft.rfft(x)[:, :16], n=64)


CASES = [
    (convolve(4), IMAGES, "row h w c", "convolution of groups"),
    (convolve(8, (2, 2)), IMAGES, "row h w c", "convolution of groups"),
    (transform, IMAGES, "row h w c", "`fft`"),
    (filter_rows, ROWS, "row n", "`fft`"),
]


def plan(fn, spec, dims, hardware=None):
    return Plan(trace(fn, spec, dims={"x": dims}), "data:8", "row:data", hardware=hardware)


@pytest.mark.parametrize(("fn", "spec", "dims", "named"), CASES)
def test_all_of_it_is_gathered_and_done_by_every_device(fn, spec, dims, named):
    one = plan(fn, spec, dims)
    planned, partitioned = one.report(), one.report("partitioned")
    assert planned.sent == partitioned.sent > 0
    for report in (planned, partitioned):
        assert report.flops.per_device == report.flops.unique
        assert report.memory.peak == pytest.approx(one.compile().memory.peak, rel=0.15)
        (note,) = (each for each in report.notes if each.kind == "not partitioned")
        assert note.message.startswith(f"XLA does not partition a {named} along its batch, in ")
        assert "not counted" not in {each.kind for each in report.notes}


@pytest.mark.parametrize("fn", [convolve(1), convolve(32)])
def test_one_group_and_groups_of_one_channel_are_partitioned(fn):
    report = plan(fn, IMAGES, "row h w c").report()
    assert (report.sent, report.flops.per_device * 8) == (0, report.flops.unique)


def test_a_tpu_splits_the_batch_of_both():
    assert plan(convolve(4), IMAGES, "row h w c", "TPU v5e 2x4").report().sent == 0
