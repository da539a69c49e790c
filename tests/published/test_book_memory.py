"""Memory and parameters of the worked questions of How to Scale Your Model, from plans.

Source: jax-ml/scaling-book, edition 7728895 of 2025-12-15 and `gpus.md` at 1a55377: part 3 (Sharded matrices), 5 (Training), 6 (Training
LLaMA 3), 12 (GPUs). GB are 1e9 bytes there.
"""

import math

import jax.numpy as jnp
import pytest

import workbench as wb
from tests.support.book_layers import checkpointed, one_array
from tests.support.mixed_precision import local_bytes, mixed_precision_step
from tests.support.residual_bytes import count_residual_bytes
from workbench.core.tensor import Role
from workbench.hardware.catalogue import parse_hardware
from workbench.reports.report import Report

STATE = (Role.PARAMETER, Role.OPTIMIZER_STATE)


def test_an_array_over_two_axes_and_copied_over_a_third():
    """Part 3, quiz: int8[128, 2048] as [I_XY, J] on X 2, Y 8, Z 2 takes 16,384 bytes a device and 512 KiB in all."""
    plan = wb.Plan(one_array(128, 2048, dtype=jnp.int8), "X:2 Y:8 Z:2", "a=[X+Y, -]")
    array = plan.report().arguments[0]
    assert array.local_shape == (8, 2048)
    assert array.local_bytes == 16_384
    assert array.local_bytes * plan.mesh.size == 512 * 1024


def test_a_float32_array_in_halves_of_sixteen():
    """Part 3, quiz: fp32[1024, 4096] as [I_XY, J] on X 8, Y 2: fp32[64, 4096], 1 MiB."""
    array = wb.Plan(one_array(1024, 4096, dtype=jnp.float32), "X:8 Y:2", "a=[X+Y, -]").report().arguments[0]
    assert array.local_shape == (64, 4096)
    assert array.local_bytes == 2**20


def test_an_array_that_one_axis_splits_and_two_copy():
    """Part 3, question 1: [I_X, J, K] on X 4, Y 8, Z 2 takes 16 times one copy of it in all."""
    plan = wb.Plan(one_array(64, 32, 16), "X:4 Y:8 Z:2", "a=[X, -, -]")
    array = plan.report().arguments[0]
    assert array.local_bytes * plan.mesh.size == 16 * array.tensor.bytes


def _parameters(report: Report, *scopes: str) -> int:
    """Of the arguments in these scopes of the model, all of them without any."""
    found = (each.tensor for each in report.arguments if each.tensor.role is Role.PARAMETER)
    return sum(math.prod(each.shape) for each in found if not scopes or any(scope in each.path for scope in scopes))


def _report(preset: str, mesh: str = "data:1", layout: str = "") -> Report:
    return wb.Plan(mixed_precision_step(preset, 8, 1024), mesh, layout).report()


def test_the_parameters_of_llama_2_13b():
    """Part 5, question 1: 8.5e9 + 4.2e9 + 0.39e9 = 13.1e9. It writes the vocabulary's 2VD as 0.3e9, then as 0.39e9; it is 0.33e9, and all
    of them 13.0e9."""
    report = _report("llama2-13b")
    assert _parameters(report, "mlp/") / 1e9 == pytest.approx(8.5, rel=0.002)
    assert _parameters(report, "attention/") / 1e9 == pytest.approx(4.2, rel=0.002)
    assert _parameters(report, "embedding/", "head/") == 2 * 32_000 * 5_120 == 327_680_000
    assert _parameters(report) / 1e9 == pytest.approx(13.1, rel=0.01)


def test_the_parameters_of_llama_3_70b():
    """Part 6: 56.3e9 + 2.1e9 + 12e9 = 70.4e9; all three are rounded down, and of normalisation it counts nothing."""
    report = _report("llama3-70b")
    assert _parameters(report, "mlp/") / 1e9 == pytest.approx(56.3, rel=0.002)
    assert _parameters(report, "embedding/", "head/") / 1e9 == pytest.approx(2.1, rel=0.001)
    assert _parameters(report, "attention/") / 1e9 == pytest.approx(12, rel=0.01)
    assert _parameters(report) / 1e9 == pytest.approx(70.4, rel=0.003)


def _checkpoints(layers: int, tokens: int, width: int, widths: tuple[int, ...]) -> int:
    """Bytes of the results of products that all layers keep: as many times what one layer more keeps."""
    kept = [count_residual_bytes(wb.Plan(checkpointed(count, tokens, width, widths), "data:1")) for count in (1, 2)]
    return layers * (kept[1] - kept[0])


def test_the_memory_of_llama_2_13b_at_16_million_tokens():
    """Part 5, question 2: 130 GB of parameters and Adam's moments, 42 TB of results of the three matrices of each MLP."""
    assert local_bytes(_report("llama2-13b"), *STATE) / 1e9 == pytest.approx(130, rel=0.003)
    assert _checkpoints(40, 16_000_000, 5_120, (13_824, 13_824)) / 1e12 == pytest.approx(42, rel=0.002)


def test_the_memory_of_llama_3_70b_at_4_million_tokens():
    """Part 6: 140 GB, 560 GB and 20.9 TB of four results a layer as wide as the stream: 21.6 TB, 225 TPU v5p of 96 GB, 2.4 GB a chip on
    8,960. The edition of February 2025 has three results a layer, 16.5 TB and 171 chips. (Of 4e6 tokens; 4M are 4.19e6 elsewhere.)"""
    state = local_bytes(_report("llama3-70b"), *STATE)
    assert state / 1e9 == pytest.approx(700, rel=0.01)
    whole = state + _checkpoints(80, 4_000_000, 8_192, (8_192,) * 3)
    assert whole / 1e12 == pytest.approx(21.6, rel=0.005)
    assert whole / 96e9 == pytest.approx(225, rel=0.005)
    assert whole / 8_960 / 1e9 == pytest.approx(2.4, rel=0.01)
    older = state + _checkpoints(80, 4_000_000, 8_192, (8_192,) * 2)
    assert older / 1e12 == pytest.approx(16.5, rel=0.005)
    assert older / 96e9 == pytest.approx(171, rel=0.02)


def test_the_state_of_70b_needs_nine_h100():
    """Part 12, quiz 5, question 2: 700 GB are held by 9 GPUs of 80 GB; 8 do not hold them however they are split."""
    assert math.ceil(local_bytes(_report("llama3-70b"), *STATE) / 80e9) == 9
    plan = wb.Plan(mixed_precision_step("llama3-70b", 8, 1024), "data:8", hardware="8 H100").recipe("data_parallel").recipe("zero_3")
    assert local_bytes(plan.report(), *STATE) > parse_hardware("8 H100").chip.memory
    assert not plan.report().memory.fits


def test_the_state_of_70b_does_not_fit_with_tensor_parallelism_over_a_node_alone():
    """The same question, 3.1: 700 GB / 8 = 87.5 GB on each of 8."""
    report = _report("llama3-70b", "model:8", "kv_heads:model; d_ff:model; vocab:model")
    assert local_bytes(report, *STATE) / 1e9 == pytest.approx(87.5, rel=0.01)
    assert local_bytes(report, *STATE) > parse_hardware("8 H100").chip.memory
