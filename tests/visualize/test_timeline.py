"""Predicted above measured, to one scale, and the same in text."""

from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from tests.support.programs import mlp_report
from tests.support.traces import MS, event, measured_trace, predicted_step, timed_report
from workbench.core.text_tables import WIDTH
from workbench.reports.device_trace import summarize_trace
from workbench.reports.kernel import COMPUTE, Event
from workbench.visualize import timeline
from workbench.visualize.draw import palette
from workbench.visualize.draw.timeline_spans import DrawnSpan, merge_spans, rows_of, shares, unroll_loops

BOTH = timeline(timed_report(), measured_trace())


def boxes(picture):
    return [each for each in picture.drawing.rectangles if each.title]


def test_the_text_twin_is_worth_reading(golden):
    golden("timeline.txt", BOTH.text)
    assert max(map(len, BOTH.text.splitlines()[1:])) <= WIDTH


def test_predicted_and_measured_have_one_scale():
    predicted, measured = (
        next(each for each in boxes(BOTH) if each.title.startswith(text)) for text in ("4.00 ms: dot_general", "3.00 ms: dot")
    )
    assert predicted.width / measured.width == pytest.approx(4 / 3, rel=0.01)
    assert predicted.y < measured.y
    assert predicted.x == measured.x


def test_waiting_is_lighter_than_what_follows_it():
    waiting, moving = [each for each in boxes(BOTH) if "all-reduce.2" in each.title][:2]
    assert "waiting for other devices" in waiting.title
    assert waiting.alpha < moving.alpha
    assert waiting.x + waiting.width == pytest.approx(moving.x)
    assert waiting.width / moving.width == pytest.approx(2, rel=0.01)


def test_communication_has_the_colour_of_its_mesh_axis_and_its_place_below_compute():
    reduces = [each for each in boxes(BOTH) if "all-reduce" in each.title]
    assert {each.fill for each in reduces} == {palette.AXES[1]}
    assert min(each.y for each in reduces) > min(each.y for each in boxes(BOTH))
    assert rows_of([DrawnSpan("b+a", 0, 1, ""), DrawnSpan("a", 0, 1, ""), DrawnSpan("b", 0, 1, "")], ("a", "b")) == (
        COMPUTE,
        "a",
        "b",
        "b+a",
    )


def test_what_runs_is_named_with_its_path_and_line():
    assert any(each.title == "3.00 ms: dot.1 · mlp/dot.1 · toy.py:9" for each in boxes(BOTH))
    assert any(each.title == "4.00 ms: dot_general · mlp/dot_general" for each in boxes(BOTH))


def test_either_half_may_be_missing():
    assert "predicted" not in timeline(mlp_report(), measured_trace()).text
    assert "measured" not in timeline(timed_report()).text
    assert timeline(mlp_report()).text.endswith("neither measured nor predicted, as the plan names no hardware")
    assert boxes(timeline(mlp_report())) == []


def test_every_turn_of_a_loop_is_drawn():
    whole = unroll_loops(predicted_step().events)
    assert [(each.stream, each.start) for each in sorted(whole, key=lambda each: each.start)] == [
        (COMPUTE, 0.0),
        ("model", pytest.approx(4 * MS)),
        (COMPUTE, pytest.approx(5 * MS)),
        ("model", pytest.approx(9 * MS)),
    ]
    assert unroll_loops(predicted_step().events, most=2) == predicted_step().events


def test_loops_within_loops_are_drawn_turn_by_turn():
    inner = [Event(COMPUTE, 0.0, 1.0, "f", "add", count=6), Event(COMPUTE, 1.0, 1.0, "inner", "loop", count=3)]
    whole = unroll_loops([*inner, Event(COMPUTE, 2.0, 4.0, "outer", "loop", count=1)])
    assert sorted(each.start for each in whole) == pytest.approx([0, 1, 2, 3, 4, 5])
    assert {each.kind for each in whole} == {"add"}


def test_what_is_too_narrow_goes_together_and_says_how_many():
    many = summarize_trace([event(0, 0.01 * number, 0.005, f"add.{number}", kind="add") for number in range(2000)] + [event(0, 30, 20)])
    made = timeline(mlp_report(), many)
    assert len(boxes(made)) < 400
    assert len(made.svg) < 100_000
    assert any("in " in each.title and "the longest" in each.title for each in boxes(made))


def test_blocks_hold_all_the_time_and_never_bridge_a_visible_gap():
    spans = [DrawnSpan(COMPUTE, start, 0.1, "f") for start in (0, 0.1, 0.2, 5, 5.1, 9)]
    found = merge_spans(spans, 10, 100)
    assert [(round(each.left), round(each.right), each.count) for each in found] == [(0, 3, 3), (50, 52, 2), (90, 91, 1)]
    assert sum(each.seconds for each in found) == pytest.approx(0.6)


def test_shares_of_cells_are_at_most_whole():
    assert shares([DrawnSpan(COMPUTE, 0, 2, "f"), DrawnSpan(COMPUTE, 0, 2, "g")], 4, 2) == (1.0, 0.0)
    assert sum(shares([DrawnSpan(COMPUTE, 0.3, 2.5, "f")], 4, 7)) * 4 / 7 == pytest.approx(2.5)


def test_no_mark_lies_outside_and_svg_and_figure_hold_the_same():
    drawing = BOTH.drawing
    assert all(each.x + each.width <= drawing.width and each.y + each.height <= drawing.height for each in drawing.rectangles)
    assert all(0 <= label.x <= drawing.width and 0 <= label.y <= drawing.height for label in drawing.labels)
    tags = [element.tag.partition("}")[2] for element in ET.fromstring(BOTH.svg).iter()]
    assert (tags.count("rect"), tags.count("text")) == (len(drawing.rectangles), len(drawing.labels))
    assert len(BOTH.figure.renderers[1].data_source.data["title"]) == len(boxes(BOTH))


def test_a_measured_step_on_axes_that_are_no_longer_the_plans_is_shown_all_the_same():
    other = replace(timed_report(), plan=timed_report().plan.updated(mesh="x:8", layout="batch:x"))
    assert "model" in timeline(other, measured_trace()).text
