"""An exercise on the board: goals tick with the plan, answers are counted and earn hints, and what cannot be is said in the exercise."""

import time
from pathlib import Path

import pytest

from workbench.errors import WorkbenchError
from workbench.exercises import Exercise, GathersNothingWhole, PlanQuestion
from workbench.models import build
from workbench.plan.edits import SetLayout
from workbench.public_plan import Plan
from workbench.session.plan_history import Session
from workbench.widgets.board.board import Board
from workbench.widgets.board.board_host import Host

pytestmark = pytest.mark.compile

LESSONS = Path(__file__).parents[2] / "lessons"
ONE = Exercise.load(LESSONS / "one_product" / "exercise.json")
ZERO = Exercise.load(LESSONS / "zero" / "exercise.json")


class Screen:
    def __init__(self, exercise: Exercise | None, plan: Plan | None = None) -> None:
        self.shown, self.seq = {}, 0
        self.session = Session(plan or ONE.first_plan)
        self.board = Board(self.session, self.shown.__setitem__, host=Host(exercise=exercise))

    def do(self, **gesture) -> None:
        self.seq += 1
        self.board.answer({**gesture, "view": "v", "seq": self.seq})

    def answer(self, answer: str = "") -> dict:
        self.do(verb="answer_question", answer=answer)
        deadline = time.monotonic() + 30
        while self.exercise["checking"] and time.monotonic() < deadline:
            time.sleep(0.01)
        return self.exercise["verdict"]

    @property
    def exercise(self) -> dict:
        return self.shown["board"]["exercise"]

    @property
    def refusal(self) -> dict | None:
        return self.shown["board"]["refusal"]

    @property
    def met(self) -> list[bool | None]:
        return [each["met"] for each in self.exercise["goals"]]


@pytest.fixture
def screen() -> Screen:
    return Screen(ONE)


def test_a_board_without_an_exercise_shows_none():
    other = Screen(None)
    assert other.exercise is None
    other.do(verb="question", name="share")
    assert other.refusal["zone"] == "exercise"
    assert other.refusal["message"] == "There is no exercise on this board."


def test_goals_tick_while_the_plan_changes(screen):
    screen.do(verb="question", name="share")
    assert screen.met == [False, True, False]
    screen.do(verb="drop", dim="I", source="", target="x")
    assert screen.met == [True, True, False]
    screen.do(verb="undo")
    screen.do(verb="drop", dim="K", source="", target="x")
    assert screen.met == [True, True, True]
    assert screen.answer()["text"] == "Right."
    assert [each["done"] for each in screen.exercise["questions"]] == [False, True, False, False]


def test_an_answer_is_counted_and_each_further_one_earns_a_hint(screen):
    screen.do(verb="question", name="share")
    first = screen.answer()
    assert (first["text"], first["attempt"], first["score"]) == ("Not yet:", 1, "1 of 4")
    assert "Split a dimension that the result has." not in first["hints"]
    assert "Split a dimension that the result has." in screen.answer()["hints"]
    screen.do(verb="drop", dim="K", source="", target="x")
    assert screen.exercise["verdict"]["text"] == "Not yet: (of an earlier plan)"
    assert screen.answer()["attempt"] == 3


def test_numbers_and_choices_are_answered_in_words(screen):
    assert screen.exercise["kind"] == "choice"
    assert screen.exercise["how"] == "Choose one."
    assert "parts have to be added up" in screen.answer("1")["reasons"][0]
    assert screen.answer("2")["right"]
    screen.do(verb="question", name="sent")
    assert screen.exercise["how"] == "Answer with an amount of bytes, such as `3 KiB`."
    assert "both devices together" in screen.answer("4 MiB")["reasons"][0]
    assert screen.exercise["verdict"]["why"] == ""
    assert screen.answer("2 MiB")["why"].startswith("C has 512 x 2,048 x 2 bytes")


def test_a_wrong_answer_after_a_right_one_leaves_the_question_answered(screen):
    right = screen.answer("2")
    assert (right["text"], right["score"]) == ("Right.", ""), "of one point the text says as much"
    wrong = screen.answer("1")
    assert wrong["text"] == "Your earlier answer was right; this one is not:"
    assert not wrong["right"]
    assert screen.exercise["questions"][0]["done"]


