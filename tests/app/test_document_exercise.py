"""An exercise beside a document of JupyterLab: its panel over the plan, what is kept of answers, and files that are something else."""

import json
import time

import pytest

from tests.exercises.test_exercise_documents import PRODUCT, document
from workbench.app.page.part_changes import VisitorWindow
from workbench.app.page.requested_visit import open_visit
from workbench.app.page.serve_options import ServeOptions
from workbench.app.page.visit import VisitContext
from workbench.documents import dump_plan, parse_plan
from workbench.exercises import Exercise
from workbench.exercises.grading import grade, read_submission
from workbench.models import build
from workbench.plan.edits import OpenPlan
from workbench.public_plan import Plan
from workbench.widgets.shared_states import at_once

EXERCISE = json.dumps(document())
OTHER = Plan(build("two_layer", batch=16, io=64, hidden=30), "data:4 model:2")


class Tab:
    """A document tab: what its page was sent, and its board."""

    def __init__(self, text: str, name: str = "split.plan.json", exercise: str = EXERCISE, answers: str = "") -> None:
        self.shown: dict = {}
        self.window = VisitorWindow(lambda target, sent: self.shown.update(sent) if target == "board" else None)
        self.visit = open_visit(ServeOptions(lambda: OTHER), {"host": "jupyterlab"}, VisitContext(self.window, None, at_once))
        opened = {"kind": "open", "text": text, "name": name, "exercise": exercise, "answers": answers}
        self.visit.hear({"heard": opened})

    @property
    def panel(self):
        self.visit.show_again()
        return json.loads(self.shown["board"])["exercise"]

    @property
    def notice(self) -> str:
        return self.window.bridge["notice"].get("text", "")

    @property
    def kept(self) -> dict:
        return json.loads(self.window.bridge["answers"])

    def do(self, verb: str, **fields) -> None:
        self.visit.hear({"gesture": {"verb": verb, **fields}})

    def answer(self, question: str, given: str = "") -> dict:
        self.do("question", name=question)
        before = self.window.bridge["answers"]
        self.do("answer_question", answer=given)
        until = time.monotonic() + 20
        while self.window.bridge["answers"] == before and time.monotonic() < until:
            time.sleep(0.02)
        return self.kept


@pytest.fixture
def open_tab():
    tabs = []

    def open_(*given, **more) -> Tab:
        tabs.append(Tab(*given, **more))
        return tabs[-1]

    yield open_
    for each in tabs:
        each.visit.close()


def test_a_plan_beside_an_exercise_has_its_panel_with_the_question_of_the_files_name(open_tab):
    panel = open_tab(dump_plan(PRODUCT)).panel
    assert (panel["title"], panel["name"]) == ("One product", "split")
    assert [each["met"] for each in panel["goals"]] == [False, True]


def test_goals_tick_while_the_plan_changes(open_tab):
    tab = open_tab(dump_plan(PRODUCT), "mine.plan.json")
    tab.visit.board.session.apply(OpenPlan(PRODUCT.updated(layout="I:x; K:y"), "split"))
    assert [each["met"] for each in tab.panel["goals"]] == [True, True]


def test_a_new_document_begins_with_the_plan_of_its_question(open_tab):
    tab = open_tab("", "split.plan.json")
    assert parse_plan(tab.window.bridge["text"], "it").program.name == PRODUCT.program.name
    assert open_tab("", "new.plan.json", exercise="").visit.board.session.plan.program.name == OTHER.program.name


def test_what_is_answered_is_kept_and_stands_there_again(open_tab, tmp_path):
    tab = open_tab(dump_plan(PRODUCT.updated(layout="I:x; K:y")))
    kept = tab.answer("split")
    assert kept["answers"]["split"] == json.loads(dump_plan(PRODUCT.updated(layout="I:x; K:y")))
    assert (kept["exercise"], kept["attempts"], kept["right"]) == ("one_product", {"split": 1}, ["split"])
    wrong = tab.answer("which", "1")
    assert (wrong["answers"], wrong["right"]) == ({"which": "1"}, [])
    again = open_tab(dump_plan(PRODUCT), answers=json.dumps(kept)).panel
    assert [each["done"] for each in again["questions"]] == [True, False, False]
    (tmp_path / "exercise.answers.json").write_text(json.dumps(kept))
    one = Exercise.parse(EXERCISE)
    assert grade(one, read_submission(tmp_path / "exercise.answers.json", one)).verdicts["split"]


def test_a_wrong_answer_takes_no_right_ones_place(open_tab):
    tab = open_tab(dump_plan(PRODUCT))
    assert tab.answer("which", "2")["answers"] == {"which": "2"}
    later = tab.answer("which", "1")
    assert (later["answers"], later["attempts"], later["right"]) == ({}, {"which": 2}, ["which"])


@pytest.mark.parametrize("exercise", ["", '{"exercise": "push-ups"}', "{"])
def test_a_file_of_another_program_is_none(open_tab, exercise):
    tab = open_tab(dump_plan(PRODUCT), exercise=exercise)
    assert tab.panel is None
    assert tab.notice == ""


def test_a_plan_about_something_else_in_the_same_folder_has_no_panel(open_tab):
    assert open_tab(dump_plan(OTHER), "other.plan.json").panel is None


def test_an_exercise_that_cannot_be_read_is_told_over_the_board(open_tab):
    tab = open_tab(dump_plan(PRODUCT), exercise=json.dumps(document(questions=[])))
    assert tab.panel is None
    assert "`exercise.json` is not valid" in tab.notice
    foreign = document()
    foreign["plans"]["product"]["program"] = {"target": "os:system", "arguments": {"command": "true"}}
    assert "os:system" in open_tab(dump_plan(PRODUCT), exercise=json.dumps(foreign)).notice


def test_earlier_answers_that_cannot_be_read_are_never_written_over(open_tab):
    tab = open_tab(dump_plan(PRODUCT), answers="{")
    assert "`exercise.answers.json` is not JSON" in tab.notice
    assert tab.panel["name"] == "split"
    tab.do("question", name="which")
    tab.do("answer_question", answer="2")
    until = time.monotonic() + 20
    while not tab.panel["verdict"] and time.monotonic() < until:
        time.sleep(0.02)
    assert tab.window.bridge["answers"] == ""
