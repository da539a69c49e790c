"""Where the compiled kernels take another time than the planned ones, the workbench says which and why."""

from dataclasses import replace

import pytest

from tests.support.details import with_details
from tests.support.programs import mlp_report
from workbench.analysis.difference_causes import COPIED, FUSED, IN_PIECES, KERNEL_CAUSES, RATE, RECOMPUTED
from workbench.analysis.tier_comparison import Comparison
from workbench.reports.compiled import Compiled, CompiledKernel, CompiledMemory
from workbench.reports.kernel import Kernel
from workbench.reports.step_time import StepTime


def planned(seconds, flops=0, count=1, path="layers/mlp/dot_general"):
    return Kernel(path, "dot_general", "model.py:7", "bfloat16", count, flops, 0, 100, seconds, 0.0, 0.0)


def found(seconds, flops=0, count=1, path="layers/mlp/dot_general", kind="fusion"):
    return CompiledKernel("fusion.1", kind, count, path, "model.py:7", seconds, flops, 100)


def compared(ours, theirs):
    time = StepTime("TPU v5e 2x4", sum(each.total_seconds for each in ours), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    report = with_details(replace(mlp_report(), step_time=time), kernels=tuple(ours))
    return Comparison(report, Compiled("TPU v5e 2x4", 8, 1.0, CompiledMemory(100, 50, 50, 30), (), kernels=tuple(theirs)))


CASES = {
    COPIED: compared([planned(1.0, 8)], [found(1.0, 8), found(0.5, kind="transpose")]),
    IN_PIECES: compared([planned(1.0, 80)], [found(0.2, 10, count=8)]),
    RECOMPUTED: compared([planned(1.0, 80)], [found(1.0, 80, count=2)]),
    RATE: compared([planned(1.0, 80)], [found(1.5, 80)]),
    FUSED: compared([planned(1.0)], [found(1.5)]),
}


@pytest.mark.parametrize("cause", KERNEL_CAUSES, ids=lambda cause: cause.name)
def test_a_difference_of_the_kernels_has_its_cause(cause):
    (only,) = CASES[cause].kernel_differences
    assert only.cause == cause


@pytest.mark.parametrize("cause", KERNEL_CAUSES, ids=lambda cause: cause.name)
def test_the_text_names_the_cause_and_what_it_means(cause):
    text = " ".join(str(CASES[cause]).split())
    assert cause.name in text
    assert cause.text in text


def test_equal_times_have_no_differences():
    assert compared([planned(1.0, 8)], [found(0.5, 4), found(0.5, 4)]).kernel_differences == ()


def test_a_compiler_without_estimates_explains_nothing():
    assert compared([planned(1.0, 8)], [found(None, 8)]).kernel_differences == ()
