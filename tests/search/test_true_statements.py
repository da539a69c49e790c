"""What a search says at any moment is true: small searches, stopped after any number of evaluations, against all plans of their space."""

import time
from functools import cache, partial
from math import inf

import pytest

from tests.support.search_bounds import enumerate_figures
from workbench.models import build
from workbench.public_plan import Plan
from workbench.search.evaluator import Evaluator
from workbench.search.find_plans import find_plans
from workbench.search.make_space import make_space
from workbench.search.plan_candidate import PlanCandidate
from workbench.search.requirement_conflicts import find_requirement_conflict
from workbench.search.requirements import AtMost, Pin, allows_candidate, allows_figures
from workbench.search.run_search import run_search
from workbench.search.search_figures import Figures
from workbench.search.search_result import SearchResult
from workbench.search.search_state import CANCELLED, EVALUATED, FINISHED, OUT_OF_TIME, objective_key

EXACT = 1 + 1e-9
FEW = {"remats": ("none",), "zeros": ("no ZeRO", "zero_1"), "most_examples": 2}
SPACES = {
    "two_layer": ("TPU v5e 2x2", {}),
    "mnist": ("4 A100", {"most_examples": 50, "axes": ("data", "model")}),
    "gpt": ("TPU v5e 1x2", {**FEW, "layouts": ("replicated", "megatron"), "schedules": ("1f1b",)}),
}
OBJECTIVES = ("seconds", "memory", "dollars")
LIMITS = (None, 0.999, 1.3)
"""On the memory, in shares of the least that any plan holds."""


@cache
def space_of(name: str) -> tuple[Evaluator, dict[PlanCandidate, Figures]]:
    """A space with every legal plan of it."""
    hardware, choices = SPACES[name]
    evaluator = Evaluator(make_space(Plan(build(name), "", hardware=hardware), **choices))
    return evaluator, enumerate_figures(evaluator)


def cases():
    return [(name, objective, limit) for name in SPACES for objective in OBJECTIVES for limit in LIMITS]


def requirements_of(truth, limit) -> tuple[AtMost | Pin, ...]:
    memory = min(each.memory for each in truth.values())
    return () if limit is None else (AtMost("memory", limit * memory), Pin("zero", ("no ZeRO",)))


def verify(state, truth, requirements):
    """Everything that the state says, against all plans."""
    kept = {
        each: figures for each, figures in truth.items() if allows_candidate(requirements, each) and allows_figures(requirements, figures)
    }
    least = min((objective_key(state.objective, figures) for figures in kept.values()), default=(inf,))
    assert all(kept[each] == figures for each, figures in state.front)
    assert state.least <= least[0] * EXACT
    if state.best is None:
        assert not state.is_proved
        assert not (state.is_complete and kept)
        assert state.status == ("no plan meets the requirements" if state.is_complete else state.status)
        return
    best = objective_key(state.objective, state.best[1])
    if state.least:
        assert best[0] <= least[0] * (1 + percentage(state.gap_text)) * EXACT
    if state.is_proved:
        assert best[0] == least[0]
        assert state.status.startswith("proved")
    if state.is_complete:
        assert all(any(found.dominates(figures, 0.005) for _, found in state.front) for figures in kept.values())


def percentage(text: str) -> float:
    """The share by which a text says that a plan is worse at most."""
    if " times " in text:
        return float(text.split()[2]) - 1
    return float(text.split()[2].rstrip("%")) / 100


@pytest.mark.share(6)
@pytest.mark.parametrize(("name", "objective", "limit"), cases())
def test_stopped_after_any_number_of_evaluations_it_says_what_is_true(name, objective, limit):
    evaluator, truth = space_of(name)
    requirements = requirements_of(truth, limit)
    search = partial(run_search, evaluator.space, requirements, objective=objective, evaluator=evaluator)
    whole = list(search(within=inf))
    for state in whole:
        verify(state, truth, requirements)
    assert whole[-1].ending == FINISHED
    for most in range(1, whole[-1].evaluated):
        *_, last = search(within=inf, most_evaluations=most)
        assert (last.evaluated, last.ending) == (most, EVALUATED)
        verify(last, truth, requirements)


