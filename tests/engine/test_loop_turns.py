"""One rule says how often a loop is counted, as planned, partitioned and compiled: its counter, else the layout, else once."""

import jax
import jax.numpy as jnp
import pytest

from workbench.public_plan import Plan
from workbench.tracing import trace


def poisson(x):
    return jax.random.poisson(jax.random.key(0), jnp.exp(x))


def solver(x):
    with jax.named_scope("solve"):
        return jax.lax.while_loop(lambda s: (s[1].sum() > 1) & (s[0] < 30), lambda s: (s[0] + 1, s[1] / s[1].sum()), (0, x))[1]


def search_in_a_scan(x):
    def search(found, _):
        return jax.lax.while_loop(lambda s: s.sum() > 3, lambda s: s / s.sum(), found), None

    return jax.lax.scan(search, x, None, length=5)[0]


@pytest.mark.parametrize(("fn", "once"), [(poisson, 2), (solver, 2), (search_in_a_scan, 10)])
@pytest.mark.parametrize(("statement", "turns"), [("", 1), ("; turns[while]=7", 7)])
def test_a_loop_runs_as_often_as_planned_when_xla_is_asked(fn, once, statement, turns):
    program = trace(fn, jax.ShapeDtypeStruct((16, 64), "float32"), dims={"x": "row col"})
    plan = Plan(program, "data:8", f"row:data{statement}")
    for tier in ("planned", "partitioned"):
        report = plan.report(tier)
        assert sum(each.count for each in report.collectives) == once * turns
        assert ("unknown trip count" in {each.kind for each in report.notes}) == (turns == 1)


def test_a_compiled_program_counts_the_turns_that_the_layout_states():
    program = trace(solver, jax.ShapeDtypeStruct((16, 64), "float32"), dims={"x": "row col"})
    compiled = Plan(program, "data:8", "row:data; turns[solve]=7").compile()
    assert {each.count for each in compiled.collectives} == {7}
