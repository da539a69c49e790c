"""Boundaries of stages as a decision of the search: plans with named blocks, bounds that hold, and the best under a limit of memory."""

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.search_bounds import enumerate_figures, verify_bounds
from workbench.errors import SearchError
from workbench.models import build
from workbench.public_plan import Plan
from workbench.search.evaluator import Evaluator
from workbench.search.explain import list_counterfactuals, make_ledger
from workbench.search.find_plans import find_plans
from workbench.search.make_space import make_space
from workbench.search.plan_candidate import PlanCandidate
from workbench.search.present_plan import find_candidate
from workbench.search.search_figures import Figures
from workbench.search.search_space import SearchSpace
from workbench.search.uneven_boundaries import BOUNDARIES

FEW = {
    "axes": ("stage", "data"),
    "zeros": ("no ZeRO",),
    "remats": ("none", "first_half"),
    "schedules": ("1f1b", "eager_1f1b", "interleaved"),
    "boundaries": BOUNDARIES,
    "most_examples": 8,
}


@cache
def gpt() -> Plan:
    return Plan(build("gpt", layers=6), "", hardware="8 H100")


@cache
def space_of(name: str, hardware: str) -> tuple[SearchSpace, Evaluator, tuple[PlanCandidate, ...]]:
    space = make_space(Plan(build(name), "", hardware=hardware), boundaries=BOUNDARIES, most_examples=4)
    return space, Evaluator(space), tuple(each for each in space.candidates() if each.boundaries != "time")


@cache
def enumerated() -> tuple[SearchSpace, Evaluator, dict[PlanCandidate, Figures]]:
    """A small space with the figures of every plan of it."""
    space = make_space(gpt(), **FEW)
    evaluator = Evaluator(space)
    return space, evaluator, enumerate_figures(evaluator)


@pytest.mark.share(2)
@pytest.mark.parametrize(("name", "hardware"), [("gpt", "8 H100"), ("mixture", "TPU v5e 2x4")])
@settings(max_examples=4)
@given(data=st.data())
def test_bounds_hold_whatever_the_boundaries(name, hardware, data):
    _, evaluator, candidates = space_of(name, hardware)
    candidate = data.draw(st.sampled_from(candidates))
    verify_bounds(evaluator, candidate)


def test_every_candidate_has_a_choice_of_boundaries_where_its_stages_have_one_chunk():
    space, _, found = enumerated()
    assert space.size == len([*space.candidates()])
    uneven = [each for each in found if each.boundaries != "time"]
    assert {each.boundaries for each in uneven} == {"memory", "fit"}
    assert all(each.chunks == 1 and 1 < each.size("stage") < space.blocks for each in uneven)
    assert "boundaries time, memory, fit" in space.describe()
    assert make_space(gpt()).boundaries == ("time",)
    assert make_space(gpt(), wide=True, remats=("none",)).boundaries == BOUNDARIES


def test_under_a_limit_of_memory_the_best_plan_may_have_uneven_boundaries():
    """The limit is the memory of an uneven plan that no plan with boundaries by time keeps to as fast."""
    _, _, found = enumerated()
    pipelines = {each: figures for each, figures in found.items() if each.size("stage") == 4}

    def fastest(limit: float, uneven: bool) -> float:
        kept = (f.seconds for each, f in pipelines.items() if f.memory <= limit and (each.boundaries != "time") == uneven)
        return min(kept, default=float("inf"))

    limits = sorted(f.memory for each, f in pipelines.items() if each.boundaries == "memory")
    limit = next(each for each in limits if fastest(each, uneven=True) < fastest(each, uneven=False))
    result = find_plans(gpt(), at_most={"memory": limit}, pins={"stage": 4}, within=600, **FEW)
    best, figures = result.state.best
    assert result.state.is_proved
    assert best.boundaries != "time"
    assert figures.seconds <= fastest(limit, uneven=True)
    assert figures.memory <= limit
    assert result.best.pipeline.boundaries
    assert len(result.best.pipeline.boundaries) == 3


def test_boundaries_that_fit_keep_to_the_limit_of_the_search():
    found = find_plans(gpt(), at_most={"memory": "40 GiB"}, within=600, most_evaluations=1, **FEW)
    assert found.space.most_memory == 40 * 2**30
    assert find_plans(gpt(), within=600, most_evaluations=1, **FEW).space.most_memory == gpt().hardware.chip.memory


def test_a_present_plan_with_named_boundaries_is_the_candidate_by_that_rule():
    space, evaluator, found = enumerated()
    named = [each for each in found if each.boundaries == "memory" and evaluator.plan(each).pipeline.boundaries]
    plan = evaluator.plan(named[0])
    assert find_candidate(space, plan) == named[0]
    assert find_candidate(make_space(gpt(), **{**FEW, "boundaries": ("time",)}), plan) is None
    assert find_candidate(make_space(gpt(), **{**FEW, "boundaries": ("memory",)}), plan) == named[0]


def test_boundaries_stand_in_ledgers_what_ifs_and_words():
    space, evaluator, found = enumerated()
    uneven = next(each for each in found if each.boundaries == "memory" and evaluator.plan(each).pipeline.boundaries)
    others = {each.candidate.boundaries: each for each in list_counterfactuals(evaluator, uneven) if each.decision == "boundaries"}
    assert {*others} == {"time", "fit"}
    assert others["time"].change == "boundaries by time instead of boundaries by memory"
    lines = make_ledger(evaluator, others["time"].candidate, uneven).lines
    assert [each.decisions for each in lines] == [("boundaries",)]
    assert str(uneven).endswith("boundaries by memory")
    assert others["fit"].candidate.describe("boundaries") == "boundaries that fit"
    to_chunks = [each.candidate for each in list_counterfactuals(evaluator, uneven) if each.candidate.chunks > 1]
    assert all(each.boundaries == "time" for each in to_chunks)
    assert space.boundaries_of(uneven) == BOUNDARIES


def test_pinned_boundaries_are_kept_and_others_refused():
    result = find_plans(gpt(), pins={"boundaries": "memory"}, within=600, **FEW)
    assert result.state.is_complete
    assert {each.boundaries for each, _ in result.front} == {"memory"}
    with pytest.raises(SearchError) as caught:
        find_plans(gpt(), pins={"boundaries": "luck"}, **FEW)
    assert str(caught.value) == "There is no boundaries `luck`; there are `time`, `memory`, `fit`.\n  Try: use one of these names."
    with pytest.raises(SearchError, match="There is no rule for boundaries `luck`"):
        make_space(gpt(), boundaries=("luck",))
