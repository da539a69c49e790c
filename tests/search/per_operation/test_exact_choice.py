"""The exact solver gives the optimum, and its bound is below it also where costs are no whole numbers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.choice_problems import choice_problems, least_cost
from workbench.search.per_operation.choice_problem import assess, choice_graph
from workbench.search.per_operation.exact_choice import solve_exactly
from workbench.search.per_operation.reduce_problem import shorten_memory

FRACTIONS = st.sampled_from([0, 0.1, 1 / 3, 0.7, 2.5, 1e9, np.inf])


@settings(deadline=None, max_examples=40)
@given(choice_problems() | choice_problems(costs=FRACTIONS))
def test_the_optimum_is_found_and_proven(problem):
    graph = choice_graph(problem)
    memory = shorten_memory(graph, np.inf if problem.usage_limit is None else float(problem.usage_limit))
    found, truth = solve_exactly(graph, memory.left, {0: 0}), least_cost(problem)
    assert found.is_proven
    assert found.bound <= truth
    if found.chosen is None:
        assert truth == np.inf
    else:
        chosen = [found.chosen[node] for node in range(len(problem.nodes))]
        assert assess(problem, chosen).is_feasible
        assert assess(problem, chosen).cost == pytest.approx(truth, rel=1e-6)
