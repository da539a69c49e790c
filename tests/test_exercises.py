"""Exercises: what is right is said to be, and what is wrong is refused with what it misses."""

import jax
import jax.numpy as jnp
import pytest

from workbench.errors import SearchError
from workbench.exercises import (
    Exercise,
    LedgerExercise,
    WinnerExercise,
    computes_once,
    faster_than,
    fits,
    gathers_nothing_whole,
    holds,
    lies,
    pads_nothing,
    sends,
    statements,
)
from workbench.models import build
from workbench.plan.plan import Plan
from workbench.search.explain import Ledger, LedgerLine
from workbench.search.search_result import SearchResult
from workbench.tracing import trace


def spec(*shape):
    return jax.ShapeDtypeStruct(shape, "float32")


PRODUCT = trace(lambda A, B: A @ B, spec(64, 32), spec(32, 128), dims={"A": "I J", "B": "J K"}, name="product")
CUBE = trace(lambda x: jnp.sin(x) * 2, spec(64, 64, 64), dims={"x": "a b c"}, name="cube")
UNEVEN = trace(lambda x: jnp.exp(x).sum(0), spec(9, 12), dims={"x": "words d"}, name="uneven")

# program, mesh, goal, an answer, a wrong one, and what is said of it
CASES = {
    "lies": (PRODUCT, "x:4 y:2", lies("dot_general", "[x, y]"), "I:x; K:y", "I:x", "`dot_general` is sharded as [x, -], not [x, y]"),
    "statements": (PRODUCT, "x:4 y:2", statements(1), "I:x", "I:x; K:y", "2 statements, where 1 is enough."),
    "sends nothing": (PRODUCT, "x:8", sends(), "I:x", "J:x", "most of it by all-reduce over x at dot_general. Let it send nothing."),
    "sends at most": (PRODUCT, "x:8", sends(30_000), "J:x; result=[x, -]", "J:x", "Let it send not more than 29.3 KiB."),
    "sends by": (
        PRODUCT,
        "x:8",
        sends(1 << 30, kind="reduce-scatter"),
        "J:x; result=[x, -]",
        "J:x",
        "It sends by all-reduce where reduce-scatter would do.",
    ),
    "computes once": (PRODUCT, "x:4 y:2", computes_once(), "I:x+y", "I:x", "Products are computed 2.00 times"),
    "holds": (PRODUCT, "x:8", holds("input", 4_000), "J:x", "I:x", "Each device holds 17.0 KiB of input, where 3.91 KiB are asked for."),
    "gathers nothing whole": (
        CUBE,
        "r:2 c:4",
        gathers_nothing_whole(),
        "@sin=[r, c, -]; @mul=[-, c+r, -]",
        "@sin=[r, -, c]; @mul=[-, c+r, -]",
        "Gathered whole, then sliced: sin [r, -, c] → [-, c+r, -] for mul.",
    ),
    "pads nothing": (UNEVEN, "data:8", pads_nothing(), "", "@exp=[data, -]", "exp: 9 over `data` (8): 8 parts of 2, 16 slots for 9"),
}


@pytest.fixture(params=CASES.values(), ids=CASES)
def case(request):
    return request.param


def test_an_answer_that_meets_the_goal_is_right(case):
    program, mesh, goal, right, *_ = case
    verdict = Exercise(Plan(program, mesh), goal).check(right)
    assert verdict
    assert repr(verdict) == "Right."


def test_one_that_does_not_is_refused_with_what_it_misses(case):
    program, mesh, goal, _, wrong, said = case
    verdict = Exercise(Plan(program, mesh), goal).check(wrong)
    assert not verdict
    assert said in str(verdict)


def test_every_goal_that_is_missed_is_told():
    verdict = Exercise(Plan(PRODUCT, "x:4 y:2"), computes_once(), sends(), statements(1)).check("J:x")
    assert len(verdict.reasons) == 2


def test_a_layout_that_cannot_be_is_told_as_the_planner_tells_it():
    exercise = Exercise(Plan(PRODUCT, "x:4 y:2"))
    assert "There is no dimension `L`" in str(exercise.check("L:x"))
    assert "is not" in str(exercise.check("I=x"))


def test_a_value_that_is_not_there_is_told():
    assert "There is no value `dot`" in str(Exercise(Plan(PRODUCT, "x:4"), lies("dot", "[x, -]")).check("I:x"))


