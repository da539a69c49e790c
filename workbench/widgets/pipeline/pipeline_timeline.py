"""A pipelined step over time as JSON: predicted tasks, measured ones and memory, in seconds on one axis. The front end draws and zooms.

A task is `[device, start, end, kind, stage, micro-batch, recomputed]`: kinds are indices in `KINDS`, `recomputed` is the share of it that
recomputes the forward pass.
"""

from collections.abc import Sequence
from math import floor, log10
from typing import Any

from workbench.core.schedules.tasks import Kind
from workbench.reports.measurement import TaskTime, bubble_share
from workbench.reports.pipeline import PipelineReport
from workbench.text.pipeline import gantt_text
from workbench.units import format_bytes, format_seconds
from workbench.visualize.draw.palette import TASKS

KINDS = ("forward", "backward", "backward_input", "backward_weight", "update")
_NAMES = ("forward", "backward", "gradient of the input", "gradient of the weights", "update")
FAR = 4.0  # from this ratio to the predicted step on, a measured one is drawn on its own scale
MOST_TASKS = 30_000
Task = list[float]


def timeline_state(planned: PipelineReport, tasks: Sequence[TaskTime] = ()) -> dict[str, Any]:
    """Of a planned pipeline, with the tasks that a run of the same plan measured."""
    step = planned.simulated
    predicted = _predicted_tasks(planned)
    measured = _measured_tasks(tasks)
    end = max((task[2] for task in measured), default=0.0)
    drawn = len(predicted) + len(measured) <= MOST_TASKS
    kinds = sorted({int(task[3]) for task in (*predicted, *measured)})
    return {
        "devices": planned.spec.stages,
        "chunks": planned.spec.chunks,
        "seconds": step.seconds,
        "tasks": predicted if drawn else [],
        "measured": measured if drawn else [],
        "lasted": end,
        "far": bool(end) and not 1 / FAR <= end / (step.seconds or end) <= FAR,
        "difference": _difference(planned, tasks, end),
        "memory": [[[_short(m.start, step.seconds), m.bytes] for m in step.memory(device)] for device in range(planned.spec.stages)],
        "peaks": [format_bytes(peak) for peak in step.peaks],
        "most": max(step.peaks),
        "kinds": [
            {"key": KINDS[kind], "name": _NAMES[kind], "fill": TASKS[kind][0], "ink": TASKS[kind][1], "shown": kind in kinds}
            for kind in range(len(KINDS))
        ],
        "recomputes": any(task[6] for task in predicted),
        "about": _about(planned, end),
        "note": "" if drawn else f"{len(predicted) + len(measured):,} tasks are too many to draw; the figures above count them all.",
        "text": gantt_text(step),
    }


def _predicted_tasks(planned: PipelineReport) -> list[Task]:
    step = planned.simulated
    found = [
        [
            span.device,
            _short(span.start, step.seconds),
            _short(span.end, step.seconds),
            KINDS.index(span.task.kind),
            span.task.stage,
            span.task.micro_batch,
            round(span.recompute / span.seconds, 4) if span.seconds else 0,
        ]
        for span in step.spans
    ]
    updates = (step.update_span(device) for device in range(planned.spec.stages))
    return [*found, *([device, a, b, KINDS.index("update"), device, -1, 0] for device, (a, b) in enumerate(updates) if b > a)]


def _short(seconds: float, whole: float) -> float:
    """As many digits as a zoomed drawing of the whole can show."""
    return round(seconds, 6 - floor(log10(whole))) if whole > 0 else seconds


def _measured_tasks(tasks: Sequence[TaskTime]) -> list[Task]:
    """Measured tasks, relative to the start of the first."""
    begin = min((task.start for task in tasks), default=0.0)
    whole = max((task.end for task in tasks), default=0.0)
    return [
        [
            task.device,
            _short(task.start - begin, whole),
            _short(task.end - begin, whole),
            KINDS.index(task.kind),
            task.stage,
            task.micro_batch,
            0,
        ]
        for task in tasks
        if task.kind in KINDS
    ]


def _difference(planned: PipelineReport, tasks: Sequence[TaskTime], end: float) -> str:
    """The differences in words: the step, the bubble, and each kind of task."""
    if not tasks:
        return ""
    step = planned.simulated
    ratio = f", {end / step.seconds:.2f}× of it" if step.seconds else ""
    kinds = "; ".join(_kind_difference(kind, planned, tasks) for kind in Kind if any(task.kind == kind for task in tasks))
    return (
        f"Measured {format_seconds(end)}, predicted {format_seconds(step.seconds)}{ratio}. "
        f"Bubble measured {bubble_share(tasks):.1%}, predicted {step.bubble:.1%}. "
        f"A task takes, measured and predicted: {kinds}."
    )


def _kind_difference(kind: Kind, planned: PipelineReport, tasks: Sequence[TaskTime]) -> str:
    """The difference of the mean task of a kind."""
    real = [task.seconds for task in tasks if task.kind == kind]
    predicted_seconds = [span.seconds for span in planned.simulated.spans if span.task.kind is kind]
    predicted = format_seconds(sum(predicted_seconds) / len(predicted_seconds)) if predicted_seconds else "none"
    return f"{_NAMES[KINDS.index(kind)]} {format_seconds(sum(real) / len(real))} and {predicted}"


def _about(planned: PipelineReport, end: float) -> str:
    step = planned.simulated
    measured = f" Measured below each: {format_seconds(end)}." if end else ""
    what = "The schedule, each stage a program of its own: the step" if planned.is_in_step else "The step"
    return (
        f"{what} as {planned.spec.schedule} runs it: {len(step.spans)} tasks on {planned.spec.stages} stages "
        f"in {format_seconds(step.seconds)}, bubble {step.bubble:.1%}.{measured} Memory of each stage beneath."
    )