@pytest.mark.parametrize("name", SPACES)
def test_each_ending_says_how_it_came_and_what_was_examined(name):
    evaluator, truth = space_of(name)
    size, limits = evaluator.space.size, requirements_of(truth, 0.999)
    search = partial(run_search, evaluator.space, evaluator=evaluator)
    endings = {
        OUT_OF_TIME: [*search(limits, within=0.0)][-1],
        CANCELLED: [*search(limits, within=inf, is_cancelled=lambda: True)][-1],
        FINISHED: [*search(limits, within=inf)][-1],
    }
    said = {}
    for ending, state in endings.items():
        assert (state.ending, state.best) == (ending, None)
        error = SearchResult(evaluator.space, limits, state, evaluator).no_plan_error()
        said[ending] = error.message
        assert f"{size:,} combinations" in error.message
    assert said[OUT_OF_TIME].endswith("The search did not finish.")
    assert said[CANCELLED].endswith("The search was cancelled.")
    assert said[FINISHED].startswith("No plan meets `at most ")
    assert len({*said.values()}) == len(said)


@pytest.mark.parametrize("name", SPACES)
def test_a_relaxation_said_to_be_the_least_is_the_least(name):
    evaluator, truth = space_of(name)
    limits = requirements_of(truth, 0.7)
    clash = find_requirement_conflict(evaluator.space, limits, within=600, evaluator=evaluator)
    (relaxation,) = clash.relaxations
    others = [each for each in limits if each != relaxation.requirement]
    assert relaxation.is_least
    assert relaxation.weakened.limit == min(figures.memory for each, figures in truth.items() if allows_candidate(others, each))


def test_after_a_cancellation_nothing_is_planned():
    """Neither the present plan nor what clashes, nor candidates that were asked for ahead."""
    hardware, choices = SPACES["gpt"]
    planned, seen = [], []

    class Counted(Evaluator):
        def evaluate(self, candidate):
            planned.append(bool(seen))
            return super().evaluate(candidate)

    class Here:
        def __init__(self, evaluator):
            self.evaluator = Counted(evaluator.space)

        def submit(self, question):
            return lambda: planned.append(bool(seen)) or self.evaluator.evaluate(question.candidate)

        def close(self):
            """Nothing is open."""

    plan = Plan(build("gpt"), "data:2", "batch:data", hardware=hardware)
    result = find_plans(
        plan, within=600, open_answerer=Here, on_progress=seen.append, is_cancelled=lambda: seen[-1].evaluated > 0, **choices
    )
    assert result.state.ending == CANCELLED
    assert planned
    assert not any(planned)


def test_a_pinned_layout_that_no_mesh_allows_says_why():
    plan = Plan(build("gpt"), "", hardware="TPU v5e 8x8")
    space = make_space(plan, layouts=("replicated", "megatron"), axes=("data", "model"), remats=("none",))
    clash = find_requirement_conflict(space, (Pin("layout", ("megatron",)), Pin("model", (64,))), within=600)
    why = "Megatron tensor parallel would put `heads` (8) on `model` (64), and 8 % 64 = 8."
    assert str(clash).splitlines()[0] == f"No plan meets `model 64`. {why}"


def test_the_time_of_a_search_counts_from_its_start_not_from_the_first_plan():
    """Starting and tracing may take the whole limit: no state may say that only a second has passed."""
    begin = time.perf_counter() - 100
    result = find_plans(Plan(build("two_layer"), "", hardware="TPU v5e 2x2"), within=50, begin=begin)
    assert result.state.ending == OUT_OF_TIME
    assert 100 <= result.state.elapsed < 160
