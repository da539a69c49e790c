"""The trainings that How to Scale Your Model works through: LLaMA-2 13B and LLaMA-3 70B on TPU v5p and H100, DeepSeek-V3 on H800.

Source: jax-ml/scaling-book, edition 7728895 of 2025-12-15 and `gpus.md` at 1a55377: part 4, question 7; part 5, question 3; part 6;
part 12, quiz 5, question 2. FLOPs are the planner's 6 x parameters x tokens of the traced model.
"""

import math

import pytest

import workbench as wb
from tests.support.book_layers import at_peak, backward, checkpointed, comms_seconds, forward, math_seconds
from tests.support.mixed_precision import local_bytes, mixed_precision_step
from tests.support.residual_bytes import count_residual_bytes
from workbench.core.tensor import Role
from workbench.hardware.catalogue import parse_hardware
from workbench.models import build
from workbench.reports.report import Report

STATE = (Role.PARAMETER, Role.OPTIMIZER_STATE)
DAY = 86_400
MIXED = "x=[X, Y]; params/w_in=[X, Y]; params/w_out=[Y, X]; result=[X, Y]"
DATA = "x=[X, -]; hidden=[X, -]; grad_out=[X, -]; result/0/*=[-, -]; result/1=[X, -]"
NARROW, WIDE = (5_120, 13_824), (8_192, 28_672)
"""D and F of 13B and of 70B."""


def flops_of_a_token(preset: str) -> float:
    report = wb.Plan(mixed_precision_step(preset, 8, 1024), "data:1").report()
    return report.flops.six_nd / (8 * 1024)


def test_13b_cannot_be_copied_to_every_chip():
    """Part 5, question 3.1: parameters and state are 130 GB, a chip has 96."""
    report = wb.Plan(mixed_precision_step("llama2-13b", 8, 1024), "data:8", "batch:data", hardware="TPU v5p 2x2x2").report()
    assert local_bytes(report, *STATE) / 1e9 == pytest.approx(130, rel=0.003)
    assert not report.memory.fits


def test_13b_fits_fully_sharded():
    """Question 3.2: 7.86 TB of results of three matrices a layer at 3M tokens, 8 TB with the state, of 393 TB in 4,096 chips."""
    kept = [count_residual_bytes(wb.Plan(checkpointed(layers, 3_000_000, NARROW[0], (NARROW[1],) * 2), "data:1")) for layers in (1, 2)]
    checkpoints = 40 * (kept[1] - kept[0])
    state = local_bytes(wb.Plan(mixed_precision_step("llama2-13b", 8, 1024), "data:1").report(), *STATE)
    assert checkpoints / 1e12 == pytest.approx(7.86, rel=0.001)
    assert (checkpoints + state) / 1e12 == pytest.approx(8, rel=0.002)
    assert checkpoints + state < parse_hardware("TPU v5p 16x16x16").chip.memory * 4096


