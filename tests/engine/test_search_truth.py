"""What the benchmark of searches beside compilers and clocks counts."""

import pytest

from benchmarks.search_small import SmallCase
from benchmarks.search_truth import CompiledPlan, TimedPlan, TruthCase, compare_pairs, compile_fronts
from workbench.models import build
from workbench.public_plan import Plan
from workbench.reports.verified_plan import TierFigures, VerifiedPlan

pytestmark = pytest.mark.compile


def compiled(planned: float, peak: int | None = None, refusal: str = "") -> CompiledPlan:
    tiers = TierFigures(1.0, planned), TierFigures(), TierFigures(memory=peak, reason=refusal)
    return CompiledPlan("case", VerifiedPlan(Plan(build("two_layer"), "data:4"), "data:4", *tiers), chip=200.0, limit=150.0)


def test_a_plan_is_a_miss_that_is_refused_or_fits_no_chip_or_is_eight_percent_off():
    assert not compiled(107, 100).is_miss
    assert compiled(109, 100).is_miss
    assert not compiled(210, 201).is_compiled
    assert compiled(100, refusal="It does not fit.\nWays out").is_miss
    assert str(compiled(100, refusal="It does not fit.\nWays out")).endswith("100 bytes planned, REFUSED: It does not fit.")


def test_pairs_that_are_predicted_alike_do_not_count_and_overlapping_runs_are_not_clear():
    fast, same, slow = (TimedPlan("", 1.00, (1.0, 3.0)), TimedPlan("", 1.04, (9.0,)), TimedPlan("", 2.0, (2.5, 2.7)))
    assert [*compare_pairs([slow, fast])] == [(True, False)]
    assert [*compare_pairs([fast, same])] == []
    assert [*compare_pairs([same, slow])] == [(False, True)]


def test_a_front_is_compiled_and_its_plans_keep_a_limit_between_the_leanest_and_the_fastest():
    case = TruthCase(SmallCase("two_layer", "TPU v5e 2x2"), share=0.5)
    free, limited = TruthCase(case.small).search(), case.search()
    assert limited.front[0][1].memory < free.front[0][1].memory
    found = compile_fronts([case])
    assert found["searches"] == 1
    assert found["plans"] == len(limited.front)
    assert (found["compiled"], found["within_8"], found["misses"]) == (1.0, 1.0, [])
