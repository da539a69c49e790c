"""The picture of a pipelined step: a box a task, none over another, memory beneath, measured tasks to their own scale."""

from itertools import pairwise

from workbench.core.pipeline_spec import PipelineSpec
from workbench.core.schedules.stage_cost import equal_stages
from workbench.pipeline.simulate_pipeline import simulate
from workbench.reports.measurement import TaskTime
from workbench.units import format_bytes
from workbench.visualize import pipeline
from workbench.visualize.draw.palette import TASKS

STEP = simulate(PipelineSpec(3, 4, "1f1b"), equal_stages(3, sent=8))


def boxes(picture):
    """Of each row its boxes."""
    rows: dict[float, list] = {}
    for each in picture.drawing.rectangles:
        if each.fill in set(TASKS.values()) and each.title:
            rows.setdefault(each.y, []).append(each)
    return [sorted(row, key=lambda each: each.x) for _, row in sorted(rows.items())]


def test_each_task_is_a_box_on_its_devices_row_and_what_is_computed_again_is_hatched():
    picture = pipeline(STEP)
    rows = boxes(picture)
    assert [len(row) for row in rows] == [len(spans) for spans in STEP.devices]
    assert all(a.x + a.width <= b.x + 0.2 for row in rows for a, b in pairwise(row))
    hatched = [each for each in picture.drawing.rectangles if each.hatched and each.title]
    assert len(hatched) == sum(span.recompute > 0 for span in STEP.spans)


def test_measured_tasks_are_thin_under_their_stage_and_the_title_says_how_long_they_took():
    tasks = [
        TaskTime(span.device, span.task.kind.value, span.task.stage, span.task.micro_batch, span.start, span.seconds) for span in STEP.spans
    ]
    picture = pipeline(STEP, [*tasks, TaskTime(0, "update", 0, 0, STEP.seconds, 0.5)])
    predicted, measured = boxes(picture)[:2]
    assert len(boxes(picture)) == 6
    assert measured[0].height < predicted[0].height
    assert picture.drawing.labels[0].text == "simulated: 24.0 s, 33% idle · measured: 24.5 s, 33% idle"
    assert picture.text.endswith("measured: 24.5 s, 33% idle")


def test_the_memory_of_each_device_is_drawn_to_one_scale_and_its_peak_told():
    picture = pipeline(STEP)
    heights = [max(y for _, y in area.points) - min(y for _, y in area.points) for area in picture.drawing.areas]
    assert [round(each / max(heights), 1) for each in heights] == [round(peak / max(STEP.peaks), 1) for peak in STEP.peaks]
    assert f"memory 2: {format_bytes(STEP.peaks[2])}" in [label.text for label in picture.drawing.labels]
