"""The picture of the front: what stands where, what a click opens, and what is left out."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.search.requirements import AtMost
from workbench.search.search_figures import Figures, ParetoFront
from workbench.units import format_bytes, format_seconds
from workbench.visualize.charts.front_chart import FoundPlan, FrontOverlays, found_plans
from workbench.visualize.draw.drawing_marks import Disc, Polyline

MIB = 1 << 20
FOUND = (
    FoundPlan("0", "data:8, replicated", Figures(1.0, 8 * MIB, 8), is_front=True),
    FoundPlan("1", "data:4 model:2, megatron", Figures(1.5, 4 * MIB, 8), is_front=True, more="changes:\nmesh axis model: - → 2"),
    FoundPlan("2", "model:8, megatron", Figures(2.0, 2 * MIB, 8), is_front=True),
    FoundPlan("3", "data:8, hidden", Figures(1.8, 6 * MIB, 8)),
    FoundPlan("4", "data:8, io", Figures(90.0, 6 * MIB, 8)),
)


def opening(picture):
    return {mark.opens: mark for mark in picture.drawing.marks if isinstance(mark, Disc) and mark.opens}


def texts(picture):
    return [each.text for each in picture.drawing.labels]


def test_each_plan_in_sight_opens_itself_and_says_what_it_is():
    picture = found_plans(FOUND)
    found = opening(picture)
    assert set(found) == {"0", "1", "2", "3"}
    assert found["1"].title == "1.50 s, 4.00 MiB\ndata:4 model:2, megatron\nchanges:\nmesh axis model: - → 2"
    assert 'data-opens="1"' in picture.svg
    assert "1 worse one lies outside" in texts(picture)


def test_equal_ratios_are_equal_distances_where_the_scale_is_logarithmic():
    found = opening(found_plans([FoundPlan(str(place), "data:8", Figures(10.0**place, 8 * MIB >> place, 8), True) for place in range(3)]))
    assert found["1"].x - found["0"].x == pytest.approx(found["2"].x - found["1"].x, abs=0.2)


def test_faster_is_farther_left_and_more_memory_is_higher():
    found = opening(found_plans(FOUND))
    assert found["0"].x < found["1"].x < found["2"].x
    assert found["0"].y < found["1"].y < found["2"].y


def test_the_stair_goes_through_the_front_and_the_beaten_plan_lies_beyond_it():
    picture = found_plans(FOUND)
    [stair] = [each for each in picture.drawing.lines if not each.dashed]
    found = opening(picture)
    assert all((found[key].x, found[key].y) in stair.points for key in "012")
    under = max(y for x, y in stair.points if x <= found["3"].x)
    assert found["3"].y < under, "more memory than the staircase has at that time"


def test_the_present_plan_the_limit_and_what_no_plan_beats_are_marked_where_they_are_near():
    limits = AtMost("memory", 10 * MIB), AtMost("seconds", 4.0)
    near = found_plans(FOUND, signs=FrontOverlays("1", Figures(1.2, 9 * MIB, 8), "slower", limits, least=0.8))
    assert {"present plan", "at most 10.0 MiB a device", "at most 4.00 s a step", "no plan is faster"} <= set(texts(near))
    assert "The present plan: 1.20 s, 9.00 MiB: slower" in {each.title for each in near.drawing.rectangles}
    limits = AtMost("memory", 900 * MIB), AtMost("seconds", 40.0)
    far = found_plans(FOUND, signs=FrontOverlays("1", limits=limits, least=0.0008))
    assert not {"present plan", "at most 900 MiB a device", "at most 40.0 s a step", "no plan is faster"} & set(texts(far))
    assert far.drawing.width == found_plans(FOUND).drawing.width


@pytest.mark.parametrize(
    ("seconds", "memory", "arrow"),
    [(1.2e3, 4, "→"), (1.2, 900, "↑"), (1.2e3, 900, "↗"), (1e-4, 900, "↖"), (1.2e3, 1e-3, "↘")],
)
def test_a_present_plan_outside_the_picture_stands_on_its_edge_with_an_arrow(seconds, memory, arrow):
    far = Figures(seconds, memory * MIB, 8)
    picture = found_plans(FOUND, signs=FrontOverlays(now=far))
    [text] = [each for each in texts(picture) if each.startswith("present plan")]
    assert text == f"present plan: {format_seconds(seconds)}, {format_bytes(memory * MIB)} {arrow}"
    square = next(each for each in picture.drawing.rectangles if each.title)
    assert 0 <= square.x <= picture.drawing.width
    assert 0 <= square.y <= picture.drawing.height


@pytest.mark.parametrize("key", ["1", "3"])
def test_the_chosen_plan_has_a_ring_on_the_front_or_off_it(key):
    ringed = found_plans(FOUND, signs=FrontOverlays(key))
    place = opening(ringed)[key]
    assert len([each for each in ringed.drawing.dots if each.radius == 10]) == 1
    assert next((each.x, each.y) for each in ringed.drawing.dots if each.radius == 10) == (place.x, place.y)


def test_each_number_of_devices_has_a_stair_and_a_colour():
    several = (*FOUND[:2], FoundPlan("5", "data:4", Figures(3.0, 4 * MIB, 4, 0.5), is_front=True))
    picture = found_plans(several)
    stairs = [each for each in picture.drawing.lines if isinstance(each, Polyline) and not each.dashed]
    assert len({each.colour for each in stairs}) == 2
    assert {"4 devices", "8 devices"} <= set(texts(picture))
    assert "step time against devices" in found_plans(several, "devices").about
    assert set(opening(found_plans(several, "dollars"))) == {"5"}, "the others have no price"


def test_the_text_has_the_front_and_a_picture_without_one_says_so():
    assert str(found_plans(FOUND)).splitlines()[0] == "The front: 3 of 5 plans found, step time against memory of the fullest device"
    assert "data:4 model:2, megatron" in str(found_plans(FOUND))
    assert found_plans(()).about == "The front: 0 of 0 plans found, step time against memory of the fullest device"


@given(st.lists(st.tuples(st.floats(1e-6, 1e3), st.floats(1e3, 1e13)), min_size=1, max_size=30))
def test_every_mark_lies_inside_the_drawing_and_the_axes_have_values(pairs):
    front = ParetoFront()
    for place, (seconds, memory) in enumerate(pairs):
        front = front.with_item(place, Figures(seconds, memory, 8))
    kept = {place for place, _ in front}
    found = tuple(FoundPlan(str(place), "", Figures(*each, 8), place in kept) for place, each in enumerate(pairs))
    picture = found_plans(found)
    drawing = picture.drawing
    assert {str(each) for each in kept} <= set(opening(picture))
    assert all(0 <= mark.x <= drawing.width and 0 <= mark.y <= drawing.height for mark in drawing.dots)
    levels = sorted(label.x for label in drawing.labels if label.anchor == "middle")
    assert len(levels) >= 3  # two values, and the name of the scale
    assert all(after - before > 12 for before, after in pairwise(sorted({label.y for label in drawing.labels if label.anchor == "end"})))
