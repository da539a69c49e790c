"""An author hears what refuses every answer: a variant that the start does not divide or that cannot be planned, an unknown figure."""

import json

import pytest

from tests.exercises.test_exercise_documents import document, with_question
from workbench.cli.main import main
from workbench.documents import dump_plan
from workbench.errors import DocumentError
from workbench.exercises import Exercise, PlanQuestion, verify_exercise
from workbench.exercises.verify_exercise import find_flaws
from workbench.models import build
from workbench.public_plan import Plan
from workbench.team.planning.grade_answers import describe_exercise

pytestmark = pytest.mark.compile

LAYERS = Plan(build("two_layer"), "all:8", "batch:all", hardware="TPU v5e 2x4")


def text_of(variants=(), start=LAYERS, **changes) -> str:
    question = {
        "question": "plan",
        "name": "split",
        "ask": "Split it.",
        "start": "layers",
        "may_change": ["layout"],
        "goals": [{"goal": "sends"}],
        "variants": list(variants),
    }
    return json.dumps(document(plans={"layers": json.loads(dump_plan(start))}, questions=[{**question, **changes}]))


def exercise(*variants, **changes) -> Exercise:
    return Exercise.parse(text_of(variants, **changes))


def test_a_variant_that_the_start_does_not_divide_is_told_whole():
    odd = exercise({"mesh": {"all": 4}}, {"arguments": {"batch": 4092}})
    assert not odd["split"].check("batch:all")  # every answer is refused
    with pytest.raises(DocumentError) as raised:
        verify_exercise(odd)
    assert str(raised.value) == (
        "`one_product` has goals that no answer can meet:\n"
        "  - Question `split`, its variant 2 (with batch=4092): `x: float32[batch=4092, io=1024]`: the layout puts `batch` (4092) on mesh "
        "axis `all` (8), and 4092 % 8 = 4. JAX requires equal parts. Every answer would be rejected for it.\n"
        "  Try: choose sizes of that variant that fit the start's layout `batch:all` · start from a plan with fewer statements · make the "
        "parts 6 or 11 · pad `batch` to 4096 · leave `batch` whole."
    )


@pytest.mark.parametrize(
    ("variant", "said"),
    [
        ({"arguments": {"bach": 4}}, "its variant 1 (with bach=4): Model `two_layer`: There is no argument `bach`"),
        ({"mesh": {"x": 4}}, "its variant 1 (on x:4): The mesh has no axis `x`; there is `all`."),
        ({"mesh": {"all": 3}}, "512 % 3 = 2"),
        ({"hardware": "TPU v99 2x4"}, "its variant 1 (for TPU v99 2x4): "),
        ({"goals": [{"goal": "lies", "value": "nowhere", "sharding": "[-]"}]}, "the goal `lies`: There is no value `nowhere`"),
    ],
)
def test_a_variant_that_cannot_be_planned_is_named_with_the_reason(variant, said):
    [flaw] = find_flaws(exercise(variant, start=LAYERS.updated(mesh="all:8", hardware="TPU v5e 2x4")))
    assert said in str(flaw)
    assert flaw.question == "split"


def test_a_goal_that_is_never_known_is_one_of_no_answer():
    [flaw] = find_flaws(exercise(start=LAYERS.updated(hardware=None), goals=[{"goal": "step_time", "at_most": "1 s"}]))
    assert str(flaw).endswith("the goal `step_time`: The step time is unknown: the plan has no hardware.")


def test_a_value_that_an_answer_may_make_is_not_missed():
    goals = [{"goal": "lies", "value": "nowhere", "sharding": "[-]"}]
    assert not list(find_flaws(exercise(goals=goals, may_change=["layout", "remat"])))
    assert len(list(find_flaws(exercise(goals=goals)))) == 1


def test_a_start_and_the_plan_of_a_number_are_planned_too():
    unknown = json.loads(text_of())
    unknown["plans"]["layers"]["layout"] = "nothing:all"
    number = {"question": "number", "name": "n", "ask": "?", "unit": "bytes", "answer": {"figure": "sent", "plan": "layers"}}
    unknown["questions"].append(number)
    found = [str(each) for each in find_flaws(Exercise.parse(json.dumps(unknown)))]
    assert [each.partition(": ")[0] for each in found] == [
        "Question `split`, the start plan",
        "Question `n`, the plan of the answer",
    ]


def test_an_exercise_that_can_be_answered_has_none():
    good = Exercise.parse(json.dumps(document()))
    verify_exercise(good)
    assert isinstance(good["split"], PlanQuestion)


def test_who_hands_it_out_hears_of_it():
    with pytest.raises(DocumentError, match=r"its variant 1 \(with batch=4092\)"):
        describe_exercise(text_of([{"arguments": {"batch": 4092}}]))


def test_the_command_checks_an_exercise(tmp_path, capsys):
    path = tmp_path / "exercise.json"
    path.write_text(json.dumps(document()))
    assert main(["grade", str(path), "--check"]) == 0
    assert capsys.readouterr().out == "One product (one_product): 3 questions, each of which can be answered at every size\n"
    path.write_text(json.dumps(with_question(0, variants=[{"mesh": {"z": 3}}])))
    assert main(["grade", str(path), "--check"]) == 1
    assert "Question `split`, its variant 1 (on z:3): The mesh has no axis `z`; there are `x`, `y`." in capsys.readouterr().err
    assert main(["grade", str(path), "--check", "--answer", "which=J"]) == 1
    assert "--check checks the exercise and grades no answers" in capsys.readouterr().err
