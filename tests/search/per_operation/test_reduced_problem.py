"""Reduction changes no optimum, and every choice of what is left is one of the whole problem."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given

from tests.support.choice_problems import choice_problems, least_cost
from workbench.errors import SearchError
from workbench.search.per_operation.choice_problem import ChoiceEdge, ChoiceNode, ChoiceProblem, assess
from workbench.search.per_operation.reduce_problem import reduced_problem


@given(choice_problems())
def test_the_least_cost_of_what_is_left_is_that_of_the_whole(problem):
    try:
        reduced = reduced_problem(problem)
    except SearchError:
        assert least_cost(problem) == np.inf
        return
    least = np.inf
    for indices in product(*(range(len(costs)) for costs in reduced.costs)):
        chosen = np.array(indices, np.int64)
        whole = assess(problem, reduced.restore(chosen))
        cost, fits = reduced.cost_of(chosen), bool((reduced.memory.profile(chosen) <= reduced.memory.left).all())
        assert whole.cost == pytest.approx(cost)
        assert whole.is_feasible == (fits and cost < np.inf)
        least = min(least, cost if fits else np.inf)
    assert least == pytest.approx(least_cost(problem))


def test_a_chain_of_operations_that_follow_each_other_is_one_decision():
    """Twenty nodes of which each is sharded as the one before, and memory that is live two at a time."""
    same = np.where(np.eye(3) > 0, 0.0, np.inf)
    usages = np.array([4.0, 2.0, 1.0])
    nodes = tuple(ChoiceNode(np.array([0.0, 1.0, 2.0]), usages, time, time + 2) for time in range(20))
    problem = ChoiceProblem(nodes, tuple(ChoiceEdge(time, time + 1, same) for time in range(19)), 4)
    reduced = reduced_problem(problem)
    assert [len(costs) for costs in reduced.costs] == [3]
    assert len(reduced.memory.left) == 1
    assert reduced.restore(np.array([1])) == [1] * 20
    assert reduced.cost_of(np.array([1])) == 20.0


def test_a_node_without_a_strategy_is_named():
    nodes = (ChoiceNode(np.zeros(1), np.zeros(1)), ChoiceNode(np.zeros(2), np.zeros(2)))
    with pytest.raises(SearchError) as error:
        reduced_problem(ChoiceProblem(nodes, (ChoiceEdge(0, 1, np.full((1, 2), np.inf)),)))
    assert str(error.value) == (
        "Node 0 has no strategy that goes with those of its neighbours at a finite cost.\n  Try: allow one of them."
    )
