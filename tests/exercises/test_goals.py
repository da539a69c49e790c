"""Goals: what is right is said to be, and what is wrong is refused with what it misses."""

from dataclasses import fields
from functools import cache

import jax
import jax.numpy as jnp
import pytest

from workbench.errors import DocumentError
from workbench.exercises import (
    ALL_GOALS,
    BoundBy,
    Bubble,
    ComputesOnce,
    Devices,
    FewStatements,
    FigureAtLeast,
    FigureAtMost,
    Fits,
    GathersNothingWhole,
    Holds,
    Lies,
    Mfu,
    PadsNothing,
    Peak,
    PlanQuestion,
    SameResult,
    Sends,
    StepWithin,
    UsesCollective,
)
from workbench.exercises.goals import parse_goal
from workbench.exercises.plan_figures import ALL_FIGURES, read_figure
from workbench.models import build
from workbench.public_plan import Plan
from workbench.tracing import trace

pytestmark = pytest.mark.compile


def spec(*shape):
    return jax.ShapeDtypeStruct(shape, "float32")


PRODUCT = Plan(trace(lambda A, B: A @ B, spec(64, 32), spec(32, 128), dims={"A": "I J", "B": "J K"}, name="product"), "x:8")
GRID = PRODUCT.updated(mesh="x:4 y:2")
CUBE = Plan(trace(lambda x: jnp.sin(x) * 2, spec(64, 64, 64), dims={"x": "a b c"}, name="cube"), "r:2 c:4")
UNEVEN = Plan(trace(lambda x: jnp.exp(x).sum(0), spec(9, 12), dims={"x": "words d"}, name="uneven"), "data:8")
LAYERS = Plan(build("two_layer"), "all:8", "", hardware="TPU v5e 2x4")


# Plans of models are traced when a test asks for them, not when the file is read.


@cache
def gpt():
    return Plan(build("gpt", layers=4), "stage:2 data:4", "batch:data", hardware="TPU v5e 2x4")


@cache
def two_stages():
    return gpt().updated(pipeline="stages:2 micro_batches:2 axis:stage")


@cache
def large():
    return Plan(build("gpt", preset="gpt3-1.3b", batch=16, remat=True), "data:16", hardware="TPU v5e 4x4")


def in_bfloat16():
    program = build("gpt", layers=4)
    return gpt().updated(program=program.variant(precision=program.precision.parse("bfloat16")))


# the goal, the start plan, a right answer, a wrong one, and what is said of it; a plan, or what makes one
CASES = {
    Lies("dot_general", "[x, y]"): (GRID, "I:x; K:y", "I:x", "`dot_general` is sharded as [x, -], not [x, y]"),
    FewStatements(1): (GRID, "I:x", "I:x; K:y", "2 statements; 1 is enough."),
    Sends(): (PRODUCT, "I:x", "J:x", "most of it by all-reduce over x at dot_general. Let it send nothing."),
    Sends("29.3 KiB"): (PRODUCT, "J:x; result=[x, -]", "J:x", "Let it send not more than 29.3 KiB."),
    Sends("1 GiB", "reduce-scatter"): (PRODUCT, "J:x; result=[x, -]", "J:x", "It sends by all-reduce where reduce-scatter would suffice."),
    UsesCollective("reduce-scatter", "x"): (
        PRODUCT,
        "J:x; result=[x, -]",
        "J:x",
        "It makes no reduce-scatter over `x`, but all-reduce over x.",
    ),
    UsesCollective("all-reduce", never=True): (PRODUCT, "I:x", "J:x", "It makes 1 all-reduce: one at dot_general."),
    ComputesOnce(): (GRID, "I:x+y", "I:x", "Products are computed 2.00 times"),
    Holds("input", 4_000): (PRODUCT, "J:x", "I:x", "Each device holds 17.0 KiB of input; the limit is 3.91 KiB."),
    GathersNothingWhole(): (
        CUBE,
        "@sin=[r, c, -]; @mul=[-, c+r, -]",
        "@sin=[r, -, c]; @mul=[-, c+r, -]",
        "Gathered whole, then sliced: sin [r, -, c] → [-, c+r, -] for mul.",
    ),
    PadsNothing(): (UNEVEN, "", "@exp=[data, -]", "exp: 9 over `data` (8): 8 parts of 2, 16 slots for 9"),
    Fits(): (
        large,
        lambda: large().recipe("data_parallel").recipe("zero_3"),
        "",
        "and has 15.8 GiB.",
    ),
    Peak("12 MiB"): (LAYERS, "hidden:all", "", "The fullest device holds 68.0 MiB; 12.0 MiB are allowed."),
    StepWithin("200 us"): (LAYERS, "hidden:all", "batch:all", "A step takes 891 µs; 200 µs are allowed."),
    Mfu("10 %"): (LAYERS, "hidden:all", "", "; 10.0 % is required."),
    BoundBy("communication"): (LAYERS, "batch:all", "", "on arithmetic; no communication is exposed."),
    Bubble("40 %"): (two_stages, two_stages, gpt, "There is no pipeline, so there is no bubble."),
    Devices(8): (
        LAYERS,
        "",
        LAYERS.updated(mesh="all:16", hardware="TPU v5e 4x4"),
        "It uses 16 devices; the limit is 8.",
    ),
    SameResult(): (
        gpt,
        "",
        in_bfloat16,
        "It computes in bfloat16, but the exercise computes as traced: results round differently.",
    ),
    FigureAtMost("parameters", "700 kB"): (gpt, "d_model:data", "", "Bytes of parameters on a device: "),
    FigureAtLeast("duplication", 8): (GRID, "", "I:x", "How many times the same product is computed: 2; 8 is required."),
}


