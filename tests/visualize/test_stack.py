"""Series upon series: nothing is lost where columns become one."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from workbench.visualize.charts.still_drawing import drop_collinear, reduce_columns

VALUES = st.integers(1, 4).flatmap(lambda series: st.lists(st.tuples(*[st.integers(0, 1000)] * series), min_size=1, max_size=60))


@given(VALUES, st.integers(1, 20))
def test_the_peak_stays_whatever_is_left_out(values, most):
    shown = reduce_columns(values, most)
    assert len(shown) <= most
    assert max(sum(column) for _, column in shown) == max(map(sum, values))
    assert [values[place] for place, _ in shown] == [column for _, column in shown]
    assert [place for place, _ in shown] == sorted(place for place, _ in shown)


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 3)), min_size=1, max_size=40))
def test_an_outline_without_the_middle_of_level_lines_has_the_same_heights(points):
    points = sorted(points)
    kept = drop_collinear(points)
    assert (kept[0], kept[-1]) == (points[0], points[-1])
    heights = ([height for height, _ in itertools.groupby(y for _, y in each)] for each in (kept, points))
    assert next(heights) == next(heights)