def _data_parallel_balance(tokens: int, chips: int, sizes: tuple[int, int], slice_: str) -> float:
    """Arithmetic over summing gradients, which fully sharded layers do for the same seconds."""
    program = backward(tokens // chips * chips, *sizes)
    report = wb.Plan(program, f"X:{chips}", DATA, hardware=at_peak(f"TPU v5p {slice_}, ici=0 us")).report()
    return math_seconds(report) / comms_seconds(report)


def test_13b_fully_sharded_is_bound_by_communication():
    """Question 3.2: 850 x 4,096 = 3.48M tokens are needed, and there are 3M."""
    assert _data_parallel_balance(3_000_000, 4096, NARROW, "16x16x16") == pytest.approx(3 / 3.48, rel=0.002)
    assert _data_parallel_balance(3_481_600, 4096, NARROW, "16x16x16") == pytest.approx(1, rel=0.002)


def _mixed_report(B: int, sizes: tuple[int, int], X: int, Y: int, slice_: str) -> Report:
    """A layer forward, its weights over X, its products over Y."""
    return wb.Plan(forward(B, *sizes), f"X:{X} Y:{Y}", MIXED, hardware=at_peak(f"TPU v5p {slice_}, ici=0 us")).report()


def _mixed(B: int, sizes: tuple[int, int], X: int, Y: int, slice_: str) -> tuple[float, float]:
    """Seconds of arithmetic, and of the longer communication."""
    report = _mixed_report(B, sizes, X, Y, slice_)
    return math_seconds(report), max(comms_seconds(report, "X"), comms_seconds(report, "Y"))


@pytest.mark.parametrize(
    ("B", "sizes", "X", "slice_", "best"),
    [
        (3_000_320, NARROW, 1024, "4x32x32", 1333),
        (1873 * 2240, (8_960, 28_672), 2240, "4x40x56", 1618),
        (48_000, (8_192, 32_768), 16, "4x4x4", 13.7),
    ],
)
def test_the_best_amount_of_sharding(B, sizes, X, slice_, best):
    """Parts 5 and 6: X_opt = sqrt(B / F x M_X / M_Y x N): 1,333 for 13B on 4,096 chips, 1,618 for 70B on 8,960, and 13.7 for 48,000
    tokens on 64, which the book writes as 13.9 (and the edition of February 2025, which adds both communications, as 31.7). As gathers of
    weights grow with X and those of activations shrink, a plan with any X says where the two are equal. (Of 70B the width is made one
    that 2,240 divides; both grow with it.)"""
    report = _mixed_report(B, sizes, X, 4, slice_)
    assert X * math.sqrt(comms_seconds(report, "Y") / comms_seconds(report, "X")) == pytest.approx(best, rel=0.002)


def test_13b_is_laid_out_best_on_1024_by_4():
    """Question 3.3: X_opt = sqrt(2 x 3e6 x 4,096 / 13,824) = 1,333, so 1,024 x 4, which arithmetic binds. Other slices of 4,096 chips with
    closed rings wait longer, and 512 x 8 more than it computes."""
    B = 3_000_320
    times = {X: _mixed(B // X * X, NARROW, X, 4096 // X, slice_) for X, slice_ in ((1024, "4x32x32"), (512, "8x16x32"), (256, "16x16x16"))}
    assert min(times, key=lambda X: times[X][1]) == 1024
    assert times[1024][0] > times[1024][1]
    assert times[512][0] < times[512][1]


def test_a_step_of_13b_takes_300_ms():
    """Question 3.3: 6 x 3e6 x 13e9 / (4,096 x 4.6e14 x 0.4), which is 310 ms; the book rounds it to 300."""
    seconds = flops_of_a_token("llama2-13b") * 3e6 / (4096 * parse_hardware("TPU v5p 16x16x16").chip.peak("bfloat16") * 0.4)
    assert seconds == pytest.approx(0.310, rel=0.01)
    assert seconds == pytest.approx(0.300, rel=0.05)


def test_70b_takes_44_days_on_a_pod():
    """Part 6: 4.2e11 FLOPs a token, 15e12 tokens on 8,960 TPU v5p at 40 %; of 70e9 parameters, where there are 70.6e9."""
    assert flops_of_a_token("llama3-70b") == pytest.approx(4.2e11, rel=0.01)
    days = flops_of_a_token("llama3-70b") * 15e12 / (8960 * parse_hardware("TPU v5p 16x20x28").chip.peak("bfloat16") * 0.4) / DAY
    assert days == pytest.approx(44, rel=0.02)


def test_70b_fully_sharded_is_bound_by_communication_on_a_pod():
    """Part 6: 4M tokens on 8,960 chips are 468 each, below 850."""
    assert _data_parallel_balance(4 * 2**20, 8960, WIDE, "16x20x28") == pytest.approx(468 / 850, rel=0.003)


def test_70b_is_laid_out_best_on_2048_by_4():
    """Part 6: X_opt = sqrt(2 x 4.19e6 x 8,960 / 28,672) = 1,618, so 2,048 x 4, of which no communication is longer than arithmetic. On the
    8,192 chips that 2,048 x 4 are, 1,024 x 8 waits longer; the pod has 8,960."""
    times = {X: _mixed(4 * 2**20, WIDE, X, 8192 // X, slice_) for X, slice_ in ((2048, "4x32x64"), (1024, "8x32x32"), (512, "16x16x32"))}
    assert min(times, key=lambda X: times[X][1]) == 2048
    assert times[2048][0] > times[2048][1]


@pytest.mark.parametrize(("sizes", "published", "whole"), [(WIDE, 113, 159), (NARROW, 235, 319)])
def test_the_fewest_tokens_of_mixed_layouts(sizes, published, whole):
    """Parts 5 and 6: 2,550**2 / 2F = 113 and 235, with Y = F / 2,550 = 11.2 and 5.4. With the rings that there are, of 8 and 4, it is 159
    and 319: 2,550 / 2Y."""
    Y = 8 if sizes == WIDE else 4
    slice_ = f"{Y}x32x32"
    above, below = (_mixed(tokens * 1024 * Y, sizes, 1024, Y, slice_) for tokens in (whole + 2, whole - 2))
    assert above[0] > above[1]
    assert below[0] < below[1]
    assert whole / published == pytest.approx(sizes[1] / 2550 / Y, rel=0.01)


def test_70b_takes_40_days_on_4096_h100():
    """Part 12, quiz 5, question 2.2: 15e12 tokens at 45 % of 990e12 FLOP/s."""
    chip = parse_hardware("512 nodes of 8 H100").chip
    days = flops_of_a_token("llama3-70b") * 15e12 / (4096 * chip.peak("bfloat16") * 0.45) / DAY
    assert days == pytest.approx(40, rel=0.012)


def _flops_of_products(report: Report) -> int:
    """Of all products but the attention's core, which 6 x parameters leaves out."""
    return sum(each.flops * each.count for each in report.products if "/core/" not in each.path)


def test_the_utilisation_of_deepseek_v3():
    """Part 4, question 7: 37e9 active parameters, 14.8e12 tokens, 2.79e6 hours: 21.7 % of 1,513e12 FLOP/s in eight bits. The products of
    the traced model have 36.6e9 (rows of the embedding are looked up). The rate is an H100's for PCIe, half of 3,026 with sparsity; that
    of an H800 with NVLink, in the catalogue, is 1,979, and of it 16.4 % were used."""
    active = _flops_of_products(wb.Plan(build("mixture", preset="deepseek-v3", batch=1, seq=4096), "data:1").report()) / 4096 / 6
    assert active / 1e9 == pytest.approx(37, rel=0.015)
    used = 6 * active * 14.8e12 / (2.79e6 * 3600)
    assert used / 1.513e15 == pytest.approx(0.217, rel=0.015)
    assert used / parse_hardware("8 H800").chip.peak("float8_e4m3fn") == pytest.approx(0.164, rel=0.01)
