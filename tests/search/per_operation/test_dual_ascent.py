"""The bound of message passing is never above the truth, whatever the multipliers and after however many sweeps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.choice_problems import choice_problems, least_cost, unreduced
from workbench.search.per_operation.choice_problem import ChoiceEdge, ChoiceNode, ChoiceProblem
from workbench.search.per_operation.dual_ascent import DualAscent
from workbench.search.per_operation.reduce_problem import reduced_problem


@given(choice_problems(costs=st.sampled_from([0, 1, 2, 3, 5, 8, 20, 0.25])), st.lists(st.floats(0.01, 20), min_size=1, max_size=8))
def test_no_bound_is_above_the_truth(problem, lengths):
    dual = DualAscent(unreduced(problem))
    truth = least_cost(problem)
    for length in lengths:
        step = dual.step()
        assert step.bound <= truth
        dual.move_multipliers(step.excess, length)


def test_on_a_tree_without_a_limit_the_bound_is_the_optimum():
    generator = np.random.default_rng(0)
    nodes = tuple(ChoiceNode(generator.integers(0, 9, 4).astype(float), np.zeros(4)) for _ in range(9))
    edges = tuple(ChoiceEdge((node - 1) // 2, node, generator.integers(0, 9, (4, 4)).astype(float)) for node in range(1, 9))
    problem = ChoiceProblem(nodes, edges)
    dual = DualAscent(unreduced(problem))
    for _ in range(30):
        step = dual.step()
    reduced = reduced_problem(problem)
    assert reduced.costs == ()
    assert step.bound == pytest.approx(reduced.constant, rel=1e-6)
    assert dual.problem.cost_of(step.chosen) == reduced.constant


def test_multipliers_raise_the_bound_where_memory_is_short():
    """Two nodes together must take the dear small strategy once: the cheapest choice without the limit costs 0, with it 6."""
    node = ChoiceNode(np.array([0.0, 6.0]), np.array([4.0, 0.0]), 0, 1)
    dual = DualAscent(unreduced(ChoiceProblem((node, node), (), 4)))
    bounds = []
    for _ in range(60):
        step = dual.step()
        bounds.append(step.bound)
        dual.move_multipliers(step.excess, 1.0)
    assert bounds[0] == pytest.approx(0.0)
    assert 5.0 < max(bounds) <= 6.0
