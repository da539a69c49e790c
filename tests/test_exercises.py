"""Exercises: what is right is said to be, and what is wrong is refused with what it misses."""

import jax
import jax.numpy as jnp
import pytest

from workbench.exercises import Exercise, computes_once, gathers_nothing_whole, holds, lies, pads_nothing, sends, statements
from workbench.plan.plan import Plan
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
