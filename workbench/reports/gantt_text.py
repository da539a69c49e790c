"""A simulated pipeline step as a Gantt chart in text."""

from collections.abc import Mapping, Sequence

from workbench.core.schedules.tasks import Kind
from workbench.reports.simulated_pipeline import SimulatedPipeline, TaskSpan
from workbench.units import format_seconds

TASK_NAMES: Mapping[str, str] = {
    "forward": "forward",
    "backward": "backward",
    "backward_input": "gradient of the input",
    "backward_weight": "gradient of the weights",
    "update": "update",
}
"""Kinds of tasks, in the order of their colours, in words."""
COLUMNS = 96  # of the chart
_FILL = {Kind.FORWARD: "-", Kind.BACKWARD: "=", Kind.BACKWARD_INPUT: "=", Kind.BACKWARD_WEIGHT: "~"}
_RECOMPUTED, _UPDATE, _IDLE = "+", "u", "."


def gantt_title(step: SimulatedPipeline) -> str:
    return f"The step, {format_seconds(step.seconds)} from left to right"


def gantt_text(step: SimulatedPipeline, columns: int = COLUMNS) -> str:
    """A row per device, time to the right: `F3---` forward, `B3===` backward, `+` recomputation, `u` the update, `.` idle."""
    scale = columns / step.seconds if step.seconds else 0.0
    rows = []
    for device, spans in enumerate(step.devices):
        cells = [_IDLE] * columns
        for span in spans:
            _draw_task(cells, span, scale, len(step.devices))
        begin, end = (round(moment * scale) for moment in step.update_span(device))
        cells[begin:end] = _UPDATE * (end - begin)
        rows.append(f"  {device:>3}  {''.join(cells)[:columns]}")
    legend = _legend_text(step)
    return "\n".join((f"{gantt_title(step)}\n", *rows, f"\n  {legend}"))


def _draw_task(cells: list[str], span: TaskSpan, scale: float, devices: int) -> None:
    """Label and fill, as much as fits; for the shortest tasks a letter, or nothing."""
    begin, end = round(span.start * scale), round(span.end * scale)
    again = min(round((span.start + span.recompute) * scale), end)
    room = end - begin
    text = _RECOMPUTED * (again - begin) + _FILL[span.task.kind] * (end - again)
    label = span.task.label(devices)
    label = label if len(label) < room else label[:1]
    cells[begin:end] = (label + text[len(label) :])[:room]


def _legend_text(step: SimulatedPipeline) -> str:
    kinds: Sequence[Kind] = sorted({span.task.kind for span in step.spans})
    words = {
        Kind.FORWARD: "F- forward",
        Kind.BACKWARD: "B= backward",
        Kind.BACKWARD_INPUT: "I= gradient of the input",
        Kind.BACKWARD_WEIGHT: "W~ gradient of the weights",
    }
    shown = [words[kind] for kind in (Kind.FORWARD, Kind.BACKWARD, Kind.BACKWARD_INPUT, Kind.BACKWARD_WEIGHT) if kind in kinds]
    if any(span.recompute for span in step.spans):
        shown.append("+ computed again")
    if step.seconds > step.makespan:
        shown.append("u update")
    return " · ".join((*shown, ". idle"))
