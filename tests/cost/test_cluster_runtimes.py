"""What published runs on clusters say of runtimes: float8 pays, weights are read below the memory's bandwidth, old attention is slow."""

import pytest

import workbench as wb
from workbench.analysis.prediction_intervals import StepInterval, step_intervals
from workbench.reports.figure_ranges import STEP


def llama(**more):
    return wb.models.build("decoder", preset="llama3-8b", seq=8192, batch=8, layers=2, **more)


def step(program, runtime):
    return wb.Plan(program, "data:8", "batch:data", hardware=f"8 H100, {runtime}").report()


@pytest.mark.parametrize("runtime", ["eager", "CUDA graphs", "Megatron Core"])
def test_products_in_float8_make_a_step_shorter(runtime):
    plain, float8 = (step(llama(float8=scaling), runtime).seconds for scaling in ("", "tensorwise"))
    assert float8 < 0.97 * plain


def test_attention_of_2022_is_slower_and_the_option_can_be_taken_back():
    new, old = (step(llama(), runtime).seconds for runtime in ("eager", "eager, flash 1"))
    assert 1.02 * new < old < 1.6 * new
    hardware = wb.Plan(llama(), "data:8", "batch:data", hardware="8 H100, eager, flash 1").hardware
    assert hardware.with_runtime("XLA").chip.runtime_shares == {}


@pytest.mark.parametrize(("chip", "peak"), [("A100", 2.04e12), ("H100", 3.35e12)])
def test_decoding_reads_weights_below_the_bandwidth_of_the_memory(chip, peak):
    program = wb.models.build("decoder_decode", preset="llama2-7b", batch=1, seq=128, context=148)
    report = wb.Plan(program, "model:1", "", hardware=f"1 {chip}, CUDA graphs").report()
    assert 0.5 * peak < 13.48e9 / report.seconds < 0.9 * peak


def test_a_step_has_a_range_where_runs_like_it_were_published_and_is_not_calibrated_elsewhere():
    known = step(llama(), "eager")
    assert known.seconds in known.ranges[STEP]
    unknown = wb.Plan(llama(), "data:8", "batch:data", hardware="8 H200, Megatron Core").report()
    assert ("Megatron Core", "training", "cuda:H200") not in step_intervals()
    assert STEP not in unknown.ranges
    assert "not calibrated" in unknown.step_time.calibration


def test_a_range_grows_outside_of_the_times_that_were_published():
    interval = StepInterval(("cuda:H100",), 20, 1.0, 10.0, 0.0, 0.1, 2.0)
    inside, outside = interval.range_of(5.0), interval.range_of(1000.0)
    assert outside.high / outside.low > (inside.high / inside.low) ** 2
