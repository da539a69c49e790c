"""Few times say all that the limit says."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.support.choice_problems import choice_problems, every_choice
from workbench.search.per_operation.choice_problem import ChoiceNode, ChoiceProblem, assess, choice_graph
from workbench.search.per_operation.reduce_problem import shorten_memory


@given(choice_problems(costs=st.integers(0, 3)))
def test_the_times_that_are_kept_tell_what_fits(problem):
    if problem.usage_limit is None:
        return
    memory = shorten_memory(choice_graph(problem), float(problem.usage_limit))
    for indices in every_choice(problem):
        fits = (memory.profile(np.array(indices, np.int64)) <= memory.left).all()
        assert fits == assess(problem, indices).is_feasible


def memory_of(nodes, limit):
    return shorten_memory(choice_graph(ChoiceProblem(tuple(nodes))), float(limit))


def test_a_limit_that_nobody_reaches_is_no_constraint():
    nodes = [ChoiceNode(np.zeros(2), np.array([1.0, 4.0]), time, time + 2) for time in range(9)]
    assert len(memory_of(nodes, 8).left) == 0
    assert len(memory_of(nodes, 7).left) == 8  # two are live at each time but the first and the last


def test_a_time_at_which_others_are_live_besides_replaces_its_neighbours():
    nodes = [ChoiceNode(np.zeros(2), np.array([1.0, 4.0]), start, 9 - start) for start in range(4)]
    assert memory_of(nodes, 9).left.tolist() == [5.0]


def test_charges_are_usages_times_multipliers():
    memory = memory_of([ChoiceNode(np.zeros(2), np.array([0.0, 4.0]), 0, 2), ChoiceNode(np.zeros(2), np.array([3.0, 0.0]), 1, 3)], 3)
    multipliers = np.full(len(memory.left), 2.0)
    assert [each.tolist() for each in memory.charges(multipliers)] == [[0.0, 8.0 * len(memory.left)], [6.0, 0.0]]
