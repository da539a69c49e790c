"""Charts to explore: of the same records as the pictures, filled into a figure that is made once."""

import base64
import json
from array import array
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.packed_spans import read_spans
from tests.support.steps import CURVE, KERNELS, step_report
from tests.support.traces import measured_trace, timed_report
from tests.visualize.test_found_plans import FOUND, MIB
from workbench.core.pipeline_spec import PipelineSpec
from workbench.core.schedules.stage_cost import equal_stages
from workbench.core.tensor import Role
from workbench.multimodel import Job, Pass, Unit, policy_named
from workbench.multimodel import simulate as simulate_fleet
from workbench.pipeline.simulate_pipeline import simulate
from workbench.reports.measurement import TaskTime
from workbench.search.requirements import AtMost
from workbench.search.search_figures import Figures
from workbench.units import format_bytes
from workbench.visualize.charts.chart import bokeh_script, bytes_unit, count_unit, seconds_unit
from workbench.visualize.charts.fleet_chart import fleet_chart
from workbench.visualize.charts.front_chart import FrontOverlays, front_chart
from workbench.visualize.charts.gantt_chart import gantt_chart
from workbench.visualize.charts.memory_chart import memory_charts
from workbench.visualize.charts.packed_spans import Lane, Span, SpanStyle, pack_spans
from workbench.visualize.charts.roofline_chart import roofline_chart
from workbench.visualize.charts.timeline_chart import timeline_chart, timeline_parts

SIGNS = FrontOverlays("1", Figures(1.2, 5 * MIB, 8), "20% slower", (AtMost("memory", 7 * MIB),), least=0.9)


JOBS = tuple(Job(name, (Unit(0, Pass.FORWARD, 1.0, load=0.5), Unit(0, Pass.BACKWARD, 2.0)), 3) for name in ("a", "b", "c"))
STEP = simulate(PipelineSpec(3, 4, "1f1b"), equal_stages(3, sent=8))


def ran(step, slower=2.0):
    """The tasks of a run that took so many times what was simulated, and began at 5 s."""
    return [
        TaskTime(each.device, each.task.kind.value, each.task.stage, each.task.micro_batch, 5 + slower * each.start, slower * each.seconds)
        for each in step.spans
    ]


def charts():
    return {
        "timeline": timeline_chart(timed_report(), measured_trace()),
        "memory": memory_charts(step_report(), chosen=0)[0],
        "roofline": roofline_chart(step_report()),
        "front": front_chart(FOUND, "memory", SIGNS),
        "gantt": gantt_chart(STEP, ran(STEP)),
        "fleet": fleet_chart(JOBS, simulate_fleet(JOBS, 2, policy_named("round-robin")), 1.0),
    }


@pytest.mark.parametrize("kind", ["timeline", "memory", "roofline", "front", "gantt", "fleet"])
def test_a_chart_is_json_and_fills_its_figure(kind):
    chart = charts()[kind]
    state = json.loads(json.dumps(chart.state, allow_nan=False))
    assert state == chart.state
    assert set(state["item"]) >= {"doc", "root_id"}
    figure = chart.make(*chart.settings)
    names = {model.name for model in figure.references() if model.name}
    assert {*chart.sources, *chart.properties} <= names
    for name, columns in chart.sources.items():
        assert len({len(each) for each in columns.values()}) <= 1, name
    titles = chart.sources["marks"]["title"] if "marks" in chart.sources else [style.title for style in chart.spans[0].styles]
    assert all(titles)
    assert len(titles) > 1


def test_the_empty_figure_is_the_same_for_every_plan_and_made_once():
    first, second = memory_charts(step_report())[0], memory_charts(step_report(), chosen=1)[0]
    assert first.state["id"] == second.state["id"]
    assert first.state["item"] is second.state["item"]
    assert first.state["id"] != roofline_chart(step_report()).state["id"]


def test_the_script_is_that_of_the_installed_bokeh():
    import bokeh

    assert f'"{bokeh.__version__}"' in bokeh_script()
    assert "cdn.bokeh.org" not in json.dumps(roofline_chart(step_report()).state)


def test_every_event_of_the_step_is_in_the_timeline_with_its_line_predicted_above_measured():
    report, trace = timed_report(), measured_trace()
    chart, parts = timeline_chart(report, trace), timeline_parts(report, trace)
    assert chart.spans[0].count == sum(len(part.spans) for part in parts)
    assert [lane.name for lane in chart.spans[0].lanes] == [row for part in parts for row in part.rows]
    tops = [lane.top for lane in chart.spans[0].lanes]
    assert tops == sorted(tops)
    assert all(a.bottom <= b.top for a, b in pairwise(chart.spans[0].lanes))
    assert {style.subject for style in chart.spans[0].styles} >= {"mlp/dot_general"}
    assert any("toy.py:9" in style.title for style in chart.spans[0].styles)
    assert sum(chart.spans[0].seconds) == pytest.approx(sum(each.seconds for part in parts for each in part.spans))
    assert timeline_chart(step_report()) is None or step_report().timeline