def test_a_question_about_another_program_brings_its_plan_and_undo_takes_it_back():
    other = Plan(build("two_layer"), "all:8", "batch:all")
    screen = Screen(ONE, other)
    screen.do(verb="question", name="share")
    assert screen.session.plan == ONE["share"].plan
    screen.do(verb="undo")
    assert screen.session.plan == other
    assert "It is a plan for `two-layer`" in screen.exercise["about"]
    assert screen.met == [None, None, None]
    screen.do(verb="start_question")
    assert screen.exercise["about"] == ""


def test_what_may_not_change_is_said_before_it_is_checked(screen):
    screen.do(verb="question", name="share")
    screen.do(verb="rename_axis", axis="x", name="model")
    assert "It changes the mesh from `x:2` to `model:2`" in screen.exercise["about"]


def test_a_question_that_there_is_not_is_refused_in_the_exercise(screen):
    screen.do(verb="question", name="none")
    assert (screen.refusal["zone"], screen.refusal["message"][:31]) == ("exercise", "There is no question `none` in ")
    screen.do(verb="start_question")
    assert screen.refusal["message"] == "This question does not start from a plan."


def test_a_goal_that_asks_the_partitioner_is_not_known_until_it_has_answered():
    plan = ONE.first_plan.updated(layout="I:x")
    question = PlanQuestion(plan, GathersNothingWhole(), name="whole", ask="?")
    screen = Screen(Exercise("whole", "Whole", (question,)), plan)
    assert screen.met == [None]
    assert screen.answer()["right"]


def test_what_fails_while_it_is_checked_is_a_sentence(screen, monkeypatch):
    screen.do(verb="question", name="share")
    monkeypatch.setattr(PlanQuestion, "check", lambda *_: 1 / 0)
    assert screen.answer()["reasons"] == ["The check failed: ZeroDivisionError: division by zero"]


def test_a_cell_needs_a_plan_or_an_exercise_that_asks_for_one():
    from workbench import Workbench

    assert Workbench(exercise=ONE).plan == ONE.first_plan
    with pytest.raises(WorkbenchError, match="A board needs a plan"):
        Workbench()
    with pytest.raises(WorkbenchError, match="does not ask for a plan"):
        Workbench(exercise=Exercise("one", "One", (ONE["which"],)))


def offered(screen: Screen) -> tuple[list[str], list[str]]:
    """What alarms and notes offer to fix the plan by."""
    screen.do(verb="open", tab="notes")
    shown = screen.shown["board"]["alarms"][0]["edits"]
    rows = screen.shown["table"]["blocks"][0]["rows"]
    return shown, [edit for row in rows for cell in row["cells"] if isinstance(cell, dict) for edit in cell.get("edits", [])]


def test_as_long_as_a_plan_is_asked_for_nothing_offers_to_fix_it():
    wrong = ZERO["fit"].plan
    free, asked = Screen(None, wrong), Screen(ZERO, wrong)
    asked.do(verb="question", name="fit")
    assert asked.exercise["kind"] == "plan"
    assert "zero_1 (1 edit)" in offered(free)[0]
    assert set(offered(free)[0]) <= set(offered(free)[1])
    assert offered(asked) == ([], [])
    asked.session.apply(SetLayout(wrong.recipe("zero_1").layout))
    assert asked.answer()["right"]
    asked.do(verb="undo")
    assert offered(asked) == offered(free)


def test_a_host_offers_what_it_may():
    screens = [Screen(ONE), Screen(ONE)]
    assert {"tensors", "find"} <= {each["key"] for each in screens[0].shown["board"]["tabs"]}
    host = Host(exercise=ONE, searches=False, exchanges=False)
    Board(screens[1].session, screens[1].shown.__setitem__, host=host)
    assert "find" not in [each["key"] for each in screens[1].shown["board"]["tabs"]]
    assert [each.shown["board"]["files"]["exchanges"] for each in screens] == [True, False]


def test_figures_that_would_answer_the_next_prediction_stay_hidden():
    """The first two questions of this lesson ask for predictions, the third for a plan."""
    screen = Screen(ZERO, ZERO.first_plan)
    attempts = screen.board._exercise._progress.attempts
    shown = []
    for question in ZERO.questions[:2]:
        screen.do(verb="question", name=question.name)
        shown.append(screen.exercise["predicting"])
        attempts[question.name].is_done = True
    screen.do(verb="question", name=ZERO.questions[0].name)
    assert [*shown, screen.exercise["predicting"]] == [True, True, False]
