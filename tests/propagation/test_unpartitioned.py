"""Operations that XLA does not partition: every device gathers what they read and does all of their work, in every tier."""

import jax
import jax.numpy as jnp
import pytest

from workbench.propagation.structure.operation_work import SPLITS_FFT_BATCHES
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


TRANSFORMS = [(transform, IMAGES, "row h w c", "`fft`"), (filter_rows, ROWS, "row n", "`fft`")]
CASES = [
    (convolve(4), IMAGES, "row h w c", "convolution of groups"),
    (convolve(8, (2, 2)), IMAGES, "row h w c", "convolution of groups"),
    *(() if SPLITS_FFT_BATCHES else TRANSFORMS),
]
SPLIT = [
    (convolve(1), IMAGES, "row h w c"),
    (convolve(32), IMAGES, "row h w c"),
    *((fn, spec, dims) for fn, spec, dims, _ in (TRANSFORMS if SPLITS_FFT_BATCHES else ())),
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


@pytest.mark.parametrize(("fn", "spec", "dims"), SPLIT)
def test_one_group_and_groups_of_one_channel_are_partitioned(fn, spec, dims):
    one = plan(fn, spec, dims)
    report = one.report()
    assert (report.sent, report.flops.per_device * 8) == (0, report.flops.unique)
    assert "not counted" not in {each.kind for each in report.notes}
    assert one.report("partitioned").sent == 0


def test_a_tpu_splits_the_batch_of_both():
    assert plan(convolve(4), IMAGES, "row h w c", "TPU v5e 2x4").report().sent == 0


@pytest.mark.parametrize(("layout", "hardware"), [("row:data", None), ("row:data; expert:model", None), ("row:data", "TPU v5e 2x4")])
def test_a_router_sends_what_xlas_partitioner_sends_for_its_choice(layout, hardware):
    def route(x, w):
        return jax.lax.top_k(jnp.tanh(x @ w), 2)

    shapes = jax.ShapeDtypeStruct((64, 32), "float32"), jax.ShapeDtypeStruct((32, 16), "float32")
    one = Plan(trace(route, *shapes, dims={"x": "row d", "w": "d expert"}), "data:2 model:4", layout, hardware=hardware)
    assert one.report().by_axis_and_kind == one.report("partitioned").by_axis_and_kind
    assert ("not partitioned" in {each.kind for each in one.report().notes}) == (hardware is None)


def spectrum(x):
    return jnp.fft.fft(jnp.exp(x))


def spectrum_of_real(x):
    return jnp.fft.fft(x.real)


def half_spectrum(x):
    return jnp.abs(jnp.fft.rfft(x.real))


def signal(x):
    return jnp.fft.irfft(jnp.exp(x), n=62)


COMPLEX = jax.ShapeDtypeStruct((8, 32), "complex64")
FOURIER = [
    (spectrum, "n:m"),
    (spectrum, "row:d; n:m"),
    (spectrum_of_real, "n:m"),
    (half_spectrum, "n:m"),
    (half_spectrum, "row:d; n:m"),
    (signal, "row:d"),
]


@pytest.mark.parametrize(("hardware", "function", "layout"), [(chips, *case) for chips in (None, "TPU v5e 2x4") for case in FOURIER])
def test_a_transform_along_a_sharded_dimension_is_gathered_and_on_a_tpu_summed(hardware, function, layout):
    one = Plan(trace(function, COMPLEX, dims={"x": "row n"}), "d:2 m:4", layout, hardware=hardware)
    assert one.report().by_axis_and_kind == one.report("partitioned").by_axis_and_kind
    assert "not counted" not in {each.kind for each in one.report().notes}


CUBE = jax.ShapeDtypeStruct((4, 16, 32), "complex64")


@pytest.mark.parametrize(
    ("function", "mesh", "layout"),
    [
        (jnp.fft.fft, "m:4", "n:m"),
        (jnp.fft.fft2, "m:4", "n:m"),
        (lambda x: jnp.fft.fft(jnp.sin(x), axis=1), "m:4", "row:m"),
        (jnp.fft.fft, "d:2 m:2", "n:d+m"),
        (jnp.fft.fft, "d:2 m:2", "n:m"),
        (jnp.fft.ifft, "m:4", "n:m"),
        (lambda x: jax.lax.fori_loop(0, 3, lambda _, y: jnp.fft.fft(y), x), "m:4", "n:m"),
    ],
)
def test_a_complex_transform_over_all_devices_is_done_in_parts(function, mesh, layout):
    def transformed(x):
        return function(x)

    one = Plan(trace(transformed, CUBE, dims={"x": "batch row n"}), mesh, layout)
    assert one.report().by_axis_and_kind == one.report("partitioned").by_axis_and_kind
