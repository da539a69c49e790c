"""Questions of a search that find no answer, their workers having died: nothing is proved that may be hidden behind them."""

from dataclasses import dataclass, field, replace
from functools import partial

import pytest

from workbench.errors import EngineError
from workbench.models import build
from workbench.public_plan import Plan
from workbench.search import best_first
from workbench.search.evaluator import Evaluator
from workbench.search.make_space import make_space
from workbench.search.run_search import run_search
from workbench.search.search_result import SearchResult, search_text
from workbench.search.worker_questions import Answer, Question, answer

SMALL = {"layouts": ("replicated", "megatron"), "remats": ("none",), "zeros": ("no ZeRO",), "schedules": ("1f1b",), "most_examples": 2}


@pytest.fixture(scope="module")
def evaluator():
    return Evaluator(make_space(Plan(build("gpt"), "", hardware="TPU v5e 2x2"), **SMALL))


@dataclass
class Mortal:
    """Dies of questions of these kinds."""

    evaluator: Evaluator
    deadly: tuple[str, ...] = ()
    asked: list[Question] = field(default_factory=list)

    def submit(self, question):
        return partial(self._answer, question)

    def _answer(self, question: Question) -> Answer:
        self.asked.append(question)
        return EngineError(f"It died of {question.kind}.") if question.kind in self.deadly else answer(self.evaluator, question)

    def close(self) -> None:
        """Nothing is open."""


def states_of(evaluator, answerer):
    return run_search(evaluator.space, answerer=answerer, evaluator=evaluator, within=600)


@pytest.fixture(scope="module")
def proved(evaluator):
    *_, state = states_of(evaluator, Mortal(evaluator))
    assert state.is_complete
    assert state.unanswered == ()
    return state


@pytest.mark.parametrize("kind", ["work", "candidates"])
def test_nothing_is_proved_where_no_question_of_a_kind_is_answered(evaluator, proved, kind):
    *_, state = states_of(evaluator, Mortal(evaluator, (kind,)))
    assert set(state.unanswered) == {f"It died of {kind}."}
    assert not state.is_proved
    assert not state.is_complete
    assert state.open == 0
    assert state.refused == proved.refused
    assert state.least <= proved.least
    assert state.status.endswith(" the proven lower bound")


def test_a_lost_first_plan_takes_no_proof_away(evaluator, proved):
    answerer = Mortal(evaluator, ("figures",))
    states = states_of(evaluator, answerer)
    next(states)
    answerer.deadly = ()
    *_, state = states
    assert (state.front, state.unanswered, state.is_complete) == (proved.front, (), True)


def test_what_is_lost_after_the_best_is_proved_leaves_the_front_open(evaluator, proved):
    answerer = Mortal(evaluator)
    for state in states_of(evaluator, answerer):
        if state.is_proved:
            answerer.deadly = ("work", "candidates", "figures")
    assert state.best == proved.best
    assert state.is_proved
    assert state.unanswered
    assert not state.is_complete
    assert state.status == "proved"


@dataclass
class DiesOfGuesses(Mortal):
    """Dies of candidates whose bounds it was not asked for before, but for the first: they are tried ahead of the node they wait in."""

    bounded: set = field(default_factory=set)
    lost: list = field(default_factory=list)

    def _answer(self, question: Question) -> Answer:
        found = answer(self.evaluator, question)
        if question.kind == "figures" and question.candidate not in self.bounded and self.asked:
            self.lost.append(question.candidate)
            return EngineError("It died of a guess.")
        self.asked.append(question)
        self.bounded |= {each.candidate for each in found} if isinstance(found, tuple) and question.kind == "candidates" else set()
        return found


def test_a_lost_neighbour_of_the_best_takes_no_proof_away(evaluator, proved, monkeypatch):
    """It still waits where it belongs."""
    monkeypatch.setattr(best_first, "MANY_GROUPS", -1)
    answerer = DiesOfGuesses(evaluator)
    for state in states_of(evaluator, answerer):
        assert state.unanswered == ()
        assert state.least <= proved.least
    assert answerer.lost
    assert state.is_complete
    assert state.best[1] == proved.best[1]


def test_the_text_says_what_was_not_answered(evaluator):
    *_, state = states_of(evaluator, Mortal(evaluator, ("candidates",)))
    text = search_text(SearchResult(evaluator.space, (), state, evaluator))
    assert f"{len(state.unanswered)} questions were not answered, so better plans may exist. It died of candidates." in text
    text = search_text(SearchResult(evaluator.space, (), replace(state, unanswered=state.unanswered[:1]), evaluator))
    assert "\n1 question was not answered, so better plans may exist. It died of candidates.\n" in text
