"""The descent of a search: a good plan before anything is bounded, from which no single changed decision leads to a better one."""

from functools import partial

import pytest

from workbench.models import build
from workbench.public_plan import Plan
from workbench.search.evaluator import Evaluator
from workbench.search.make_space import make_space
from workbench.search.neighbours import list_neighbours
from workbench.search.requirements import AtMost, allows_figures, relative_excess
from workbench.search.run_search import list_recipes, run_search
from workbench.search.search_figures import Figures
from workbench.search.search_state import FINISHED, OUT_OF_TIME, objective_key
from workbench.search.worker_questions import InProcess

WANTED = {"axes": ("data", "model"), "layouts": ("replicated", "megatron", "megatron + sequence")}


@pytest.fixture(scope="module")
def evaluator():
    return Evaluator(make_space(Plan(build("gpt"), "", hardware="TPU v5e 2x4"), **WANTED))


def states_until_bounds(evaluator, requirements=(), objective="seconds"):
    """The states up to the first question that is about bounds."""
    kinds = []

    class Asked(InProcess):
        def submit(self, question):
            kinds.append(question.kind)
            return super().submit(question)

    states = []
    for state in run_search(evaluator.space, requirements, objective=objective, within=600, answerer=Asked(evaluator), evaluator=evaluator):
        if {*kinds} != {"figures"}:
            break
        states.append(state)
    return states


@pytest.mark.parametrize("objective", ["seconds", "memory"])
def test_before_anything_is_bounded_no_single_change_beats_the_best(evaluator, objective):
    last = states_until_bounds(evaluator, objective=objective)[-1]
    candidate, figures = last.best
    for _, each in list_neighbours(evaluator.space, candidate):
        assert objective_key(objective, evaluator.evaluate(each)) >= objective_key(objective, figures), str(each)


def test_every_state_has_the_best_so_far_and_a_gap(evaluator):
    states = states_until_bounds(evaluator)
    seconds = [state.best[1].seconds for state in states]
    assert seconds == sorted(seconds, reverse=True)
    assert all(0 < state.least <= seconds[-1] for state in states)
    assert {each.layout for each in list_recipes(evaluator.space, ())} == set(WANTED["layouts"])


def test_it_comes_down_in_memory_where_no_first_plan_fits(evaluator):
    least = min(figures.memory for _, figures in states_until_bounds(evaluator, objective="memory")[-1].front)
    limit = AtMost("memory", 1.02 * least)
    assert relative_excess([limit], Figures(1.0, 2.04 * least)) == pytest.approx(1.0)
    states = states_until_bounds(evaluator, [limit])
    assert states[-1].best is not None
    assert allows_figures([limit], states[-1].best[1])


def test_the_seconds_of_a_search_are_kept_between_any_two_answers(evaluator):
    """By a clock that goes a second forward with every plan."""
    planned = []

    class Counted(InProcess):
        def submit(self, question):
            return partial(self._count, super().submit(question))

        def _count(self, wait):
            planned.append(1)
            return wait()

    for within in (1, 2, 3, 5, 8):
        planned.clear()
        states = list(
            run_search(evaluator.space, within=within, answerer=Counted(evaluator), evaluator=evaluator, clock=lambda: float(len(planned)))
        )
        assert (len(planned), states[-1].ending) == (within, OUT_OF_TIME)
        assert [state.ending for state in states[:-1]] == [""] * (len(states) - 1)
    *_, last = run_search(evaluator.space, within=600, evaluator=evaluator, until="proved")
    assert (last.ending, last.is_proved) == (FINISHED, True)
