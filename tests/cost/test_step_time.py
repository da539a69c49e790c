"""Step time equals its closed form; collectives send what a ring sends."""

import pytest

from tests.support.machines import flat
from workbench.analysis.analyze import analyze
from workbench.models import build
from workbench.public_plan import Plan
from workbench.reports.collective import sent_bytes

HARDWARE = flat("test", flops=1e12, memory_bandwidth=1e11, sent_bandwidth=1e10, latency=1e-6, memory=1 << 34, launch=1e-7)


def test_the_step_is_its_kernels_and_its_communication():
    report = analyze(Plan(build("two_layer"), "rows:2 cols:4", "batch:rows; hidden:cols"), HARDWARE)
    time = report.step_time
    assert time.exposed == pytest.approx(sum(each.seconds * each.count for each in report.collectives))
    assert time.launch == report.kernels * 1e-7 > 0
    assert time.compute <= report.flops.per_device / 1e12 + report.traffic / 1e11
    assert time.compute >= max(report.flops.per_device / 1e12, report.traffic / 1e11)
    assert time.total == time.compute + time.exposed + time.launch


def test_without_hardware_there_is_no_time():
    assert Plan(build("two_layer"), "all:8").report().step_time is None


@pytest.mark.parametrize(
    ("kind", "sent"),
    [("all-reduce", 1400), ("all-gather", 700), ("reduce-scatter", 700), ("all-to-all", 700), ("collective-permute", 800)],
)
def test_a_ring_of_eight_sends(kind, sent):
    assert sent_bytes(kind, 800, 8) == sent


@pytest.mark.parametrize(
    ("hardware", "place"),
    [
        ("TPU v5e 2x4", "on TPU v5e 2x4"),
        ("TPU v5p 2x2x2", "on TPU v5p 2x2x2, uncalibrated, efficiencies of TPU v5e"),
        ("8 A100-80GB", "on 8 A100-80GB"),
        ("8 A100-40GB", "on 8 A100-40GB, uncalibrated, efficiencies of A100-80GB"),
        ("8 H100-500W", "on 8 H100-500W, not calibrated"),
    ],
)
def test_a_step_time_says_whose_measured_runs_it_rests_on(hardware, place):
    plan = Plan(build("two_layer"), "rows:2 cols:4", "batch:rows; hidden:cols", hardware=hardware)
    assert plan.report().step_time.place == place


def test_a_tpu_without_measured_runs_sustains_what_its_measured_relative_does():
    plan = Plan(build("two_layer"), "rows:2 cols:4", "batch:rows; hidden:cols")
    of = {each: plan.updated(hardware=each).report().step_time for each in ("TPU v5e 2x4", "TPU v4 2x2x2", "TPU v6e 2x4")}
    assert len({each.sustained for each in of.values()}) == 1
    assert of["TPU v4 2x2x2"].sustained < 1
