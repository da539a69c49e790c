"""Balance: never worse than any cut tried, never worse than the rules of lingvo and torchgpipe, whatever is fixed or sent."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.errors import PipelineError
from workbench.pipeline.balance import balance, bucket_rule, evaluate_starts

COSTS = st.lists(st.integers(0, 9), min_size=1, max_size=7)


@pytest.mark.parametrize(("blocks", "pieces", "sizes"), [(4, 2, (1, 3)), (8, 4, (1, 2, 2, 3)), (24, 4, (5, 6, 6, 7))])
def test_the_bucket_rule_of_lingvo_gives_its_golden_sizes_and_ours_is_even(blocks, pieces, sizes):
    assert bucket_rule([1] * blocks, pieces) == sizes
    assert set(balance([1] * blocks, pieces).sizes(blocks)) == {blocks // pieces}


@pytest.mark.parametrize(("costs", "pieces", "sizes"), [([1, 2, 3, 4, 5, 6], 2, (4, 2)), ([0, 0], 2, (1, 1))])
def test_the_block_partitions_of_torchgpipe_come_out_alike(costs, pieces, sizes):
    assert balance(costs, pieces).sizes(len(costs)) == sizes


def test_what_costs_nothing_is_balanced_and_divides_by_nothing():
    assert balance([0, 0, 0], 3).factor == 1.0
    assert bucket_rule([0, 0, 0, 0], 2) == (1, 3)


@given(costs=COSTS, data=st.data())
def test_no_other_cut_has_a_cheaper_dearest_piece(costs, data):
    pieces = data.draw(st.integers(1, len(costs)))
    sent = data.draw(st.lists(st.integers(0, 9), min_size=len(costs), max_size=len(costs)))
    others = [evaluate_starts(costs, starts, sent).worst for starts in combinations(range(1, len(costs)), pieces - 1)]
    assert balance(costs, pieces, sent=sent).worst == min(others)


@given(costs=COSTS, data=st.data())
def test_no_other_cut_has_a_dearest_piece_that_works_and_sends_for_less_time(costs, data):
    pieces = data.draw(st.integers(1, len(costs)))
    sent = data.draw(st.lists(st.integers(0, 9), min_size=len(costs), max_size=len(costs)))

    def dearest(starts):
        worked, both = (evaluate_starts(costs, starts, each).costs for each in ((), sent))
        return max(max(work, all_ - work) for work, all_ in zip(worked, both, strict=True))

    others = [dearest(starts) for starts in combinations(range(1, len(costs)), pieces - 1)]
    assert balance(costs, pieces, sent=sent, overlapped=True).worst == min(others)


@given(costs=COSTS, data=st.data())
def test_a_boundary_that_is_named_is_kept(costs, data):
    pieces = data.draw(st.integers(1, len(costs)))
    fixed = data.draw(st.lists(st.integers(1, max(len(costs) - 1, 1)), unique=True, max_size=pieces - 1)) if pieces > 1 else []
    found = balance(costs, pieces, fixed=fixed)
    assert set(fixed) <= set(found.starts)
    assert found.worst == min(
        evaluate_starts(costs, each).worst for each in combinations(range(1, len(costs)), pieces - 1) if set(fixed) <= set(each)
    )


def test_what_is_left_over_when_one_block_dominates_is_spread_evenly():
    assert balance([10, 1, 1, 1, 1], 3).costs == (10, 2, 2)


def test_sending_moves_a_boundary_to_where_little_is_sent():
    assert balance([1, 1, 1, 1], 2, sent=[0, 9, 0, 0]).starts in ((1,), (3,))


@pytest.mark.parametrize(
    ("pieces", "options", "words"),
    [
        (4, {}, "3 blocks cannot make 4 virtual stages"),
        (0, {}, "0 virtual stages"),
    ],
)
def test_what_cannot_be_cut_is_said(pieces, options, words):
    with pytest.raises(PipelineError, match=words):
        balance([1, 1, 1], pieces, **options)
