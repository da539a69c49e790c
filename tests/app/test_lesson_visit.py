"""A lesson on a served page: its text with the outputs of its cells, its questions, and answers that this machine keeps."""

import json
import time

import pytest

from workbench.app.page.lesson_text import LessonText, parse_lesson, run_cell
from workbench.app.page.part_changes import VisitorWindow
from workbench.app.page.requested_visit import open_visit
from workbench.app.page.serve_options import ServeOptions
from workbench.app.page.visit import VisitContext
from workbench.core.installation import shipped_folder
from workbench.exercises.lesson_answers import count_questions, count_right, exercise_text, lesson_of, read_stored_answers
from workbench.models import build
from workbench.public_plan import Plan
from workbench.widgets.glossary.lessons import COURSES, lesson_link
from workbench.widgets.shared_states import at_once
from workbench.widgets.tabs.board_tabs import SECTIONS

LESSONS = [name for titles in COURSES.values() for name in titles]


class Lesson:
    """The page of one lesson, or of all."""

    def __init__(self, folder, **query: str) -> None:
        self.shown: dict = {}
        self.window = VisitorWindow(lambda target, sent: self.shown.update(sent) if target == "board" else None)
        served = ServeOptions(lambda: Plan(build("two_layer"), "data:4"), start=True, folder=folder)
        self.visit = open_visit(served, query, VisitContext(self.window, None, at_once))

    @property
    def state(self) -> dict:
        self.visit.show_again()
        return json.loads(self.shown["board"])

    def do(self, verb: str, **fields) -> None:
        self.visit.hear({"gesture": {"verb": verb, **fields}})

    def answer(self, given: str) -> dict:
        self.do("answer_question", answer=given)
        deadline = time.monotonic() + 60
        while self.state["exercise"]["checking"] and time.monotonic() < deadline:
            time.sleep(0.02)
        return self.state["exercise"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_STATE", str(tmp_path / "state"))
    return tmp_path


def test_answers_are_kept_and_the_next_visit_begins_with_the_first_open_question(folder):
    page = Lesson(folder, lesson="one_product")
    asked = page.state["exercise"]
    assert (asked["name"], asked["predicting"], asked["next"]) == ("which", True, None)
    assert [tab["key"] for tab in page.state["tabs"]] == ["overview", "notes", "memory", "communication", "devices", "tensors"]
    assert [view["label"] for view in page.state["views"]] == ["Overview", "Memory", "Communication", "Program"]
    right = next(str(number) for number in range(1, 5) if page.answer(str(number))["questions"][0]["done"])
    asked = page.state["exercise"]
    assert (asked["predicting"], asked["next"]["label"]) == (False, "Next: question 2")
    assert json.loads(read_stored_answers("one_product"))["right"] == ["which"]
    assert count_right("one_product") == 1 < count_questions("one_product")
    again = Lesson(folder, lesson="one_product").state["exercise"]
    assert (again["name"], [each["done"] for each in again["questions"]]) == ("share", [True, False, False, False])
    assert int(right) == json.loads(read_stored_answers("one_product"))["attempts"]["which"]


def test_a_malformed_answer_is_refused_and_is_no_attempt(folder):
    page = Lesson(folder, lesson="one_product")
    page.do("question", name="sent")
    page.do("answer_question", answer="5 bananas")
    assert page.state["refusal"]["message"] == "`5 bananas` is not an amount of bytes."
    assert page.answer("4 MiB")["verdict"]["attempt"] == 1


def test_an_edit_neither_sends_nor_encodes_the_text_of_the_lesson_again(folder):
    page = Lesson(folder, lesson="one_product")
    lesson = page.visit.board._host.lesson
    deadline = time.monotonic() + 60
    while any(block["kind"] == "code" and block["outputs"] is None for block in lesson.blocks) and time.monotonic() < deadline:
        time.sleep(0.02)
    sent = json.dumps(page.state["lesson_blocks"])
    text = lesson.blocks.text
    page.do("question", name="sent")
    assert len(page.shown["changes"]) < len(sent)
    assert lesson.blocks.text is text is not None


def test_the_last_right_answer_leads_to_the_next_lesson_and_the_progress_can_be_reset(folder):
    page = Lesson(folder, lesson="one_product")
    for question in page.visit.board._host.exercise.questions:
        page.visit.board._host.progress.attempts[question.name].is_done = True
    assert page.state["exercise"]["next"] == {
        "label": f"Next lesson: {lesson_link(LESSONS[1])['title']}",
        "question": "",
        "link": f"?lesson={LESSONS[1]}",
    }
    page.do("question", name="sent")
    page.answer("4 MiB")
    page = Lesson(folder, lessons="")
    start = page.state["start"]
    assert (start["open"], start["only_lessons"]) == (True, True)
    assert [each["right"] for course in start["lessons"] for each in course["lessons"]][:2] == [1, 0]
    page.do("forget_lessons")
    assert [each["right"] for course in page.state["start"]["lessons"] for each in course["lessons"]][:1] == [0]
    assert read_stored_answers("one_product") == ""


def test_a_server_for_others_keeps_no_answers_of_theirs(folder):
    page = Lesson(None, lesson="one_product")
    page.answer("1")
    assert read_stored_answers("one_product") == ""
    assert Lesson(None).state["start"]["lessons"][0]["lessons"][0]["questions"] == 0


def test_an_unknown_lesson_is_told_with_the_nearest_name(folder):
    page = Lesson(folder, lesson="one_produkt")
    assert "Did you mean `one_product`?" in page.window.bridge["failure"]["text"]


@pytest.mark.parametrize("name", LESSONS)
def test_every_lesson_has_its_questions_in_its_text_and_no_mark_of_its_source(name):
    blocks = list(parse_lesson((shipped_folder("lessons") / name / "lesson.md").read_text(encoding="utf-8")))
    exercise = json.loads((shipped_folder("lessons") / name / "exercise.json").read_text(encoding="utf-8"))
    assert {each["name"] for each in blocks if each["kind"] == "question"} <= {each["name"] for each in exercise["questions"]}
    assert {*exercise["sections"]} <= {section.key for section in SECTIONS}
    prose = " ".join(each["html"] for each in blocks if each["kind"] == "html")
    assert not any(mark in prose for mark in ("{code-cell}", "```", "lesson.md", "$", "jupytext"))


def test_the_lesson_of_an_exercise_is_found_by_its_document():
    assert [lesson_of(exercise_text(name)) for name in LESSONS] == [*LESSONS]
    assert lesson_of('{"title": "of one\'s own"}') == ""


def test_cells_run_in_order_and_one_that_fails_says_why():
    text, shown = LessonText("one_product"), []
    text._run(lambda: shown.append(1))
    cells = [each for each in text.blocks if each["kind"] == "code"]
    assert len(shown) == len(cells)
    assert {output["kind"] for cell in cells for output in cell["outputs"]} >= {"html", "text"}
    assert list(run_cell("1 / 0", {})) == [{"kind": "text", "text": "ZeroDivisionError: division by zero"}]
