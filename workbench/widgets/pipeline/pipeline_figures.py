"""Key figures of a plan with a pipeline, whose stages each have only a part of the program."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from workbench.core.mesh import Mesh
from workbench.core.schedules.schedule import Kind
from workbench.core.text_tables import count_text
from workbench.reports.measurement import TaskTime, bubble_share
from workbench.reports.pipeline import PipelineReport
from workbench.reports.report import Report
from workbench.reports.simulated_pipeline import TASK_NAMES
from workbench.units import format_bytes, format_seconds
from workbench.visualize.charts.gantt_chart import gantt_chart, pipeline
from workbench.visualize.draw.picture import Picture
from workbench.widgets.board.tier_marks import Figure
from workbench.widgets.tabs.table_blocks import Block, note_block, picture_block

_WORK, _AGAIN, _BUBBLE, _UPDATE = 0, 1, 2, 4  # shades of the step's bar


def pipeline_figures(report: Report, found: Sequence[Figure]) -> list[Figure]:
    """Return the key figures; `found` are those of the whole program, used if it cannot be partitioned."""
    planned = report.staged_pipeline
    if planned is None:
        return [replace(figure, note="without the pipeline", tone="bad") for figure in found]
    return list(_list_figures(report, planned, {figure.key: figure for figure in found}))


def _list_figures(report: Report, planned: PipelineReport, found: dict[str, Figure]) -> Iterator[Figure]:
    step = planned.simulated
    if report.step_time is not None:
        yield _time(found["predicted"], planned, report.step_time.calibration)
    yield found["memory"]
    if has_stages := planned.spec.stages > 1:
        title = "idle share of the stages' time, until the last task ends"
        least = planned.least_bubble
        yield Figure("bubble", "Bubble", step.bubble, _percent, title, "" if least is None else f"{_percent(least)} with equal stages")
    if "mfu" in found and report.step_time is not None:
        was = found["mfu"]
        value = was.value * report.step_time.total / planned.seconds if planned.seconds else was.value
        yield replace(was, value=value, note="with the bubble" if has_stages else was.note)
    if has_stages:
        sent = sum(planned.traffic.values())
        title = f"{sent:,} bytes a step between stages, activations forward and gradients backward"
        yield Figure("passed", "Between stages", sent, format_bytes, title, "sent each step")
    yield _sent_inside(planned, report.mesh)
    if "flops" in found:
        most = planned.busiest
        count = planned.flops(most)
        title = f"{count:,} a step on one device{f' of stage {most}' if has_stages else ''}, recomputation included"
        yield replace(found["flops"], value=count, title=title, note=f"each step, stage {most}, the most" if has_stages else "each step")
    if "duplication" in found:
        yield replace(found["duplication"], value=report.duplication)


def _sent_inside(planned: PipelineReport, mesh: Mesh) -> Figure:
    """Build the bytes sent in collectives within a stage, for the stage that sends most."""
    most = planned.most_sending(mesh)
    count = planned.sent_inside(most, mesh)
    if planned.spec.stages == 1:
        return Figure("sent", "Sent per device", count, format_bytes, f"{count:,} bytes sent per device and step", "each step")
    title = f"{count:,} bytes leave each device of stage {most} in a step, in collectives among the devices of the stage"
    return Figure("sent", "Within a stage", count, format_bytes, title, f"sent per device, stage {most}, the most")


def _time(figure: Figure, planned: PipelineReport, calibration: str) -> Figure:
    """Build the step time of the mean stage: working, recomputing, waiting, updating."""
    step, stages = planned.simulated, planned.spec.stages
    again = sum(span.recompute for span in step.spans) / stages
    parts = {
        "work": (_WORK, sum(step.busy) / stages - again, "forward and backward tasks of the mean stage"),
        "computed again": (_AGAIN, again, "recomputed forward pass, in backward tasks"),
        "bubble": (_BUBBLE, step.makespan - sum(step.busy) / stages, "waiting for other stages"),
        "update": (_UPDATE, max(step.seconds - step.makespan, 0.0), "of the parameters, after the last task"),
    }
    return replace(
        figure,
        value=planned.seconds,
        title=f"seconds of one step of the pipeline {planned.spec}" + (f", {calibration}" if calibration else ""),
        parts=tuple(
            _part(name, value, planned.seconds, shade, format_seconds(value), why)
            for name, (shade, value, why) in parts.items()
            if value > 0
        ),
        apart=None,
    )


def _part(name: str, value: float, whole: float, shade: int, text: str, why: str) -> dict[str, Any]:
    share = value / (whole or 1.0)
    return {"role": name, "shade": shade, "share": round(min(share, 1.0), 6), "text": text, "title": f"{name} {text}, {share:.0%}: {why}"}


def _percent(value: float) -> str:
    return f"{value:.1%}"


# The step of a pipeline over time: simulated, measured below it, and the differences in words.

MOST_TASKS = 100_000  # that are sent with each drop


def timeline_block(planned: PipelineReport, tasks: Sequence[TaskTime] = ()) -> Block:
    step, title = planned.simulated, "The step over time"
    count = len(step.spans) + len(tasks)
    if count > MOST_TASKS:
        return {**note_block(f"{count:,} tasks are too many to draw; the figures above count them all."), "title": title}
    lasted = max((task.end for task in tasks), default=0.0) - min((task.start for task in tasks), default=0.0)
    drawn, about = pipeline(step, tasks), _about(planned, lasted)
    picture = Picture(about, lambda: drawn.drawing, lambda: f"{about}\n\n{drawn.text}")
    chart = gantt_chart(step, tasks)
    note = _difference(planned, tasks, lasted)
    return {**picture_block(picture, note, name="pipeline timeline", charts=[chart] if chart else []), "title": title}


def _difference(planned: PipelineReport, tasks: Sequence[TaskTime], lasted: float) -> str:
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
    real = [task.seconds for task in tasks if task.kind == kind]
    predicted_seconds = [span.seconds for span in planned.simulated.spans if span.task.kind is kind]
    predicted = format_seconds(sum(predicted_seconds) / len(predicted_seconds)) if predicted_seconds else "none"
    return f"{TASK_NAMES[kind.value]} {format_seconds(sum(real) / len(real))} and {predicted}"


def _about(planned: PipelineReport, lasted: float) -> str:
    step = planned.simulated
    measured = f" Measured below each: {format_seconds(lasted)}." if lasted else ""
    what = "The schedule, with a separate program per stage: the step" if planned.is_in_step else "The step"
    return (
        f"{what} as {planned.spec.schedule} runs it: {len(step.spans)} tasks on {count_text(planned.spec.stages, 'stage')} "
        f"in {format_seconds(step.seconds)}, bubble {step.bubble:.1%}.{measured} Memory of each stage beneath."
    )