@pytest.fixture(params=CASES.items(), ids=lambda case: repr(case[0]))
def case(request):
    goal, (*plans, said) = request.param
    start, right, wrong = (each() if callable(each) else each for each in plans)
    question = PlanQuestion(start, goal, may_change=("layout", "mesh", "pipeline", "precision", "devices"))
    return question, right, wrong, said


def test_every_goal_has_a_case():
    assert {type(each) for each in CASES} == set(ALL_GOALS)


def test_an_answer_that_meets_the_goal_is_right(case):
    question, right, *_ = case
    verdict = question.check(right)
    assert verdict, verdict
    assert repr(verdict) == "Right."
    assert verdict.score == verdict.most == 1


def test_one_that_does_not_is_refused_with_what_it_misses(case):
    question, _, wrong, said = case
    verdict = question.check(wrong)
    assert not verdict
    assert said in str(verdict)
    assert (verdict.score, verdict.most) == (0, 1)


@pytest.mark.parametrize("goal", CASES, ids=repr)
def test_a_goal_is_read_back_from_its_record(goal):
    values = {item.name: getattr(goal, item.name) for item in fields(goal) if getattr(goal, item.name) != item.default}
    assert parse_goal({"goal": goal.name, **values}) == goal
    assert goal.describe().endswith(".")


def test_a_bubble_too_large_is_told_in_percent():
    verdict = str(PlanQuestion(two_stages(), Bubble("1 %")).check(two_stages()))
    assert "Bubble, the idle share of the devices' time in a pipeline: 37.0 %; 1.0 % is allowed." in verdict


def test_what_is_computed_for_padding_is_not_blamed_on_an_axis():
    uneven = Plan(build("einsum", sizes=(30, 64, 64)), "data:8")
    assert PlanQuestion(uneven, ComputesOnce()).check("@dot_general=[data, -]").reasons == (
        "Products are computed 1.07 times over all devices, because of padding (30 over `data` (8): 8 parts of 4, 32 slots for 30).",
    )


def test_a_product_bound_by_memory_is_not_said_to_compute_for_no_time():
    thin = Plan(build("einsum", sizes=(8, 4096, 4096)), "x:1", hardware="TPU v5e 1x1")
    [reason] = PlanQuestion(thin, BoundBy("compute")).check("").reasons
    assert reason.endswith("on reading and writing memory; no kernel is compute-bound.")
    assert "0.00" not in reason


def test_without_hardware_what_takes_time_is_not_known():
    for goal in (StepWithin(1.0), Mfu(0.1), BoundBy("compute"), FigureAtMost("step_time", "1 s")):
        [reason] = PlanQuestion(LAYERS.updated(hardware=None), goal).check("batch:all").reasons
        assert "unknown: the plan has no hardware." in reason


WRONG = {
    "There is no goal `pek`; there are `lies`, ": {"goal": "pek"},
    "There is no field `at_least` of the goal `peak`; there are `at_most`.": {"goal": "peak", "at_least": 1},
    "The goal `peak` lacks `at_most`.": {"goal": "peak"},
    "`much` is not an amount of bytes.": {"goal": "peak", "at_most": "much"},
    "There is no kind `all-redcue` for the goal `sends`; there are ": {"goal": "sends", "kind": "all-redcue"},
    "The goal `statements`: `at_most` is '2'; it should be a whole number.": {"goal": "statements", "at_most": "2"},
    "There is no figure `peek`; there are `peak`, ": {"goal": "at_most", "figure": "peek", "value": 1},
}


@pytest.mark.parametrize(("said", "record"), WRONG.items(), ids=WRONG)
def test_a_goal_that_cannot_be_is_an_error_in_the_authors_words(said, record):
    with pytest.raises(DocumentError) as caught:
        parse_goal(record)
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("figure", ALL_FIGURES, ids=lambda each: each.name)
def test_every_figure_is_read_of_a_plan_on_hardware(figure):
    found = read_figure(figure.name, two_stages().report())
    assert found >= 0
    assert figure.words


@pytest.mark.parametrize("figure", ALL_FIGURES, ids=lambda each: each.name)
def test_what_is_asked_and_what_is_said_of_a_figure_are_in_words(figure):
    report = two_stages().report()
    found = read_figure(figure.name, report)
    for goal in (FigureAtMost(figure.name, found / 2 - 1), FigureAtLeast(figure.name, 2 * found + 1)):
        for text in (goal.describe(), goal.miss(report, two_stages())):
            assert text.startswith(f"{figure.title}: ")
            assert "_" not in text


def test_stages_compute_their_own_layers_once():
    """What is asked is of the devices of a stage; the program as a whole is not computed by any of them."""
    assert not ComputesOnce().miss(two_stages().report(), two_stages())
    assert read_figure("duplication", two_stages().report()) == 1
    assert read_figure("flops", two_stages().report()) == max(each.flops.per_device for each in two_stages().report().stages)


def test_a_micro_batch_that_does_not_divide_is_computed_by_all_devices_of_a_stage():
    smaller = two_stages().updated(pipeline="stages:2 micro_batches:8 axis:stage")  # of two examples, over four devices
    assert "Products are computed 4.00 times" in ComputesOnce().miss(smaller.report(), smaller)
