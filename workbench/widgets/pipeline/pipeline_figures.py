"""The key figures of a plan with a pipeline: figures of the whole program do not hold for a stage, which has only a part of it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from workbench.core.mesh import Mesh
from workbench.reports.pipeline import PipelineReport
from workbench.reports.report import Report
from workbench.units import format_bytes, format_seconds
from workbench.widgets.board.figure_record import Figure

_WORK, _AGAIN, _BUBBLE, _UPDATE = 0, 1, 2, 4  # shades of the step's bar


def pipeline_figures(report: Report, found: Sequence[Figure]) -> list[Figure]:
    """`found` are the figures of the program as a whole; they are used where it cannot be partitioned."""
    planned = report.staged_pipeline
    if planned is None:
        return [replace(figure, note="without the pipeline", tone="bad") for figure in found]
    return list(_list_figures(report, planned, {figure.key: figure for figure in found}))


def _list_figures(report: Report, planned: PipelineReport, found: dict[str, Figure]) -> Iterator[Figure]:
    step = planned.simulated
    if report.step_time is not None:
        yield _time(found["predicted"], planned, report.step_time.calibration)
    yield found["memory"]
    title = "the share of the stages' time until the last task is done in which they do nothing"
    least = planned.least_bubble
    yield Figure("bubble", "Bubble", step.bubble, _percent, title, "" if least is None else f"{_percent(least)} with equal stages")
    if "mfu" in found and report.step_time is not None:
        was = found["mfu"]
        value = was.value * report.step_time.total / planned.seconds if planned.seconds else was.value
        yield replace(was, value=value, note="with the bubble")
    sent = sum(planned.traffic.values())
    yield Figure(
        "passed",
        "Between stages",
        sent,
        format_bytes,
        f"{sent:,} bytes a step between stages, activations one way and gradients the other",
        "sent each step",
    )
    yield _sent_inside(planned, report.mesh)
    if "flops" in found:
        most = planned.busiest
        count = planned.flops(most)
        title = f"{count:,} a step on one device of stage {most}, what is computed again included"
        yield replace(found["flops"], value=count, title=title, note=f"each step, stage {most}, the most")
    if "duplication" in found:
        yield replace(found["duplication"], value=report.duplication)


def _sent_inside(planned: PipelineReport, mesh: Mesh) -> Figure:
    """What leaves a device in collectives among the devices of its own stage; of the stage that sends most."""
    most = planned.most_sending(mesh)
    count = planned.sent_inside(most, mesh)
    title = f"{count:,} bytes leave each device of stage {most} in a step, in collectives among the devices of the stage"
    return Figure("sent", "Within a stage", count, format_bytes, title, f"sent per device, stage {most}, the most")


def _time(figure: Figure, planned: PipelineReport, calibration: str) -> Figure:
    """The mean stage: working, recomputing, waiting, updating."""
    step, stages = planned.simulated, planned.spec.stages
    again = sum(span.recompute for span in step.spans) / stages
    parts = {
        "work": (_WORK, sum(step.busy) / stages - again, "forward and backward tasks, of the mean stage"),
        "computed again": (_AGAIN, again, "the forward pass, within backward tasks"),
        "bubble": (_BUBBLE, step.makespan - sum(step.busy) / stages, "waiting for other stages"),
        "update": (_UPDATE, max(step.seconds - step.makespan, 0.0), "of the parameters, behind the last task"),
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
