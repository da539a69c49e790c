"""Questions of each kind: what may change, variants, hints by attempt, numbers with units, and the usual mistakes."""

import pytest

from workbench.documents import dump_plan
from workbench.errors import WorkbenchError
from workbench.exercises import (
    Choice,
    ChoiceQuestion,
    ComputesOnce,
    FewStatements,
    FigureOf,
    Fits,
    Lies,
    NumberQuestion,
    Peak,
    PlanQuestion,
    ScoredGoal,
    Sends,
    StepWithin,
    Variant,
)
from workbench.exercises.number_question import ALL_MISTAKES, explain_mistake
from workbench.exercises.plan_figures import format_quantity, parse_quantity
from workbench.models import build
from workbench.public_plan import Plan

pytestmark = pytest.mark.compile

PRODUCT = Plan(build("einsum"), "x:4 y:2")
LAYERS = Plan(build("two_layer"), "all:8", "", hardware="TPU v5e 2x4")


def test_every_goal_that_is_missed_is_told():
    verdict = PlanQuestion(PRODUCT, ComputesOnce(), Sends(), FewStatements(1)).check("J:x")
    assert len(verdict.reasons) == 2
    assert (verdict.score, verdict.most) == (1, 3)


def test_a_layout_that_cannot_be_is_told_as_the_planner_tells_it():
    question = PlanQuestion(PRODUCT, Sends())
    assert "There is no dimension `L`" in str(question.check("L:x"))
    assert "is not" in str(question.check("I=x"))


def test_a_value_that_is_not_there_is_told():
    assert "There is no value `dot`" in str(PlanQuestion(PRODUCT, Lies("dot", "[x, -]")).check("I:x"))


def test_a_plan_is_an_answer_too_and_its_mesh_may_be_another():
    one = PlanQuestion(LAYERS, StepWithin("100 us"), Fits())
    assert one.check(LAYERS.updated(layout="hidden:all"))
    assert one.check(LAYERS.updated(mesh="data:2 model:4", layout="batch:data; hidden:model")).reasons == (
        "A step takes 309 µs; 100 µs are allowed.",
    )


def test_a_plan_of_something_else_is_no_answer():
    one = PlanQuestion(LAYERS, StepWithin(1.0))
    assert one.check(LAYERS.updated(mesh="all:16", hardware="TPU v5e 4x4")).reasons == (
        "It is for TPU v5e 4x4, but the question needs TPU v5e 2x4.",
    )
    assert one.check(PRODUCT.updated(mesh="x:8", hardware="TPU v5e 2x4")).reasons == (
        "It is a plan for `einsum`; a plan for `two-layer` with the same sizes is required.",
    )


def test_what_may_not_change_is_told_with_what_it_was():
    one = PlanQuestion(LAYERS, Fits(), may_change=("layout",))
    assert one.check(LAYERS.updated(mesh="data:2 model:4")).reasons == (
        "It changes the mesh from `all:8` to `data:2 model:4`; here the layout alone may change.",
    )
    many = PlanQuestion(LAYERS, Fits(), may_change=("layout", "devices"))
    assert many.check(LAYERS.updated(mesh="all:16", hardware="TPU v5e 4x4"))
    assert many.check(LAYERS.updated(mesh="all:8", hardware="8 H100")).reasons == ("It is for 8 H100, but the question needs TPU v5e.",)


def test_a_variant_refuses_what_holds_by_accident():
    """Where more devices sum, more is sent; where none do, nothing is."""
    tight = Variant(mesh={"x": 8}, goals=(Sends(),), points=2, hint="Which dimension is summed over?")
    one = PlanQuestion(PRODUCT, Sends("8 MiB"), variants=[tight])
    verdict = one.check("J:x")
    assert not verdict
    assert (verdict.score, verdict.most) == (1, 3)
    assert verdict.reasons[0].startswith("On x:8: ")
    assert verdict.hints == ("Which dimension is summed over?",)
    assert [each.hidden for each in verdict.checks] == [False, True]
    assert one.check("I:x")


def test_a_variant_has_other_sizes_of_the_model_and_other_hardware():
    large = Variant({"batch": 4096}, hardware="TPU v5e 4x2")
    verdict = PlanQuestion(LAYERS, Peak("30 MiB"), variants=[large]).check("hidden:all")
    assert verdict.reasons[0].startswith("With batch=4096 for TPU v5e 4x2: The fullest device holds ")


def test_a_variant_where_the_decisions_cannot_be_made_says_so():
    odd = Variant({"batch": 4095})
    verdict = PlanQuestion(LAYERS, Fits(), variants=[odd]).check("x=[all, -]")
    assert verdict.checks[1].what == "It holds with batch=4095, too."
    gone = PlanQuestion(PRODUCT, Fits(), variants=[Variant(mesh={"x": 2})]).check(PRODUCT.updated(mesh="all:8"))
    assert "The mesh has no axis `x`; there is `all`." in str(gone)


def test_hints_come_with_attempts_and_not_with_what_is_right():
    one = PlanQuestion(PRODUCT, ScoredGoal(Sends(), 3, "Look at J."), hints=["First.", "Second."])
    assert one.check("J:x").hints == ("Look at J.",)
    assert one.check("J:x", attempt=2).hints == ("Look at J.", "First.")
    assert one.check("J:x", attempt=9).hints == ("Look at J.", "First.", "Second.")
    assert one.check("I:x", attempt=9).hints == ()
    assert str(one.check("J:x", attempt=2)).endswith("\nHint: Look at J.\nHint: First.")


SENT = FigureOf("sent", dump_plan(PRODUCT), {"layout": "J:x"})
NUMBER = NumberQuestion("sent", "How much?", SENT, "bytes", devices=4, mistakes=((12345, "Where is that from?"),), hints=("A ring.",))


