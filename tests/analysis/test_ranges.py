"""How far a figure may be off: what is shown beside it, and how the ends are found."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.fit_ranges import INSIDE, SETTLED, TIERS, interval
from workbench.analysis.compiled_report import with_compiled
from workbench.analysis.prediction_intervals import KERNELS, MEMORY, SENT, STEP, Residual, ranges_of, residuals
from workbench.documents import report_record
from workbench.models.registry import build
from workbench.public_plan import Plan
from workbench.reports.compiled import Compiled, CompiledKernel, CompiledMemory
from workbench.reports.diagnostic import UNKNOWN_TRIP_COUNT, Diagnostic
from workbench.units import format_bytes, format_range


def plan(hardware="TPU v5e 2x4", **changes):
    return Plan(build("gpt"), "data:2 model:4", "batch:data; d_ff:model; heads:model", hardware=hardware, **changes)


@pytest.fixture(scope="module")
def report():
    return plan().report()


@pytest.fixture
def known(monkeypatch):
    """Residuals of a test's own."""
    made = {(figure, tier, "tpu"): Residual(0.5, 2.0, 20) for figure in (SENT, KERNELS) for tier in TIERS}
    made |= {(MEMORY, tier, "tpu"): Residual(-0.5, 1.0, 20) for tier in TIERS}
    monkeypatch.setattr("workbench.analysis.prediction_intervals.residuals", lambda: made)


def test_every_figure_that_is_not_settled_has_been_compared_with_the_compiler():
    open_figures = {(figure, tier, "tpu") for figure in (SENT, MEMORY, KERNELS) for tier in TIERS}
    assert open_figures - {(figure, "scheduled", "tpu") for figure in SETTLED} == residuals().keys()
    assert all(each.low <= each.high and each.cases >= 10 for each in residuals().values())


def test_memory_is_off_by_a_share_of_what_the_step_computes(report, known):
    memory, found = report.memory, ranges_of(report)[MEMORY]
    assert memory.working > 0
    assert found.high == memory.peak + memory.working
    assert found.low == max(memory.argument_bytes, memory.peak - memory.working / 2), "arguments take what they take"


def test_what_is_sent_and_the_time_of_kernels_are_off_by_a_factor(report, known):
    found = ranges_of(report)
    assert (found[SENT].low, found[SENT].high) == (report.sent / 2, report.sent * 2)
    assert found[KERNELS].high == pytest.approx(report.step_time.estimate * 2)
    assert found[STEP].high == pytest.approx(report.step_time.total * 2 - report.step_time.exposed), "what is waited for stays"


def test_what_the_compiler_settled_has_no_range(report, known):
    memory = CompiledMemory(arguments=report.memory.argument_bytes, outputs=0, aliased=0, temporary=0)
    timed = Compiled("TPU", 8, 1.0, memory, (), (CompiledKernel("a", "fusion", 1, "", "", 1e-3, 0, 0),))
    assert ranges_of(with_compiled(report, timed)).keys() == {SENT}
    untimed = Compiled("TPU", 8, 1.0, memory, ())
    assert ranges_of(with_compiled(report, untimed)).keys() == {SENT, KERNELS, STEP}


@pytest.mark.parametrize("hardware", [None, "8 H100"])
def test_where_nothing_was_compared_nothing_is_said(hardware, known):
    assert ranges_of(plan(hardware).report()) == {}


def test_what_is_settled_to_nothing_has_no_range(known):
    assert SENT not in ranges_of(Plan(build("gpt"), "data:8", hardware="TPU v5e 2x4").report())


def test_what_a_loop_of_unknown_length_sends_and_takes_has_no_range(report, known):
    unknown = replace(report, diagnostics=(Diagnostic(UNKNOWN_TRIP_COUNT, "loop", ""),))
    assert ranges_of(unknown).keys() == {MEMORY}


def test_text_and_record_tell_the_same(report, known):
    found = ranges_of(report)[MEMORY]
    assert f"({format_range(found.low, found.high, format_bytes)})" in str(report)
    assert report_record(report)["ranges"][MEMORY] == [found.low, found.high]


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=60))
def test_an_interval_leaves_one_of_ten_outside(found):
    """Wherever they lie: of two equal values far above all others, both may be above it."""
    low, high = interval(found)
    assert low <= high
    inside = sum(low <= round(each, 3) <= high for each in found)
    assert inside >= min(math.ceil(INSIDE * (len(found) + 1)), len(found))


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [(0, 512, "0 to 512 B"), (1 << 30, 1 << 30, "1 to 1 GiB"), (1000 << 20, 3 << 30, "1000 MiB to 3 GiB"), (1234, 5678, "1.2 to 5.5 KiB")],
)
def test_ends_in_two_digits_with_one_unit(low, high, text):
    assert format_range(low, high, format_bytes) == text
