"""Every lesson's exercise accepts its right answers and refuses wrong ones with what helps: `lessons/NAME/answers.json` has both.

A third of the questions is answered in every run."""

import functools
import json
from pathlib import Path

import pytest

from workbench.core.remat import Remat
from workbench.exercises import ChoiceQuestion, Exercise, PlanQuestion, verify_exercise
from workbench.exercises.exercise import read_document

pytestmark = pytest.mark.compile

LESSONS = Path(__file__).parents[2] / "lessons"
NAMES = sorted(each.parent.name for each in LESSONS.glob("*/exercise.json"))
ANSWERS = {name: json.loads((LESSONS / name / "answers.json").read_text(encoding="utf-8")) for name in NAMES}
PAIRS = [pytest.param(name, question, id=f"{name}-{question}") for name in NAMES for question in ANSWERS[name]]


@functools.cache
def load(name: str) -> Exercise:
    return Exercise.load(LESSONS / name / "exercise.json")


def as_answer(question, given):
    """A plan where the answer says what it changes of the one to start from: fields of the plan, or `remat`."""
    if not isinstance(question, PlanQuestion) or not isinstance(given, dict):
        return given
    plan = question.plan.updated(**{name: each for name, each in given.items() if name != "remat"})
    return plan.updated(program=plan.program.variant(remat=Remat.parse(given["remat"]))) if "remat" in given else plan


@pytest.mark.parametrize("name", NAMES)
def test_a_lesson_has_a_text_and_answers_to_each_of_its_questions(name):
    exercise = load(name)
    assert exercise.name == name
    assert [each.name for each in exercise.questions] == list(ANSWERS[name])
    text = read_document(LESSONS / name / "lesson.md")
    assert all(f'exercise["{each.name}"]' in text for each in exercise.questions)


@pytest.mark.share(3)
@pytest.mark.parametrize("name", NAMES)
def test_no_question_of_a_lesson_refuses_every_answer(name):
    verify_exercise(load(name))


@pytest.mark.parametrize(("name", "question"), PAIRS)
def test_a_question_has_two_right_answers_and_three_wrong_ones(name, question):
    known = ANSWERS[name][question]
    assert len(known["accepted"]) >= 2
    assert len(known["rejected"]) >= 3


@pytest.mark.share(3)
@pytest.mark.parametrize(("name", "question"), PAIRS)
def test_right_answers_are_accepted(name, question):
    asked = load(name)[question]
    for given in ANSWERS[name][question]["accepted"]:
        verdict = asked.check(as_answer(asked, given))
        assert verdict, f"{given}: {verdict}"


@pytest.mark.share(3)
@pytest.mark.parametrize(("name", "question"), PAIRS)
def test_wrong_answers_are_refused_with_what_helps(name, question):
    asked = load(name)[question]
    for each in ANSWERS[name][question]["rejected"]:
        verdict = asked.check(as_answer(asked, each["answer"]))
        assert not verdict, each
        assert each["says"] in str(verdict), f"{each['answer']}: {verdict}"


def test_a_choice_accepts_every_text_that_it_ever_had():
    """Students' answers are stored, some by the text of a choice. A changed text goes to `formerly`; choices are never reordered."""
    recorded = json.loads((LESSONS.parent / "tests" / "golden" / "choice_texts.json").read_text(encoding="utf-8"))
    choices = {name: {each.name: each for each in load(name).questions if isinstance(each, ChoiceQuestion)} for name in NAMES}
    for name, questions in recorded.items():
        for question, texts in questions.items():
            read = [[choices[name][question].read(text) for text in one] for one in texts]
            assert read == [[{number}] * len(one) for number, one in enumerate(texts, 1)], (name, question)
    current = {name: {key: [each.text for each in question.choices] for key, question in found.items()} for name, found in choices.items()}
    assert {name: found for name, found in current.items() if found} == {
        name: {question: [one[-1] for one in texts] for question, texts in questions.items()} for name, questions in recorded.items()
    }, "add the new texts to tests/golden/choice_texts.json"
