"""Why one plan: ledgers that add up, counterfactuals that were planned, clashes that are smallest."""

import re
from dataclasses import replace

import pytest

from workbench.errors import SearchError
from workbench.models import build
from workbench.public_plan import Plan
from workbench.search.explain import counterfactual_text, ledger_text, make_ledger
from workbench.search.find_plans import find_plans
from workbench.search.neighbours import is_of_space
from workbench.search.present_plan import PresentPlan
from workbench.search.requirement_conflicts import find_requirement_conflict, requirement_conflict_text
from workbench.search.requirements import AtMost, Pin, allows_candidate, allows_figures
from workbench.search.search_figures import ParetoFront, evaluate_plan
from workbench.search.search_result import search_text
from workbench.search.search_state import progress_text

WANTED = {"remats": ("none", "full"), "schedules": ("1f1b", "zb_v"), "most_examples": 2, "layouts": ("replicated", "megatron")}


@pytest.fixture(scope="module")
def result():
    return find_plans(Plan(build("gpt"), "", hardware="TPU v5e 2x4"), within=600, most_evaluations=60, **WANTED)


def test_a_ledger_adds_up(result):
    candidates = list(result.space.candidates())[::17]
    legal = [each for each in candidates if is_of_space(result.space, each)]
    assert len(legal) > 8
    best = result.state.best[0]
    for each in legal[:8]:
        ledger = make_ledger(result.evaluator, each, best)
        ends = ledger.end_figures, ledger.start_figures
        assert sum(line.seconds for line in ledger.lines) == pytest.approx(ends[0].seconds - ends[1].seconds, abs=1e-12)
        assert sum(line.memory for line in ledger.lines) == pytest.approx(ends[0].memory - ends[1].memory)
        changed = [name for line in ledger.lines for name in line.decisions]
        assert len(changed) == len(set(changed))


def test_counterfactuals_are_what_the_planner_says(result):
    found = result.what_if()
    planned = [each for each in found if each.figures is not None]
    assert len(planned) > 5
    assert {each.decision for each in planned} >= {"zero", "remat", "mesh"}
    for each in planned:
        assert each.figures == evaluate_plan(result.evaluator.plan(each.candidate))
        assert each.candidate != result.state.best[0]


def test_what_clashes_is_smallest_and_a_relaxation_helps(result):
    space, evaluator = result.space, result.evaluator
    requirements = (AtMost("memory", 2**18), Pin("zero", ("no ZeRO",)), Pin("remat", ("none", "full")))
    heard = []
    clash = find_requirement_conflict(space, requirements, within=600, evaluator=evaluator, on_clash=heard.append)
    assert heard[0] == replace(clash, relaxations=()), "it is said before what would help is known"
    assert heard[-1] == clash
    limits = [relaxation.weakened.limit for each in heard for relaxation in each.relaxations]
    assert limits == sorted(limits, reverse=True), "each gives way by less than the one before"
    assert clash.is_proved
    assert clash.is_smallest
    assert clash.relaxations[0].is_least
    assert "(the least possible, proved)" in requirement_conflict_text(clash)
    assert clash.requirements == (AtMost("memory", 2**18),)
    (relaxation,) = clash.relaxations
    assert relaxation.figures.memory == relaxation.weakened.limit > 2**18
    again = (relaxation.weakened, *requirements[1:])
    assert allows_candidate(again, relaxation.candidate)
    assert allows_figures(again, relaxation.figures)


def test_the_first_relaxation_is_enough_to_go_on_with(result):
    heard = []
    requirements = (AtMost("memory", 2**18),)
    clash = find_requirement_conflict(
        result.space,
        requirements,
        within=600,
        evaluator=result.evaluator,
        on_clash=heard.append,
        is_cancelled=lambda: bool(heard) and bool(heard[-1].relaxations),
    )
    assert clash == heard[-1]
    (relaxation,) = clash.relaxations
    assert relaxation.weakened.allows_figures(relaxation.figures)
    assert not relaxation.is_least
    assert "(the smallest found so far)" in requirement_conflict_text(clash)
    assert not find_requirement_conflict(result.space, requirements, evaluator=result.evaluator, is_cancelled=lambda: True).requirements


