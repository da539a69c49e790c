"""A pipeline as text: its key figures, its stages, its step as a Gantt chart."""

from collections.abc import Iterator, Mapping, Sequence

from workbench.core.schedules.tasks import Kind
from workbench.reports.pipeline import PipelineReport
from workbench.reports.simulated_pipeline import SimulatedPipeline, TaskSpan
from workbench.reports.step_time import StepTime
from workbench.core.text_tables import pairs_text, table_text, tail_text
from workbench.units import format_bytes, format_seconds

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


def pipeline_text(report: PipelineReport) -> str:
    """The whole: figures, stages, chart."""
    sections = (f"Pipeline {report.spec}", report.remark, pairs_text(_figures(report)), _stages(report), gantt_text(report.simulated))
    return "\n\n".join(section for section in sections if section)


def headline_figures(report: PipelineReport, time: StepTime | None) -> Iterator[tuple[str, str, str]]:
    """Step time and utilisation of a pipelined plan; `time` is the prediction for the whole program on the same devices."""
    step, stages = report.simulated, report.spec.stages
    if time is None:
        return
    again = sum(span.recompute for span in step.spans) / stages
    work = sum(step.busy) / stages
    spent = {"work": work - again, "computed again": again, "waiting": step.makespan - work, "update": step.seconds - step.makespan}
    shown = " · ".join(f"{name} {format_seconds(seconds)}" for name, seconds in spent.items() if seconds > 0)
    yield "step time, predicted", format_seconds(report.seconds), f"the mean stage: {shown}, {time.place}"
    if time.mfu and report.seconds:
        whole = time.total / report.seconds
        yield "model FLOPs utilisation", f"{time.mfu * whole:.1%}", "of all stages' devices, the bubble counted"


def _figures(report: PipelineReport) -> Iterator[tuple[str, str, str]]:
    spec, step = report.spec, report.simulated
    update = step.seconds - step.makespan
    parts = f"tasks {format_seconds(step.makespan)}" + (f" · update {format_seconds(update)}" if update > 0 else "")
    if not report.is_in_step:
        yield "step", format_seconds(step.seconds), parts
    least = "" if report.least_bubble is None else f"{report.least_bubble:.1%} with equal stages and free transfers"
    yield "bubble", f"{step.bubble:.1%}", least
    yield "balance of the stages", f"{report.balance:.1%}", "mean over most working time"
    if not report.is_in_step:
        yield "fullest device", format_bytes(max(step.peaks)), _capacity_text(report)
    sent = sum(report.traffic.values())
    pairs = len(report.traffic)
    yield "sent between stages", format_bytes(sent), f"a step, over {pairs} link{'s' * (pairs != 1)}" if pairs else "a step"
    path = step.critical_path
    stages = {span.device for span in path}
    yield "critical path", f"{len(path)} tasks", f"of {len(step.spans)}, on {len(stages)} of {spec.stages} stages"


def _capacity_text(report: PipelineReport) -> str:
    if not report.capacity:
        return ""
    share = max(report.simulated.peaks) / report.capacity
    return f"{share:.0%} of {format_bytes(report.capacity)}: " + ("fits" if report.fits else "too much")


def _stages(report: PipelineReport) -> str:
    """A row per virtual stage; what a device has for all of them is in the row of the first."""
    step, rows = report.simulated, []
    for virtual_stage in report.virtual_stages:
        cost, first = virtual_stage.cost, virtual_stage.number == virtual_stage.device
        rows.append(
            (
                f"{virtual_stage.device}{chr(39) * (virtual_stage.number // report.spec.stages)}",
                tail_text(virtual_stage.name),
                format_seconds(cost.forward),
                format_seconds(cost.backward),
                format_bytes(sum(count for _, count in cost.sends)),
                format_bytes(cost.resident),
                f"{step.idle(virtual_stage.device):.1%}" if first else "",
                str(step.in_flight(virtual_stage.device)) if first else "",
                format_bytes(step.peaks[virtual_stage.device]) if first else "",
            )
        )
    heads = ["stage", "blocks", "forward>", "backward>", "sends>", "holds>", "idle>", "in flight>", "peak>"]
    return f"Stages, of one micro-batch\n\n{table_text(heads, rows)}"


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
