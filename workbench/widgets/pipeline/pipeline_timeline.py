"""The step of a pipeline over time: as simulated, under it as a run of the same plan measured it, and what differs in words."""

from collections.abc import Sequence

from workbench.core.schedules.tasks import Kind
from workbench.reports.gantt_text import TASK_NAMES
from workbench.reports.measurement import TaskTime, bubble_share
from workbench.reports.pipeline import PipelineReport
from workbench.units import format_seconds
from workbench.visualize.charts.gantt_chart import gantt_chart
from workbench.visualize.draw.picture import Picture
from workbench.visualize.pipeline import pipeline
from workbench.widgets.tabs.blocks import Block, note_block, picture_block

MOST_TASKS = 100_000  # that are sent with each drop


def timeline_block(planned: PipelineReport, tasks: Sequence[TaskTime] = ()) -> Block:
    """Of a planned pipeline, with the tasks that a run of the same plan measured."""
    step, title = planned.simulated, "The step over time"
    count = len(step.spans) + len(tasks)
    if count > MOST_TASKS:
        return {**note_block(f"{count:,} tasks are too many to draw; the figures above count them all."), "title": title}
    lasted = max((task.end for task in tasks), default=0.0) - min((task.start for task in tasks), default=0.0)
    drawn, about = pipeline(step, tasks, memory=True), _about(planned, lasted)
    picture = Picture(about, lambda: drawn.drawing, lambda: f"{about}\n\n{drawn.text}")
    chart = gantt_chart(step, tasks)
    note = _difference(planned, tasks, lasted)
    return {**picture_block(picture, note, name="pipeline timeline", charts=[chart] if chart else []), "title": title}


def _difference(planned: PipelineReport, tasks: Sequence[TaskTime], lasted: float) -> str:
    """The differences in words: the step, the bubble, and each kind of task."""
    if not tasks:
        return ""
    step = planned.simulated
    ratio = f", {lasted / step.seconds:.2f}× of it" if step.seconds else ""
    kinds = "; ".join(_kind_difference(kind, planned, tasks) for kind in Kind if any(task.kind == kind for task in tasks))
    return (
        f"Measured {format_seconds(lasted)}, predicted {format_seconds(step.seconds)}{ratio}. "
        f"Bubble measured {bubble_share(tasks):.1%}, predicted {step.bubble:.1%}. "
        f"A task takes, measured and predicted: {kinds}."
    )


def _kind_difference(kind: Kind, planned: PipelineReport, tasks: Sequence[TaskTime]) -> str:
    """The difference of the mean task of a kind."""
    real = [task.seconds for task in tasks if task.kind == kind]
    predicted_seconds = [span.seconds for span in planned.simulated.spans if span.task.kind is kind]
    predicted = format_seconds(sum(predicted_seconds) / len(predicted_seconds)) if predicted_seconds else "none"
    return f"{TASK_NAMES[kind.value]} {format_seconds(sum(real) / len(real))} and {predicted}"


def _about(planned: PipelineReport, lasted: float) -> str:
    step = planned.simulated
    measured = f" Measured below each: {format_seconds(lasted)}." if lasted else ""
    what = "The schedule, each stage a program of its own: the step" if planned.is_in_step else "The step"
    return (
        f"{what} as {planned.spec.schedule} runs it: {len(step.spans)} tasks on {planned.spec.stages} stages "
        f"in {format_seconds(step.seconds)}, bubble {step.bubble:.1%}.{measured} Memory of each stage beneath."
    )
