"""What `solve` finds is allowed and as good as said, and its bound is below every allowed choice."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings

from benchmarks.contest_file import read_contest_file
from tests.support.choice_problems import choice_problems, least_cost
from workbench.search.per_operation import solve_problem as solve_module
from workbench.search.per_operation.choice_problem import ChoiceEdge, ChoiceNode, ChoiceProblem, assess
from workbench.search.per_operation.solve_problem import solve

EXAMPLE = Path(__file__).with_name("iopddl_example.json")


@pytest.fixture
def by_blocks(monkeypatch):
    """No problem is small enough to be solved at once."""
    monkeypatch.setattr(solve_module, "_SMALL", -1)


def random_problem(seed, nodes=24, limit=36):
    """A connected problem with memory that is short, of nodes that are live at some of ten times."""
    generator = np.random.default_rng(seed)
    starts = generator.integers(0, 9, nodes)
    usages, ends = np.array([9.0, 6.0, 3.0, 1.0]), starts + generator.integers(1, 4, nodes)
    costs = np.floor(generator.random((nodes, 4)) * 50)
    members = tuple(ChoiceNode(own, usages, int(start), int(end)) for own, start, end in zip(costs, starts, ends, strict=True))
    pairs = [(int(generator.integers(0, node)), node) for node in range(1, nodes) for _ in range(2)]
    edges = tuple(ChoiceEdge(one, other, np.floor(generator.random((4, 4)) * 50)) for one, other in pairs)
    return ChoiceProblem(members, edges, limit)


def test_the_example_of_the_contest_is_solved():
    problem = read_contest_file(EXAMPLE)
    found = solve(problem)
    assert found.is_proven
    assert found.cost == least_cost(problem)
    assert assess(problem, found.strategies).cost == found.cost


@settings(deadline=None, max_examples=40)
@given(choice_problems())
def test_small_problems_are_solved_exactly(problem):
    found, truth = solve(problem, iterations=5), least_cost(problem)
    assert found.bound <= truth or found.bound == pytest.approx(truth)
    assert found.is_feasible == (truth < np.inf)
    assert found.cost == pytest.approx(truth)
    if found.is_feasible:
        assert assess(problem, found.strategies).is_feasible
        assert found.cost == assess(problem, found.strategies).cost


def test_costs_that_are_no_whole_numbers_are_proven_too():
    """A triangle, which no rule eliminates, with the memory of two strategies."""
    generator = np.random.default_rng(5)
    nodes = tuple(ChoiceNode(generator.random(4), np.array([0.0, 1.0, 2.0, 3.0]), 0, 1) for _ in range(3))
    edges = tuple(ChoiceEdge(one, other, generator.random((4, 4))) for one, other in ((0, 1), (1, 2), (0, 2)))
    problem = ChoiceProblem(nodes, edges, 2)
    found = solve(problem, seconds=1e6)
    assert found.is_proven
    assert found.cost == least_cost(problem)


def test_large_problems_are_bounded_and_solved_block_by_block(by_blocks):
    problem = random_problem(0)
    seen = []
    found = solve(problem, seed=1, on_progress=seen.append, iterations=120)
    assert assess(problem, found.strategies).is_feasible
    assert assess(problem, found.strategies).cost == found.cost
    assert 0.8 * found.cost < found.bound <= found.cost
    assert seen[-1] == found
    assert [each.cost for each in seen] == sorted((each.cost for each in seen), reverse=True)
    assert [each.bound for each in seen] == sorted(each.bound for each in seen)


def test_the_same_seed_gives_the_same_answer(by_blocks):
    one, two = (solve(random_problem(1), seed=3, iterations=60) for _ in range(2))
    assert (one.strategies, one.cost, one.bound) == (two.strategies, two.cost, two.bound)


def test_no_choice_under_the_limit_is_said(by_blocks):
    node = ChoiceNode(np.zeros(2), np.array([3.0, 2.0]), 0, 1)
    found = solve(ChoiceProblem((node, node), (), 3))
    assert not found.is_feasible
    assert (found.strategies, found.cost, found.bound, found.is_proven) == (None, np.inf, np.inf, True)


def test_a_search_is_cancelled_between_two_steps(by_blocks):
    asked = []

    def is_cancelled():
        asked.append(True)
        return len(asked) > 10

    found = solve(random_problem(2), seconds=1e6, is_cancelled=is_cancelled)
    assert found.bound > 0
    assert len(asked) < 20


def test_the_time_is_kept_where_steps_and_handing_out_take_long(by_blocks, monkeypatch):
    """A clock that only they move on: a block takes 7 s, handing out a choice 4."""
    now, blocks = [0.0], []

    def improve_slowly(*arguments):
        now[0] += 7.0
        blocks.append(now[0])
        return improve_block(*arguments)

    def step_slowly(dual):
        now[0] += 0.1
        return step(dual)

    def take(_):
        now[0] += 4.0

    improve_block, step = solve_module.improve_block, solve_module.DualAscent.step
    monkeypatch.setattr(solve_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(solve_module, "improve_block", improve_slowly)
    monkeypatch.setattr(solve_module.DualAscent, "step", step_slowly)
    solve(random_problem(0), seconds=120.0, seed=1, on_progress=take)
    assert len(blocks) > 5
    assert 100.0 < now[0] <= 120.0
