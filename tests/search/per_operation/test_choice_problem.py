"""What a choice costs and takes, and what is refused."""

import numpy as np
import pytest

from workbench.errors import SearchError
from workbench.search.per_operation.choice_problem import ChoiceEdge, ChoiceNode, ChoiceProblem, assess

ONE = ChoiceNode(np.array([1.0]), np.array([1.0]))
TWO = ChoiceNode(np.array([1.0, 2.0]), np.array([3.0, 4.0]), 0, 5)


def test_costs_of_nodes_and_edges_are_added_and_memory_at_each_time():
    after = ChoiceNode(np.array([10.0]), np.array([7.0]), 5, 6)
    beside = ChoiceNode(np.array([100.0]), np.array([7.0]), 4, 5)
    problem = ChoiceProblem((TWO, after, beside), (ChoiceEdge(1, 0, np.array([[0.0, 1000.0]])),), 11)
    assert assess(problem, (1, 0, 0)) == assess(problem, [1, 0, 0])
    found = assess(problem, (1, 0, 0))
    assert (found.cost, found.peak_usage, found.is_feasible) == (1112.0, 11.0, True)
    assert not assess(ChoiceProblem(problem.nodes, problem.edges, 10), (1, 0, 0)).is_feasible
    assert assess(ChoiceProblem(problem.nodes, problem.edges, 10), (0, 0, 0)).is_feasible


def test_an_interval_that_ends_where_it_starts_takes_nothing():
    assert assess(ChoiceProblem((ChoiceNode(np.zeros(1), np.ones(1), 3, 3),), usage_limit=0), [0]).is_feasible


def test_what_is_forbidden_is_not_allowed():
    assert not assess(ChoiceProblem((ChoiceNode(np.array([np.inf]), np.zeros(1)),)), [0]).is_feasible


@pytest.mark.parametrize(
    ("nodes", "edges", "text"),
    [
        ((ChoiceNode(np.zeros(0), np.zeros(0)),), (), "Node 0 has no strategy.\n  Try: give it at least one · leave the node out."),
        (
            (ONE, ChoiceNode(np.zeros(2), np.zeros(1))),
            (),
            "Node 1 has 2 costs and 1 usages.\n  Try: give one of each per strategy.",
        ),
        (
            (ChoiceNode(np.array([-1.0]), np.zeros(1)),),
            (),
            "Node 0 has a cost or a usage that is below 0 or not a number.\n  Try: add a constant to all its costs.",
        ),
        (
            (ChoiceNode(np.zeros(1), np.array([0.5])),),
            (),
            "Node 0 has a usage that is not a whole number.\n  Try: give whole numbers of bytes · forbid a strategy by an infinite cost.",
        ),
        (
            (ONE,),
            (ChoiceEdge(0, 1, np.zeros((1, 1))),),
            "Edge 0 joins nodes 0 and 1, and there are 1 nodes.\n  Try: number them from 0.",
        ),
        (
            (ONE,),
            (ChoiceEdge(0, 0, np.zeros((1, 1))),),
            "Edge 0 joins nodes 0 and 0, which are one.\n  Try: add the diagonal of its costs to the node's costs.",
        ),
        (
            (ONE, TWO),
            (ChoiceEdge(0, 1, np.zeros((2, 1))),),
            "Edge 0 joins nodes 0 and 1 of 1 and 2 strategies, and has costs of shape (2, 1).\n  Try: give 1 rows of 2.",
        ),
        (
            (ONE, TWO),
            (ChoiceEdge(0, 1, np.array([[0.0, np.nan]])),),
            "Edge 0 joins nodes 0 and 1 with a cost that is below 0 or not a number.\n  Try: add a constant to all its costs.",
        ),
    ],
)
def test_a_problem_that_is_none_is_refused(nodes, edges, text):
    with pytest.raises(SearchError) as error:
        ChoiceProblem(nodes, edges)
    assert str(error.value) == text


def test_a_choice_has_a_strategy_for_each_node():
    with pytest.raises(SearchError) as error:
        assess(ChoiceProblem((ONE, TWO)), [0])
    assert str(error.value) == "The choice has 1 strategies for 2 nodes.\n  Try: give one for each node."
