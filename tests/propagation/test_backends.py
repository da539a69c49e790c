"""The same shardings, as each compiler takes them: what XLA:TPU, XLA:GPU and XLA:CPU were seen to make of them."""

import jax
import jax.numpy as jnp
import pytest

import workbench as wb
from workbench.hardware.catalogue import parse_hardware
from workbench.models import build
from workbench.propagation.xla_backends import CPU, GPU, NO_HARDWARE, TPU, backend_of


def spec(*shape, dtype="float32"):
    return jax.ShapeDtypeStruct(shape, dtype)


def sent(program, mesh, layout, hardware=None):
    plan = wb.Plan(program, mesh, layout)
    hardware = hardware and parse_hardware(hardware)
    return dict(wb.Plan(program, mesh, layout, hardware=hardware).report().by_axis_and_kind if hardware else plan.report().by_axis_and_kind)


@pytest.mark.parametrize(
    ("hardware", "backend"), [("TPU v5e 2x4", TPU), ("8 H100", GPU), ("8 CPU", CPU), (None, NO_HARDWARE)], ids=["tpu", "gpu", "cpu", "none"]
)
def test_a_back_end_goes_with_its_hardware(hardware, backend):
    assert backend_of(hardware and parse_hardware(hardware)) == backend


def tied(dtype="float32"):
    """The gradient of a matrix that is used twice is a sum of two sums over the batch."""

    def gradient(params, x):
        def loss(w):
            return jnp.sum(jnp.tanh(x @ w) @ w.T)

        return jax.grad(loss)(params)

    return wb.trace(gradient, spec(64, 128, dtype=dtype), spec(32, 64, dtype=dtype), dims={"x": "batch d_in", "params": "d_in d_out"})


def test_two_sums_that_are_only_added_are_reduced_once_on_a_tpu():
    whole = 4 * 64 * 128
    assert sent(tied(), "data:8", "batch:data") == {(("data",), "all-reduce"): 2 * whole}
    assert sent(tied(), "data:8", "batch:data", "TPU v5e 2x4") == {(("data",), "all-reduce"): whole}


def test_a_cpu_reduces_two_byte_floats_as_four_byte_ones():
    plain, wide = (sent(tied("bfloat16"), "data:8", "batch:data", hardware) for hardware in (None, "8 CPU"))
    assert wide == {key: 2 * count for key, count in plain.items()}


def of_layers(mesh, layout, hardware, path):
    """The largest payloads of a small GPT's collectives at one place, by mesh axes and kind."""
    plan = wb.Plan(build("gpt"), mesh, layout, hardware=hardware)
    found = sorted((each for each in plan.report().collectives if each.path == path), key=lambda each: each.payload)
    return {(each.axes, each.kind): each.payload for each in found}


FSDP = "data:8", "batch:data; d_model:data; @embedding/add=[data, ?, ?]"
THREE = "data:2 fsdp:2 model:2", "batch:data+fsdp; d_model:fsdp; d_ff:model; heads:model; @embedding/add=[data+fsdp, ?, ?]"
WEIGHT = 4 * 64 * 256  # d_model x d_ff, in float32


@pytest.mark.parametrize(("hardware", "width"), [(None, 1), ("TPU v5e 2x4", 2), ("8 H100", 1)], ids=["none", "tpu", "gpu"])
def test_a_tpu_gathers_in_bfloat16_what_a_product_rounds_to_it(hardware, width):
    gathers = of_layers(*FSDP, hardware, "layers/dynamic_index_in_dim/squeeze")
    assert gathers == {(("data",), "all-gather"): WEIGHT // width}


@pytest.mark.parametrize(("precision", "width"), [("default", 2), ("highest", 1)])
def test_a_product_of_high_precision_is_gathered_as_it_is(precision, width):
    program = wb.trace(
        lambda params, x: jnp.matmul(x, params, precision=precision),
        spec(64, 128),
        spec(512, 64),
        dims={"x": "batch d_in", "params": "d_in d_out"},
    )
    assert sent(program, "data:8", "batch:data; d_out:data; x=[data, -]", "TPU v5e 2x4") == {
        (("data",), "all-gather"): 4 * 64 * 128 // width
    }


def test_a_sum_of_which_a_part_is_kept_is_scattered_before_the_rest_is_reduced():
    place, whole = "grad/layers/mlp/down/dot_general", WEIGHT // 2
    for hardware in ("TPU v5e 2x4", "8 H100"):
        assert of_layers(*THREE, hardware, place) == {(("fsdp",), "reduce-scatter"): whole, (("data",), "all-reduce"): whole // 2}


def test_every_habit_is_one_of_some_back_end():
    """A field that no back end differs in would be none."""
    assert all(any(getattr(each, name) != value for each in (TPU, GPU, CPU)) for name, value in NO_HARDWARE._asdict().items())
