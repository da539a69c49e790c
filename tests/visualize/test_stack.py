"""Series upon series: nothing is lost where columns become one, and outlines meet."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.visualize.draw.stacked_area import outlines, reduce_columns

VALUES = st.integers(1, 4).flatmap(lambda series: st.lists(st.tuples(*[st.integers(0, 1000)] * series), min_size=1, max_size=60))


@given(VALUES, st.integers(1, 20))
def test_the_peak_stays_whatever_is_left_out(values, most):
    shown = reduce_columns(values, most)
    assert len(shown) <= most
    assert max(sum(column) for _, column in shown) == max(map(sum, values))
    assert [values[place] for place, _ in shown] == [column for _, column in shown]
    assert [place for place, _ in shown] == sorted(place for place, _ in shown)


@given(VALUES)
def test_every_column_is_as_high_as_its_values(values):
    found = outlines(values, length=len(values), scale=1.0)
    for series, outline in enumerate(found):
        for place, column in enumerate(values):
            assert height(outline, place + 0.5) == pytest.approx(column[series])


def height(outline, x) -> float:
    """How much of the upright line at `x` is inside."""
    ends = []
    for (x1, y1), (x2, y2) in zip(outline, (*outline[1:], outline[0]), strict=True):
        if min(x1, x2) < x < max(x1, x2):
            assert y1 == y2
            ends.append(y1)
    return max(ends) - min(ends)
