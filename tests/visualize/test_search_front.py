"""The picture of a search: what lies where, and what is shaded."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.searches import FOUND, GIB, OTHERS, front_result, make_result
from workbench.search.present_plan import PresentPlan
from workbench.search.requirements import AtMost
from workbench.search.search_figures import Figures
from workbench.visualize import search_front
from workbench.visualize.draw.axis_scale import LINEAR_UP_TO, MOST_TICKS, AxisScale, byte_ticks, scale_of
from workbench.visualize.draw.palette import AXES, NEUTRAL, WARNING

positive = st.floats(1e-7, 1e13, allow_nan=False)


def test_the_faster_plan_is_further_left_and_the_leaner_one_further_down():
    dots = {each.subject: each for each in search_front(front_result()).drawing.dots}
    fast, lean, heavy, slow = (dots[str(candidate)] for candidate, _ in FOUND)
    assert fast.x < lean.x < heavy.x < slow.x
    assert heavy.y < fast.y < slow.y < lean.y


def test_the_best_is_the_largest_and_each_has_its_number_figures_and_devices():
    made = search_front(front_result()).drawing
    assert [each.title.partition(":")[0] for each in made.dots] == ["0", "1", "2", "3"]
    assert max(made.dots, key=lambda each: each.radius) is made.dots[0]
    assert made.dots[0].title == "0: 1.50 s, 12.5 GiB, $8.00 for 1,000 steps on 16 devices: " + str(FOUND[0][0])
    assert {"0", "1", "2", "3"} <= {each.text for each in made.labels if each.bold}


def test_each_number_of_devices_has_its_own_staircase_and_region():
    made = search_front(front_result()).drawing
    assert [each.fill for each in made.areas] == list(AXES[:2])
    assert [each.colour for each in made.lines if not each.dashed] == list(AXES[:2])
    assert {each.text for each in made.labels} >= {"16 devices", "8 devices"}
    alone = search_front(make_result(FOUND[:2])).drawing
    assert len(alone.areas) == 1
    assert not any(each.text == "16 devices" for each in alone.labels)


def test_a_staircase_passes_through_its_plans_and_nothing_it_shades_is_better_than_all_of_them():
    made = search_front(front_result()).drawing
    corners = set(made.lines[0].points)
    assert {(each.x, each.y) for each in made.dots[:2]} <= corners
    below = [(x, y) for x, y in made.areas[0].points if x < made.dots[0].x or y > made.dots[1].y]
    assert below == []


def test_other_plans_are_small_and_grey_and_those_beyond_a_limit_lie_beyond_its_line():
    made = search_front(front_result(), (*FOUND, *OTHERS)).drawing
    grey = [each for each in made.dots if each.fill == NEUTRAL]
    assert [each.subject for each in grey] == [str(candidate) for candidate, _ in OTHERS]
    memory, seconds = (each for each in made.lines if each.colour == WARNING)
    assert grey[0].y < memory.points[0][1] < grey[1].y
    assert grey[1].x < seconds.points[0][0] < grey[2].x
    assert {each.text for each in made.labels if each.colour == WARNING} == {"at most 16.0 GiB a device", "at most 6.00 s a step"}


def test_the_present_plan_is_a_square_at_its_place_and_its_standing_is_in_the_text():
    result = front_result()
    made = search_front(result).drawing
    square = next(each for each in made.rectangles if each.title)
    dots = {each.subject: each for each in made.dots}
    fast, lean = (dots[str(candidate)] for candidate, _ in FOUND[:2])
    assert lean.x < square.x + square.width / 2
    assert square.y < fast.y
    against_best = "60% slower than the best found; it violates `at most 16.0 GiB a device`"
    assert square.title == f"The present plan: 2.40 s, 18.0 GiB, $12.80 for 1,000 steps: {against_best}"
    assert f"\nthe present plan: 2.40 s, 18.0 GiB, $12.80 for 1,000 steps: {against_best}" in search_front(result).text
    assert "present plan" in {each.text for each in made.labels}


def test_a_present_plan_far_from_the_front_stands_on_the_edge():
    made = search_front(make_result(FOUND, present=PresentPlan(Figures(900.0, 4000 * GIB, 1)))).drawing
    assert "present plan: 900 s, 3.91 TiB ↗" in {each.text for each in made.labels}
    assert {each.text for each in search_front(make_result(FOUND)).drawing.labels} <= {each.text for each in made.labels}


@pytest.mark.parametrize(("high", "step"), [(1023 * GIB, GIB * 200), (1024 * GIB, GIB * 204.8), (1025 * GIB, GIB * 204.8)])
def test_ticks_of_memory_are_round_in_the_unit_they_are_written_in_just_below_and_above_a_power_of_1024(high, step):
    first, second = byte_ticks(AxisScale(0.0, high, 0, 100))[:2]
    assert (first, second) == (0.0, pytest.approx(step))


def test_a_limit_outside_the_picture_is_not_drawn():
    made = search_front(make_result(FOUND, (AtMost("memory", 900 * GIB), AtMost("devices", 16)))).drawing
    assert not [each for each in made.lines if each.colour == WARNING]


def test_the_text_counts_the_plans_beyond_a_limit():
    text = search_front(front_result(), OTHERS).text
    assert text.endswith("3 other plans: 1 within the limits and beaten by the front, 2 beyond a limit")


def test_a_front_of_one_plan_and_one_of_none_can_be_drawn():
    one = search_front(make_result(FOUND[:1]))
    assert one.about == "two-layer on 16 or 8 devices: 1 plan on the front, the best proved, and the front is complete"
    assert len(one.drawing.dots) == 1
    none = search_front(make_result(()), OTHERS)
    assert none.text == "two-layer on 16 or 8 devices: no plan meets the requirements"
    assert none.drawing.dots == ()


def test_a_long_front_lists_twelve_plans_and_says_how_many_more():
    long = tuple((replace(FOUND[0][0], micro_batches=2**i), Figures(1.0 + i, (30 - i) * GIB, 16)) for i in range(15))
    assert any(each.text == "and 3 more" for each in search_front(make_result(long)).drawing.labels)


@given(st.lists(positive, min_size=1, max_size=9))
def test_all_values_lie_on_their_scale_in_order_and_ticks_are_few_and_within(values):
    scale = scale_of(values, 10, 200)
    placed = [scale(each) for each in sorted(values)]
    assert placed == sorted(placed)
    assert 10 < placed[0] <= placed[-1] < 210
    assert scale.is_log == (max(values) / min(values) > LINEAR_UP_TO)
    for ticks in (scale.ticks(), scale.ticks(base=2)):
        assert len(ticks) <= MOST_TICKS
        assert list(ticks) == sorted(set(ticks))
        assert all(10 <= scale(each) <= 210 for each in ticks)


@pytest.mark.parametrize(
    ("scale", "ticks"),
    [
        (AxisScale(1.1, 5.3, 0, 1), (2.0, 3.0, 4.0, 5.0)),
        (AxisScale(0.9, 60, 0, 1, is_log=True), (1.0, 2.0, 5.0, 10.0, 20.0, 50.0)),
        (AxisScale(0.9, 6e4, 0, 1, is_log=True), (1.0, 10.0, 100.0, 1e3, 1e4)),
    ],
)
def test_ticks_are_round(scale, ticks):
    assert scale.ticks() == ticks