def test_a_number_comes_from_the_plan():
    right = PRODUCT.updated(layout="J:x").report().sent
    assert NUMBER.right == right
    assert NUMBER.check(right)
    assert NUMBER.check(format_quantity(right, "bytes"))


def test_a_wrong_number_is_told_its_likely_mistake():
    right = NUMBER.right
    assert "bits instead of bytes" in str(NUMBER.check(8 * right))
    assert "all devices instead" in str(NUMBER.check(4 * right))
    assert "keeps its own part" in str(NUMBER.check(right * 4 / 3))
    assert "Where is that from?" in str(NUMBER.check("12345"))
    assert str(NUMBER.check(1, attempt=2)) == "Not yet:\n  - 1 B is wrong.\nHint: A ring."


def test_a_number_without_its_unit_is_told_how_to_write_it():
    assert "`soon` is not a time with its unit." in str(NumberQuestion("t", "When?", 1e-3, "seconds").check("soon"))
    assert not NumberQuestion("t", "When?", 1e-3, "seconds").check("1")
    with pytest.raises(WorkbenchError, match="is not a unit"):
        NumberQuestion("t", "?", 1.0, "furlongs")


@pytest.mark.parametrize("mistake", ALL_MISTAKES, ids=lambda each: f"{each.factor:.4g} {each.units}")
def test_each_usual_mistake_is_recognised_and_the_right_answer_is_none(mistake):
    unit = mistake.units[0] if mistake.units else "count"
    assert explain_mistake(0.7 * mistake.factor, 0.7, unit, 0.02) == mistake.hint
    assert not explain_mistake(0.7 * 17.3, 0.7, unit, 0.02)


def test_the_rest_of_a_share_is_recognised():
    assert explain_mistake(0.7, 0.3, "share", 0.02).startswith("That is the complement")
    assert explain_mistake(-0.3, 0.3, "share", 0.02) == "The sign is wrong."
    assert not explain_mistake(0.3, 0.0, "share", 0.02)


CHOICES = ChoiceQuestion("which", "Which?", (Choice("A", True), Choice("B", why="B is summed."), Choice("C", True)))


@pytest.mark.parametrize("answer", ["1 3", "3,1", (1, 3)])
def test_all_right_choices_and_no_other_are_right(answer):
    assert CHOICES.check(answer)


@pytest.mark.parametrize(
    ("answer", "said"),
    {
        "1 2": "Not “B”. B is summed.",
        "A": "1 more is right.",
        "4": "`4` is not one of the choices.",
        "": "`` is not one of the choices.",
    }.items(),
)
def test_others_are_told_why(answer, said):
    assert said in str(CHOICES.check(answer))


def test_who_is_right_is_told_why():
    number = NumberQuestion("sent", "How much?", 2.0, "count", why="One there and one back.")
    assert str(number.check(2)) == "Right. One there and one back."
    assert "back" not in str(number.check(3))
    choice = ChoiceQuestion("which", "Which?", (Choice("A", True, "It is summed."), Choice("B")))
    assert str(choice.check(1)) == "Right. It is summed."
    assert "summed" not in str(choice.check(2))


def test_in_a_notebook_a_verdict_is_markdown_with_nothing_but_code_in_it():
    verdict = PlanQuestion(PRODUCT, Lies("dot_general", "[x, y]"), hints=("At $2, not $3.",)).check("K:y", attempt=2)
    assert verdict._repr_markdown_() == (
        '**Not yet:**\n\n- `dot_general` is sharded as [-, y], not [x, y]: `explain("dot_general")` tells why.\n\nHint: At \\$2, not \\$3.'
    )
    assert PlanQuestion(PRODUCT, Sends()).check("I:x")._repr_markdown_() == "**Right.**"


@pytest.mark.parametrize(
    "question",
    [
        NumberQuestion("sent", "How much?", 12345.0, "count", hints=("12345",), why="12345"),
        ChoiceQuestion("which", "Which?", (Choice("A", True, "12345"), Choice("B", why="12345")), hints=("12345",)),
        PlanQuestion(PRODUCT, ScoredGoal(Sends(), hint="12345"), name="share", ask="How?", hints=("12345",)),
    ],
    ids=lambda each: each.name,
)
def test_what_a_question_shows_of_itself_has_no_answer(question):
    assert repr(question) == question._repr_markdown_()
    assert "12345" not in repr(question)
    assert "True" not in repr(question)
    assert question.ask in repr(question)


def test_a_question_without_a_right_choice_is_an_error():
    with pytest.raises(WorkbenchError, match="No choice of"):
        ChoiceQuestion("which", "Which?", (Choice("A"), Choice("B")))


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        *(
            ("16 KiB", "bytes", 16384),
            ("1,024", "bytes", 1024),
            ("2.5 ms", "seconds", 2.5e-3),
            ("3e9", "count", 3e9),
            ("4 devices", "count", 4),
        ),
        *(("12.5%", "share", 0.125), ("12 per cent", "share", 0.12), ("0.5 of the time", "share", 0.5)),
    ],
)
def test_a_quantity_is_read_as_people_write_it(text, unit, value):
    assert parse_quantity(text, unit) == pytest.approx(value)


@pytest.mark.parametrize(("text", "unit"), [("5 bananas", "share"), ("5 k", "share"), ("bananas", "count"), ("5 bananas", "seconds")])
def test_text_that_is_no_quantity_of_the_unit_is_rejected(text, unit):
    with pytest.raises(WorkbenchError, match=f"`{text}` is not"):
        parse_quantity(text, unit)
