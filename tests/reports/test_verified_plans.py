"""Plans in three tiers as text and as plain values."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.searches import front_result, make_result
from workbench.errors import SearchError
from workbench.models import build
from workbench.public_plan import Plan
from workbench.reports.verified_plan import TierFigures, VerifiedPlan, VerifiedPlans, share_of_planned_text, verified_line, verified_record

MIB = 1 << 20
PLANNED = TierFigures(0.010, 100 * MIB)
FULL = (TierFigures(0.011, 100 * MIB, compiler="XLA of jaxlib 0.10.2"), TierFigures(0.0098, 104 * MIB, compiler="libtpu 0.0.42"))
STAGED = (TierFigures(reason="It is a pipeline."), TierFigures(memory=98 * MIB, reason="Stages are compiled one by one."))
REFUSED = (TierFigures(reason="It is a pipeline."), TierFigures(reason="It does not compile.", ways_out=("take fewer", "take none")))


@pytest.fixture(scope="module")
def plan():
    return Plan(build("two_layer"), "data:4")


def verified(plan, *tiers) -> VerifiedPlan:
    return VerifiedPlan(plan, "data:4, replicated", PLANNED, *tiers)


def test_the_table_has_each_tier_beside_what_was_planned_and_says_what_is_missing(plan):
    shown = str(VerifiedPlans((verified(plan, *FULL), verified(plan, *STAGED), verified(plan, *REFUSED))))
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert lines[0] == "plan planned partitioned compiled"
    assert lines[2:8] == [
        "0 data:4, replicated step 10.0 ms 11.0 ms +10% 9.80 ms −2.0%",
        "memory 100 MiB 100 MiB same 104 MiB +4.0%",
        "1 data:4, replicated step 10.0 ms – –",
        "memory 100 MiB – 98.0 MiB −2.0%",
        "2 data:4, replicated step 10.0 ms – –",
        "memory 100 MiB – –",
    ]
    assert lines[8:] == [
        "Percentages: difference from the planned figure.",
        "1, 2, partitioned: It is a pipeline.",
        "1, compiled: Stages are compiled one by one.",
        "2, compiled: It does not compile. Try: take fewer · take none.",
    ]
    assert str(VerifiedPlans(())) == "No plan was verified."


def test_a_line_has_what_the_compilers_said_or_why_they_did_not(plan):
    line = "data:4, replicated: partitioned 11.0 ms (+10%), 100 MiB (same); compiled 9.80 ms (−2.0%), 104 MiB (+4.0%)"
    assert verified_line(verified(plan, *FULL)) == line
    assert verified_line(verified(plan, *STAGED)) == "data:4, replicated: compiled 98.0 MiB (−2.0%)"
    assert verified_line(verified(plan, *REFUSED)) == "data:4, replicated: It does not compile."


def test_the_record_is_plain_json_with_the_differences(plan):
    record = json.loads(json.dumps(verified_record(verified(plan, *FULL))))
    assert record["plan"] == "data:4, replicated"
    assert record["planned"] == {"seconds": 0.010, "memory": 100 * MIB}
    assert record["compiled"]["difference"] == {"seconds": pytest.approx(-0.02), "memory": pytest.approx(0.04)}
    assert record["compiled"]["compiler"] == "libtpu 0.0.42"
    refused = verified_record(verified(plan, *REFUSED))["compiled"]
    assert refused["difference"] == {"seconds": None, "memory": None}
    assert (refused["reason"], refused["ways_out"]) == ("It does not compile.", ["take fewer", "take none"])


def test_the_error_of_the_prediction_is_a_share_of_what_was_compiled(plan):
    assert verified(plan, *FULL).memory_error == pytest.approx(100 / 104 - 1)
    assert verified(plan, *REFUSED).memory_error is None
    assert (verified(plan, *FULL).refusal, verified(plan, *STAGED).refusal) == ("", "")


def test_a_search_that_found_nothing_and_a_number_of_plans_that_is_none_are_refused():
    with pytest.raises(SearchError, match=r"^No plan meets `at most 16\.0 GiB a device` and `.*` together\."):
        make_result(found=()).verify()
    with pytest.raises(SearchError) as caught:
        front_result().verify(0)
    assert str(caught.value) == "`most` is 0; it should be a whole number from 1.\n  Try: write most=1."


@given(st.floats(-0.99, 100), st.floats(-0.99, 100))
def test_the_larger_difference_never_has_the_lesser_sign(one, other):
    signs = {"−": -1, "s": 0, "+": 1}
    less, more = (signs[share_of_planned_text(each)[0]] for each in sorted((one, other)))
    assert less <= more
