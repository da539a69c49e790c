"""Where the compiled peak is another than the planned one, the workbench says what each holds there."""

from dataclasses import replace

import pytest

from tests.support.details import with_details
from tests.support.programs import mlp_report
from workbench.analysis.difference_causes import ARGUMENTS, FREED, HELD, MEMORY_CAUSES, PACKED, REST, SIZED
from workbench.analysis.tier_comparison import Comparison
from workbench.core.tensor import Role
from workbench.reports.compiled import Compiled, CompiledMemory
from workbench.reports.device_memory import Alive

BIG = 1 << 20


def compared(ours=(), theirs=(), *, packing=0, arguments=None, unnamed=0):
    report = mlp_report()
    held = sum(each.local_bytes for each in report.arguments)
    live = sum(count for _, count in theirs) + unnamed
    memory = CompiledMemory(held if arguments is None else arguments, 0, 0, live + packing, live=max(live, 1))
    alive = tuple(Alive(path, Role.ACTIVATION, count, 1) for path, count in ours)
    peak = replace(report.memory, by_role={Role.ACTIVATION: held + sum(count for _, count in ours)})
    report = with_details(replace(report, memory=peak), alive=alive)
    return Comparison(report, Compiled("TPU v5e 2x4", 8, 1.0, memory, (), alive_at_peak=tuple(theirs)))


CASES = {
    FREED: compared([("layers/attention/scores/add", BIG)]),
    HELD: compared([], [("grad/head/dot_general", BIG)]),
    SIZED: compared([("layers/mlp/up/add", BIG)], [("layers/mlp/down/dot_general", 2 * BIG)]),
    PACKED: compared([("head/dot_general", BIG)], [("head/dot_general", BIG)], packing=BIG),
    ARGUMENTS: compared(arguments=BIG),
    REST: compared(unnamed=BIG),
}


@pytest.mark.parametrize("cause", MEMORY_CAUSES, ids=lambda cause: cause.name)
def test_a_difference_of_the_peaks_has_its_cause(cause):
    (only,) = CASES[cause].memory_differences
    assert only.cause == cause


@pytest.mark.parametrize("cause", MEMORY_CAUSES, ids=lambda cause: cause.name)
def test_the_text_names_the_cause_and_what_it_means(cause):
    text = " ".join(str(CASES[cause]).split())
    assert cause.name in text
    assert cause.text in text


def test_scopes_are_summed_forward_and_backward_apart():
    found = compared([("layers/0/up/dot", BIG), ("layers/1/up/dot", BIG), ("grad/layers/1/up/dot", 3 * BIG)]).memory_differences
    assert {each.scope: each.predicted for each in found} == {"layers": 2 * BIG, "grad/layers": 3 * BIG}


def test_equal_peaks_have_no_differences():
    assert compared([("layers/a/dot", BIG)], [("layers/b/dot", BIG)]).memory_differences == ()


@pytest.mark.parametrize("cause", MEMORY_CAUSES, ids=lambda cause: cause.name)
def test_the_differences_add_up_to_that_of_the_peaks(cause):
    comparison = CASES[cause]
    told = sum(each.compiled - each.predicted for each in comparison.memory_differences)
    peaks = comparison.compiled.memory.peak - comparison.report.memory.peak
    assert abs(told - peaks) <= 0.01 * max(comparison.compiled.memory.peak, comparison.report.memory.peak)