LAYERS = Plan(build("two_layer"), "all:8", "", hardware="TPU v5e 2x4")


@pytest.fixture(scope="module")
def found() -> SearchResult:
    return LAYERS.search()


def test_a_plan_is_an_answer_too_and_its_mesh_may_be_another():
    one = Exercise(LAYERS, faster_than(100e-6), fits())
    assert one.check(LAYERS.updated(layout="hidden:all"))
    assert one.check(LAYERS.updated(mesh="data:2 model:4", layout="batch:data; hidden:model")).reasons == (
        "A step takes 309 µs; beat 100 µs.",
    )


def test_a_plan_of_something_else_is_no_answer():
    one = Exercise(LAYERS, faster_than(1.0))
    assert one.check(LAYERS.updated(mesh="all:16", hardware="TPU v5e 4x4")).reasons == (
        "It is for TPU v5e 4x4, where TPU v5e 2x4 are asked for.",
    )
    assert one.check(Plan(PRODUCT, "x:8", hardware="TPU v5e 2x4")).reasons == (
        "It is a plan of `product`, where one of `two-layer` with the same sizes is asked for.",
    )


def test_a_plan_without_hardware_has_no_time_to_beat_and_all_the_room_it_needs():
    one = Exercise(LAYERS.updated(hardware=None), faster_than(1.0), fits())
    assert one.check("batch:all").reasons == ("How long a step takes is not known: the plan names no hardware.",)


def test_what_does_not_fit_is_refused_with_both_figures():
    large = Plan(build("gpt", preset="gpt3-1.3b", batch=64), "data:16", hardware="TPU v5e 4x4")
    [reason] = Exercise(large, fits()).check("").reasons
    assert reason.startswith("The fullest device holds ")
    assert reason.endswith(" and has 15.8 GiB.")


def test_the_winner_is_guessed_by_each_of_its_decisions(found):
    one = WinnerExercise(found)
    assert one.check(model=8, data=1, layout="megatron")
    assert one.check()
    assert one.check(model=2, layout="io").reasons == (
        "Not model 2: the best plan with it needs 672 µs more than the best of all.",
        "Not layout io: the best plan with it needs 439 µs more than the best of all.",
    )


def test_a_guess_that_no_plan_can_keep_is_refused_with_what_it_breaks():
    lean = LAYERS.search(at_most={"memory": "10 MiB"})
    assert WinnerExercise(lean).check(data=8).reasons == ("Not data 8: no plan with it keeps `at most 10.0 MiB a device`.",)


def test_a_guess_is_held_against_the_objective_of_the_search():
    lean = WinnerExercise(LAYERS.search(objective="memory"))
    assert lean.check(layout="megatron").reasons == (
        "Not layout megatron: the best plan with it needs 3.50 MiB more than the best of all.",
    )
    cheap = WinnerExercise(LAYERS.search(objective="dollars"))
    assert cheap.check(layout="io").reasons == ("Not layout io: the best plan with it needs $0.0012 more than the best of all.",)


def test_a_decision_that_there_is_not_is_an_error(found):
    with pytest.raises(SearchError) as caught:
        WinnerExercise(found).check(modle=8)
    assert str(caught.value).startswith("There is no decision `modle`; there are `layout`, ")
    with pytest.raises(SearchError, match="No plan keeps"):
        WinnerExercise(LAYERS.search(at_most={"memory": "1 MiB"})).check(data=8)


def test_the_decision_that_saves_most_is_the_line_with_the_greatest_loss_of_time(found):
    start, end = found.front[1], found.front[0]
    lines = (LedgerLine(("mesh", "layout"), "a", "b", 0.2, 0.0), LedgerLine(("remat",), "full", "none", -0.5, 0.0))
    one = LedgerExercise(Ledger(start[0], end[0], start[1], end[1], (*lines, LedgerLine(("zero",), "a", "b", -0.1, 0.0))))
    assert one.check("remat")
    assert one.check("layout").reasons == ("`mesh` with `layout` costs 200 ms, and another line saves more.",)
    assert one.check("zero").reasons == ("`zero` saves 100 ms, and another line saves more.",)
    with pytest.raises(SearchError) as caught:
        one.check("schedule")
    assert str(caught.value).startswith("There is no decision `schedule` in the ledger; there are `mesh`, `layout`, `remat`, `zero`.")