def test_each_task_is_in_its_stages_lane_and_the_measured_one_under_it_is_found_by_its_kind_and_number():
    chart = gantt_chart(STEP, ran(STEP))
    lanes = chart.spans[0].lanes
    assert [(lane.name, lane.tier) for lane in lanes[:2]] == [("stage 0", "predicted"), ("stage 0", "measured")]
    assert [lane.other for lane in lanes] == ["measured", "predicted"] * 3
    assert all(a.bottom <= b.top for a, b in pairwise(lanes))
    found = read_spans(*chart.state["spans"])
    predicted = {(each.lane, each.title): each for each in found if each.tier == "predicted"}
    measured = {(each.lane, each.title): each for each in found if each.tier == "measured"}
    assert measured.keys() == {key for key, each in predicted.items() if each.number >= 0}
    assert len(measured) == len(STEP.spans)
    for key, each in measured.items():
        assert (each.start, each.seconds) == pytest.approx((2 * predicted[key].start, 2 * predicted[key].seconds))
    assert {round(each.share, 6) for each in predicted.values()} == {round(span.recompute / span.seconds, 6) for span in STEP.spans} | {0.0}
    assert chart.ranges["x"][1] == pytest.approx(2 * STEP.makespan)
    assert lanes[1].own == pytest.approx(2 * STEP.makespan / STEP.seconds * chart.spans[0].unit)


def test_the_measured_updates_of_chunks_are_not_compared_with_that_of_the_whole_stage():
    step = simulate(PipelineSpec(2, 4, "interleaved", chunks=2), equal_stages(4))
    tasks = [*ran(step), *(TaskTime(stage % 2, "update", stage, 0, 99 + stage, 1.0) for stage in range(4))]
    found = [each.title for each in read_spans(*gantt_chart(step, tasks).state["spans"]) if "update" in each.title]
    assert sorted(found) == ["update of chunk 0", "update of chunk 0", "update of chunk 1", "update of chunk 1"]


def test_memory_beneath_the_tasks_is_on_one_scale_and_keeps_its_peaks(monkeypatch):
    whole = gantt_chart(STEP).sources["memory"]
    monkeypatch.setattr("workbench.visualize.charts.gantt_chart._MOST_MOMENTS", 5)
    reduced = gantt_chart(STEP).sources["memory"]
    assert len(reduced["xs"][0]) < len(whole["xs"][0])
    for memory in (whole, reduced):
        heights = [max(ys) - min(ys) for ys in memory["ys"]]
        assert [round(each / max(heights), 2) for each in heights] == [round(peak / max(STEP.peaks), 2) for peak in STEP.peaks]
    ticks = gantt_chart(STEP).properties["y axis"]["major_label_overrides"].values()
    assert f"memory 2: {format_bytes(STEP.peaks[2])}" in ticks


def test_a_step_without_time_has_no_chart():
    assert gantt_chart(simulate(PipelineSpec(2, 2, "gpipe"), equal_stages(2, 0.0, 0.0, 0.0))) is None


def test_the_areas_of_memory_add_up_to_what_is_held():
    chart = memory_charts(step_report())[0]
    unit = bytes_unit(step_report().memory_curve and max(map(sum, zip(*CURVE.by_role.values(), strict=True)))).size
    held = [sum(counts) for counts in zip(*CURVE.by_role.values(), strict=True)]
    top = max(name for name in chart.sources["areas"] if name.startswith("h"))
    assert [round(each * unit) for each in chart.sources["areas"][top]][:-1] == held
    assert len(chart.key) == sum(any(CURVE.by_role.get(role, ())) for role in Role)
    assert chart.sources["marks"]["opens"] == [str(place) for place in range(len(held))]


def test_each_kernel_that_computes_has_a_disc_that_selects_it():
    chart = roofline_chart(step_report())
    assert chart.sources["marks"]["subject"] == [each.path for each in KERNELS if each.bytes and each.intensity >= 0.01]
    assert all(low < x < high for x in chart.sources["marks"]["x"] for low, high in [chart.ranges["x"]])
    assert all(low < y < high for y in chart.sources["marks"]["y"] for low, high in [chart.ranges["y"]])
    named = [place for place, base in enumerate(chart.sources["words"]["base"]) if base == "top"]
    assert named
    assert all(chart.sources["words"]["dy"][place] > 0 for place in named), "under the middle of a disc, where no line of the roof is"


def test_the_front_is_clicked_for_its_plans_and_what_lies_outside_is_left_out():
    chart = front_chart(FOUND, "memory", SIGNS)
    assert set(chart.sources["marks"]["opens"]) == {"0", "1", "2", "3"}
    assert len(chart.sources["chosen"]["x"]) == 1
    assert chart.sources["words"]["text"] == ["at most 7.00 MiB a device", "no plan is faster", "present plan"]
    assert front_chart(()) is None


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1e-3), st.integers(0, 1)), max_size=40))
def test_packed_spans_are_read_back(spans):
    lanes, styles = (Lane("a", "#000000", 1, 0),), (SpanStyle("f", "f"), SpanStyle("g", "g"))
    state = pack_spans([[Span(*each) for each in spans]], lanes, styles, 1e-3).state
    starts, seconds = array("d", base64.b64decode(state["starts"])), array("f", base64.b64decode(state["seconds"]))
    kinds = array("I", base64.b64decode(state["kinds"]))
    found = list(zip(starts, kinds, strict=True))
    assert found == [(start, kind) for start, _, kind in sorted(spans)]
    assert list(seconds) == pytest.approx([each for _, each, _ in sorted(spans)], rel=1e-6, abs=1e-12)
    assert state["firsts"] == [0, len(spans)]


def test_an_axis_is_in_the_unit_that_its_greatest_value_is_written_in():
    assert [seconds_unit(each).name for each in (12.0, 0.2, 1e-5, 1e-9)] == ["s", "ms", "µs", "µs"]
    assert [bytes_unit(each).name for each in (0, 1023, 1024, 80 << 30)] == ["bytes", "bytes", "KiB", "GiB"]
    assert count_unit(999e12, "FLOP/s").name == "TFLOP/s"
