"""A block made anew is never worse, never over the limit, and the best there is when it is the whole problem."""

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.support.choice_problems import choice_problems, every_choice, unreduced
from workbench.search.per_operation.block_search import ChoiceBlock, block_cost_with_edges, improve_block
from workbench.search.per_operation.solve_problem import Neighbourhoods, repair_memory

PROBLEMS = choice_problems(costs=st.integers(0, 20))


def with_allowed_choices(problem):
    """The problem with nothing taken away, and its allowed choices; the example is dropped where there are none."""
    whole = unreduced(problem)
    choices = [np.array(each, np.int64) for each in every_choice(problem)]
    allowed = [each for each in choices if (whole.memory.profile(each) <= whole.memory.left).all()]
    assume(allowed)
    return whole, allowed


@settings(deadline=None, max_examples=40)
@given(PROBLEMS, st.data())
def test_a_block_is_made_better_or_left(problem, data):
    whole, allowed = with_allowed_choices(problem)
    chosen = data.draw(st.sampled_from(allowed))
    nodes = data.draw(st.lists(st.sampled_from(range(len(chosen))), min_size=1, unique=True))
    block = ChoiceBlock({node: np.ones(len(whole.costs[node]), bool) for node in nodes})
    found = improve_block(whole, chosen, block, whole.memory.profile(chosen), 1.0)
    assert found.is_proven
    others = [node for node in range(len(chosen)) if node not in nodes]
    best = min(whole.cost_of(each) for each in allowed if (each[others] == chosen[others]).all())
    after = chosen if found.chosen is None else found.chosen
    assert whole.cost_of(after) == best
    assert (whole.memory.profile(after) <= whole.memory.left).all()
    assert block_cost_with_edges(whole, chosen, nodes) - block_cost_with_edges(whole, after, nodes) == whole.cost_of(chosen) - best


@settings(deadline=None, max_examples=40)
@given(PROBLEMS, st.data())
def test_what_is_repaired_is_within_the_limit(problem, data):
    whole, _ = with_allowed_choices(problem)
    chosen = np.array([data.draw(st.integers(0, len(costs) - 1)) for costs in whole.costs], np.int64)
    before = chosen.copy()
    repaired = repair_memory(whole, chosen)
    assert (chosen == before).all()
    if repaired is not None:
        assert (whole.memory.profile(repaired) <= whole.memory.left).all()
    if (whole.memory.profile(chosen) <= whole.memory.left).all():
        assert (repaired == chosen).all()


@given(PROBLEMS, st.integers(0, 5))
def test_blocks_are_drawn_by_the_seed_and_hold_what_they_may_take(problem, seed):
    whole, allowed = with_allowed_choices(problem)
    usage = whole.memory.profile(allowed[0])
    one, two = (Neighbourhoods(whole, seed) for _ in range(2))
    for _ in range(5):
        (width, block), (same, other) = one.draw(usage), two.draw(usage)
        assert (width, list(block.allowed)) == (same, list(other.allowed))
        assert block.allowed
        assert all(len(mask) == len(whole.costs[node]) for node, mask in block.allowed.items())
