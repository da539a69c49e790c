"""The picture of a pipelined step: a box a task, none over another, memory beneath, measured tasks to their own scale."""

from itertools import pairwise

from workbench.core.pipeline_spec import PipelineSpec
from workbench.core.schedules.stage_cost import equal_stages
from workbench.pipeline.simulate_pipeline import simulate
from workbench.reports.measurement import TaskTime
from workbench.visualize import pipeline
from workbench.visualize.draw.palette import TASKS

STEP = simulate(PipelineSpec(3, 4, "1f1b"), equal_stages(3, sent=8))


def boxes(picture):
    """Of each row its boxes, the hatched ones included."""
    rows: dict[float, list] = {}
    for each in picture.drawing.rectangles:
        if each.fill in {fill for fill, _ in TASKS.values()} and each.title:
            rows.setdefault(each.y, []).append(each)
    return [sorted(row, key=lambda each: each.x) for _, row in sorted(rows.items())]


def test_each_task_is_a_box_on_its_devices_row_and_what_is_computed_again_is_hatched():
    rows = boxes(pipeline(STEP))
    assert len(rows) == 3
    for row, spans in zip(rows, STEP.devices, strict=True):
        assert sum(not each.hatched for each in row) == len(spans)
        assert sum(each.hatched for each in row) == sum(span.recompute > 0 for span in spans)
        assert all(a.x + a.width <= b.x + 1e-6 for a, b in pairwise(row))


def test_measured_tasks_stand_below_with_a_title_of_their_own():
    tasks = [
        TaskTime(span.device, span.task.kind.value, span.task.stage, span.task.micro_batch, span.start, span.seconds) for span in STEP.spans
    ]
    picture = pipeline(STEP, [*tasks, TaskTime(0, "update", 0, 0, STEP.seconds, 0.5)])
    assert len(boxes(picture)) == 6
    assert [label.text for label in picture.drawing.labels if label.text.startswith("measured")] == ["measured: 24.5 s, 33% idle"]
    assert "measured" in picture.text


def test_the_memory_of_each_device_is_drawn_to_one_scale_and_its_peak_told():
    picture = pipeline(STEP, memory=True)
    heights = [max(y for _, y in area.points) - min(y for _, y in area.points) for area in picture.drawing.areas]
    assert len(heights) == 3
    assert [round(each / max(heights), 2) for each in heights] == [round(peak / max(STEP.peaks), 2) for peak in STEP.peaks]
