"""Exercises as documents: the schema is that of the goals there are, and what is wrong with a document is said in its author's words."""

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from tools.make_exercise_schema import SCHEMA, dump_schema
from workbench import Exercise
from workbench.documents import dump_plan
from workbench.errors import DocumentError
from workbench.exercises import ALL_GOALS, ChoiceQuestion, NumberQuestion, PlanQuestion
from workbench.models import build
from workbench.public_plan import Plan

pytestmark = pytest.mark.compile

PRODUCT = Plan(build("einsum"), "x:4 y:2")


def document(**changes) -> dict:
    return {
        "format": "sharding-workbench.exercise",
        "version": 1,
        "name": "one_product",
        "title": "One product",
        "plans": {"product": json.loads(dump_plan(PRODUCT))},
        "questions": [
            {
                "question": "plan",
                "name": "split",
                "ask": "Split the work, and send nothing.",
                "start": "product",
                "may_change": ["layout"],
                "goals": [{"goal": "computes_once"}, {"goal": "sends", "points": 2, "hint": "Which dimension is summed over?"}],
                "variants": [{"arguments": {"sizes": [2048, 512, 2048]}, "mesh": {"x": 8}}],
                "hints": ["Try both rows and columns."],
            },
            {
                "question": "number",
                "name": "bytes",
                "ask": "How many bytes of A has a device?",
                "unit": "bytes",
                "answer": {"figure": "input", "plan": "product", "change": {"layout": "I:x; K:y"}},
                "devices": 8,
            },
            {
                "question": "choice",
                "name": "which",
                "ask": "Which dimension is summed over?",
                "choices": [{"text": "I", "why": "C has rows."}, {"text": "J", "right": True}, {"text": "K"}],
            },
        ],
        **changes,
    }


def with_question(number: int, **changes) -> dict:
    questions = document()["questions"]
    questions[number] = {key: value for key, value in {**questions[number], **changes}.items() if value is not None}
    return document(questions=questions)


ONE = Exercise.parse(json.dumps(document()))


def test_the_schema_is_a_schema_and_that_of_the_goals_there_are():
    Draft202012Validator.check_schema(json.loads(dump_schema()))
    assert SCHEMA.read_text(encoding="utf-8") == dump_schema(), "run tools/make_exercise_schema.py"
    assert all(f'"{each.name}"' in dump_schema() for each in ALL_GOALS)


def test_an_exercise_has_its_questions_in_order(tmp_path):
    assert [type(each) for each in ONE.questions] == [PlanQuestion, NumberQuestion, ChoiceQuestion]
    assert ONE.points == 3 + 1 + 1 + 1
    file = tmp_path / "exercise.json"
    file.write_text(json.dumps(document()), encoding="utf-8")
    assert Exercise.load(file) == ONE


def test_an_answer_is_checked_by_what_it_is_or_by_the_name_of_its_question():
    assert ONE.check(PRODUCT.updated(layout="I:x; K:y"))
    assert not ONE.check(PRODUCT.updated(layout="J:x"))
    assert ONE.check("1.25 MiB", "bytes")
    assert ONE["which"].check("J")
    with pytest.raises(DocumentError, match="needs the name of the answered question: `split`, `bytes`, `which`"):
        ONE.check("2")
    with pytest.raises(DocumentError, match="There is no question `byte` in `one_product`"):
        ONE["byte"]


def test_a_plan_is_for_the_question_that_it_is_about():
    other = {**document()["questions"][0], "name": "mesh", "may_change": ["mesh", "layout"]}
    two = Exercise.parse(json.dumps(document(questions=[document()["questions"][0], other])))
    assert two.question_of(PRODUCT.updated(mesh="x:8", layout="I:x")).name == "mesh"
    with pytest.raises(DocumentError, match="name of the answered question"):
        two.question_of(PRODUCT)


WRONG = {
    "is JSON, but not an exercise": {"format": "other"},
    "is of version 2; this workbench reads up to version 1.": document(version=2),
    "'questions' is a required property": {key: value for key, value in document().items() if key != "questions"},
    "at `$.questions[0].goals[0].goal`, 'fit' is not one of ": with_question(0, goals=[{"goal": "fit"}]),
    "at `$.questions[0].goals[0]`, 'at_most' is a required property": with_question(0, goals=[{"goal": "peak"}]),
    "at `$.questions[0].goals[0]`, Additional properties are not allowed ('most' was unexpected)": with_question(
        0, goals=[{"goal": "sends", "most": 1}]
    ),
    "question `split`: There is no plan `products` in the exercise; there are `product`.": with_question(0, start="products"),
    "question `split`: `much` is not an amount of bytes.": with_question(0, goals=[{"goal": "peak", "at_most": "much"}]),
    "at `$.questions[0].may_change[0]`, 'colour' is not one of": with_question(0, may_change=["colour"]),
    "question `bytes`: `many` is not an amount of bytes.": with_question(1, answer="many"),
    "at `$.questions[1].answer.figure`, 'peek' is not one of": with_question(1, answer={"figure": "peek", "plan": "product"}),
    "at `$.questions[1].unit`, 'miles' is not one of": with_question(1, unit="miles"),
    "question `which`: No choice of `which` is marked right.": with_question(2, choices=[{"text": "I"}, {"text": "J"}]),
    "has two questions `split`.": with_question(1, name="split"),
}


@pytest.mark.parametrize(("said", "wrong"), WRONG.items(), ids=WRONG)
def test_what_is_wrong_with_a_document_is_said(said, wrong):
    with pytest.raises(DocumentError) as caught:
        Exercise.parse(json.dumps(wrong), "`mine.json`")
    assert said in str(caught.value)


def test_a_plan_that_cannot_be_read_is_an_error_of_its_question_alone():
    broken = document(plans={"product": {"format": "other"}})
    one = Exercise.parse(json.dumps(broken))
    assert "is JSON, but not a plan document" in str(one.check("I:x", "split"))
    assert one.check("J", "which")


def test_a_program_of_a_module_is_not_imported_for_an_exercise():
    plan = {**json.loads(dump_plan(PRODUCT)), "program": {"target": "os:system", "arguments": {"command": "true"}}}
    verdict = Exercise.parse(json.dumps(document(plans={"product": plan}))).check("I:x", "split")
    assert "os" in str(verdict)
    assert not verdict


def test_files_that_cannot_be_read_are_errors(tmp_path):
    with pytest.raises(DocumentError, match="cannot be read: No such file"):
        Exercise.load(tmp_path / "none.json")
    with pytest.raises(DocumentError, match="should be the path of a file"):
        Exercise.load(3)  # type: ignore[arg-type]
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe")
    with pytest.raises(DocumentError, match="is not text in UTF-8"):
        Exercise.load(tmp_path / "binary.json")
    (tmp_path / "text.json").write_text("hello")
    with pytest.raises(DocumentError, match="is not JSON"):
        Exercise.load(Path(tmp_path / "text.json"))
