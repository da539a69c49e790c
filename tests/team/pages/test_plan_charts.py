"""What the charts of plans show, by the plain way."""

import re
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from workbench.team.pages.plan_charts import (
    BYTES,
    SECONDS,
    ChartPoint,
    draw_curve,
    draw_memory_by_time,
    draw_predicted_by_measured,
    front_of,
    scale_over,
)

amounts = st.floats(1e-6, 1e15)
point_lists = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9), st.booleans()), min_size=1, max_size=10)


def points_of(values) -> list[ChartPoint]:
    return [ChartPoint("ABCDEFGHIJ"[place], f"plan {place}", *value) for place, value in enumerate(values)]


@given(point_lists)
def test_the_front_is_what_nothing_that_fits_beats(values):
    points = points_of(values)

    def is_beaten(one: ChartPoint) -> bool:
        fit = [each for each in points if each.fits]
        return any(other.across <= one.across and other.up <= one.up and (other.across, other.up) != (one.across, one.up) for other in fit)

    assert {each.letter for each in front_of(points)} == {each.letter for each in points if each.fits and not is_beaten(each)}


@given(st.lists(amounts, min_size=1, max_size=10), st.sampled_from([BYTES, SECONDS]))
def test_a_scale_has_room_for_its_values_and_few_round_ticks_in_order(values, units):
    scale = scale_over(values, 10, 300)
    assert all(10 <= scale(each) <= 310 for each in values)
    ticks = scale.ticks(units)
    assert ticks == sorted(ticks)
    assert len(ticks) <= 11
    assert all(10 - 1e-6 <= scale(each) <= 310 + 1e-6 for each in ticks)
    assert all(two - one > 5 for one, two in combinations(map(scale, ticks), 2))


@given(point_lists)
def test_every_plan_is_in_the_picture_with_its_letter_and_in_its_frame(values):
    points = points_of(values)
    svg = str(draw_memory_by_time(points))
    if len(points) < 2:
        assert svg == ""
        return
    assert sorted(re.findall(r'class="point-name"[^>]*>(\w)<', svg)) == [each.letter for each in points]
    assert svg.count('class="no-fit"') == sum(not each.fits for each in points)
    assert svg.count('class="on-front"') == len(front_of(points))
    numbers = [float(each) for each in re.findall(r'c[xy]="([^"]+)"', svg)]
    assert all(0 <= each <= 400 for each in numbers)


def test_the_names_of_plans_are_escaped_and_the_picture_says_what_it_shows():
    points = [ChartPoint("A", "<b>&", 1.0, 2.0), ChartPoint("B", "b", 2.0, 1.0, fits=False)]
    svg = str(draw_memory_by_time(points))
    assert "<title>A &lt;b&gt;&amp;</title>" in svg
    assert 'aria-label="peak memory per device against step time of 2 plans; on the front: A"' in svg


def test_predicted_and_measured_are_on_one_scale():
    svg = str(draw_predicted_by_measured([ChartPoint("A", "", 0.5, 1.0), ChartPoint("B", "", 1.0, 1.0)]))
    assert re.findall(r"<text x=[^>]*>([\d.]+ m?s|0)</text>", svg) == ["0", "500 ms", "1 s"] * 2
    assert svg.count('class="equal-line"') == 1
    assert str(draw_predicted_by_measured([])) == ""


@given(st.lists(st.floats(-1e6, 1e6), max_size=30))
def test_a_curve_goes_through_all_its_values(values):
    svg = str(draw_curve(values, "losses"))
    path = re.search(r'd="M([^"]*)"', svg)
    assert (len(path[1].split("L")) if path else 0) == (len(values) if len(values) > 1 else 0)