def test_two_pins_that_contradict_are_both_named(result):
    requirements = (Pin("stage", (1,)), Pin("schedule", ("zb_v",)))
    clash = find_requirement_conflict(result.space, requirements, within=600, evaluator=result.evaluator)
    assert set(clash.requirements) == set(requirements)
    assert not clash.reason, "why other plans were refused is not why"
    assert {each.requirement for each in clash.relaxations} == set(requirements)
    assert str(clash) == requirement_conflict_text(clash)
    assert requirement_conflict_text(clash).startswith("No plan meets `stage 1` and `schedule zb_v` together.\nWith `stage 1 or ")


def test_a_search_that_ran_out_of_time_does_not_say_that_there_is_no_plan(result, monkeypatch):
    """Clashes are only named where they are proved."""
    none_yet = replace(result.state, front=ParetoFront(), is_proved=False, is_complete=False, evaluated=4, bounded=0, elapsed=10.0)
    present = PresentPlan(result.state.best[1])
    unfinished = replace(result, state=none_yet, requirements=(AtMost("memory", 2**30),), present=present)
    unknown = find_requirement_conflict(result.space, unfinished.requirements, within=0, evaluator=result.evaluator)
    assert (unknown.requirements, unknown.is_proved) == ((), False)
    tried = []
    monkeypatch.setattr("workbench.search.search_result.find_requirement_conflict", lambda *_, **__: tried.append(1))
    with pytest.raises(SearchError) as caught:
        unfinished.what_if()
    size = f"{result.space.size:,}"
    assert caught.value.message == (
        f"No plan was found in 10.0 s: 4 of {size} combinations planned, 0 compared by bounds. The search did not finish."
    )
    assert not tried, "nothing is planned when the time is over"
    assert caught.value.ways_out[0] == "search longer"
    assert caught.value.ways_out[1].startswith("keep the current plan, which meets the limits: ")


def test_no_plan_is_an_error_with_the_ways_out():
    plan = Plan(build("two_layer"), "", hardware="TPU v5e 2x4")
    result = find_plans(plan, within=60, at_most={"memory": "1 KiB"})
    assert not result.front
    with pytest.raises(SearchError, match=r"No plan meets `at most 1.00 KiB a device`") as caught:
        _ = result.best
    assert re.search(r"`\. All \d+ combinations examined: 0 planned, the others excluded by bounds or illegal\.$", caught.value.message)
    assert caught.value.ways_out[0].startswith("allow at most ")
    assert caught.value.ways_out[0].endswith(" (the least possible, proved)")
    assert "No plan meets" in search_text(result)
    assert re.search(r"\n +the best is +none +no plan meets the requirements\n", search_text(result))
    assert progress_text(result.state).endswith("no plan meets the requirements")


def test_the_texts(result):
    text = search_text(result)
    found = f"{len(result.front)} plans on the front, the best {result.state.status}"
    assert repr(result) == f"SearchResult(gpt tiny on 8 devices: {found})"
    assert "Space: all meshes of 8 devices" in text
    assert str(result.state.best[0]).split(",")[0] in text
    if len(result.front) > 1:
        assert str(result.why()) == ledger_text(result.why())
        assert ledger_text(result.why()).splitlines()[-1].strip().startswith("to ")
        assert "<table" in result.why()._repr_html_()
    figures = result.state.best[1]
    sentences = [counterfactual_text(each, figures) for each in result.what_if()]
    assert all(each.startswith("with ") and " instead of " in each for each in sentences)
    assert [str(each) for each in result.what_if()] == sentences
    with pytest.raises(SearchError, match="there is no number 99"):
        result.plan(99)


@pytest.mark.parametrize(
    ("known", "line"),
    [
        ({"is_complete": True}, "the best is proved and the front is complete"),
        ({}, "the best is proved the front is incomplete"),
        ({"is_proved": False, "least": 0.0}, "the best is open no lower bound is known yet"),
        ({"is_proved": False, "least": 0.75}, "the best is open at most 33.4% slower than the proven lower bound"),
        ({"is_proved": False, "least": 0.4}, "the best is open at most 2.5 times the proven lower bound"),
        ({"is_proved": False, "least": 1.0}, "the best is proved except for plans that tie in it and are better in other figures"),
    ],
)
def test_the_text_says_how_far_the_proof_is(result, known, line):
    least = known.get("least", 1.0) * result.state.best[1].seconds
    state = replace(result.state, **{"is_proved": True, "is_complete": False, **known, "least": least})
    assert line in [" ".join(each.split()) for each in search_text(replace(result, state=state)).splitlines()]
