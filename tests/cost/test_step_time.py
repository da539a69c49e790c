"""Step time equals its closed form; collectives send what a ring sends."""

import pytest

from tests.machines import flat
from workbench.analyze import analyze
from workbench.models import build
from workbench.partition.reshards import sent_bytes
from workbench.plan import Plan

HARDWARE = flat("test", flops=1e12, memory_bandwidth=1e11, sent_bandwidth=1e10, latency=1e-6, memory=1 << 34, launch=1e-7)


def test_the_step_is_arithmetic_then_memory_then_communication():
    report = analyze(Plan(build("two_layer"), "rows:2 cols:4", "batch:rows; hidden:cols"), HARDWARE)
    time = report.step_time
    assert time.arithmetic == report.flops.per_device / 1e12
    assert time.memory == report.traffic / 1e11
    all_reduced = 4 * (512 // 2 * 1024) * 2 * 3 / 4 + 4 * 2 * (1024 * 4096 // 4) * 2 * 1 / 2  # y over 4, dW and dV over 2
    assert time.communication == pytest.approx(3 * 1e-6 + all_reduced / 1e10)
    assert time.launch == report.kernels * 1e-7 > 0
    assert time.total == time.compute + time.communication + time.launch


def test_without_hardware_there_is_no_time():
    assert Plan(build("two_layer"), "all:8").report().step_time is None


@pytest.mark.parametrize(
    ("kind", "sent"),
    [("all-reduce", 1400), ("all-gather", 700), ("reduce-scatter", 700), ("all-to-all", 700), ("collective-permute", 800)],
)
def test_a_ring_of_eight_sends(kind, sent):
    assert sent_bytes(kind, 800, 8) == sent
