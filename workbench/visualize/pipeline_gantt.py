"""A pipelined step over time: a row per device, a box per task; as simulated, below it as measured, and the memory of every device over
time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from workbench.core.schedules.schedule import Kind, Task
from workbench.reports.measurement import TaskTime, bubble_share
from workbench.reports.simulated_pipeline import TASK_NAMES, Moment, SimulatedPipeline, gantt_text, gantt_title
from workbench.units import format_bytes, format_seconds
from workbench.visualize.draw.axis_scale import ticks
from workbench.visualize.draw.drawing_marks import Area, Drawing, Label, Mark, Rectangle, fit_drawing, text_width
from workbench.visualize.draw.palette import NEUTRAL, TASKS
from workbench.visualize.draw.picture import Picture

_LENGTH, _HIGH, _GAP, _TALL = 760, 20, 4, 34  # pixels
_RECOMPUTE_ALPHA = 0.55  # opacity of recomputation


@dataclass(frozen=True, slots=True)
class _Box:
    """A task as it is drawn; in its first `again` seconds it recomputes the forward pass."""

    device: int
    kind: str
    label: str
    about: str
    start: float
    end: float
    again: float = 0.0


def pipeline(step: SimulatedPipeline, tasks: Sequence[TaskTime] = (), *, memory: bool = False) -> Picture:
    """The simulated step of a pipeline (`plan.report().pipeline.simulated`); `tasks` of a measured one (`measurement.tasks`) go below it,
    each to its own scale of time; with `memory`, the bytes of every device over the simulated step.

    The number in a box is that of its micro-batch, with a prime for each further turn around the devices.
    """
    return Picture(gantt_title(step), lambda: _drawing(step, tasks, memory=memory), lambda: _text(step, tasks))


def _text(step: SimulatedPipeline, tasks: Sequence[TaskTime]) -> str:
    return gantt_text(step) + (f"\n\n{_measured_title(tasks)}" if tasks else "")


def _measured_title(tasks: Sequence[TaskTime]) -> str:
    return f"measured: {format_seconds(max(task.end for task in tasks))}, {bubble_share(tasks):.0%} idle"


def _drawing(step: SimulatedPipeline, tasks: Sequence[TaskTime], *, memory: bool) -> Drawing:
    marks: list[Mark] = []
    devices, boxes = len(step.devices), _simulated_boxes(step)
    head = text_width(f"device {devices}") + 8
    title = f"simulated: {format_seconds(step.seconds)}, {step.bubble:.0%} idle"
    y = _draw_part(marks, title, boxes, devices, step.seconds, head, 0)
    if memory:
        y = _memory(marks, step, head, y)
    if tasks:
        lasted = max(task.end for task in tasks)
        y = _draw_part(marks, _measured_title(tasks), _measured_boxes(tasks, devices), devices, lasted, head, y)
    marks += _key({box.kind for box in boxes}, again=any(span.recompute for span in step.spans), head=head, y=y)
    return fit_drawing(tuple(marks))


def _simulated_boxes(step: SimulatedPipeline) -> list[_Box]:
    devices = len(step.devices)
    found = [_box(span.task, devices, span.device, span.start, span.end, span.recompute) for span in step.spans]
    for device in range(devices):
        begin, end = step.update_span(device)
        found += [_Box(device, "update", "", "update", begin, end)] if end > begin else []
    return found


def _measured_boxes(tasks: Sequence[TaskTime], devices: int) -> list[_Box]:
    return [
        _Box(task.device, "update", "", "update", task.start, task.end)
        if task.kind == "update"
        else _box(Task(Kind(task.kind), task.stage, task.micro_batch), devices, task.device, task.start, task.end)
        for task in tasks
    ]


def _box(task: Task, devices: int, device: int, start: float, end: float, again: float = 0.0) -> _Box:
    about = f"{TASK_NAMES[task.kind]} of micro-batch {task.micro_batch}, stage {task.stage}"
    return _Box(device, task.kind.value, task.label(devices)[1:], about, start, end, again)


def _draw_part(marks: list[Mark], title: str, boxes: Sequence[_Box], devices: int, seconds: float, head: float, y: float) -> float:
    """Draw one chart with its title at `y`; returns the y below it."""
    marks.append(Label(head, y + 12, title, bold=True))
    scale, y = _LENGTH / (seconds or 1.0), y + 20
    for device in range(devices):
        marks.append(Label(0, y + device * (_HIGH + _GAP) + 14, f"device {device}"))
        marks.append(Rectangle(head, y + device * (_HIGH + _GAP) + _HIGH, _LENGTH, 1, fill=NEUTRAL, alpha=0.35))
    for box in boxes:
        marks += _draw_box(box, head, y + box.device * (_HIGH + _GAP), scale)
    y += devices * (_HIGH + _GAP)
    return _scale(marks, seconds, head, y)


def _draw_box(box: _Box, head: float, y: float, scale: float) -> Iterator[Mark]:
    fill, ink = TASKS[box.kind]
    left, wide = head + box.start * scale, max((box.end - box.start) * scale, 0.5)
    about = f"{box.about}: {format_seconds(box.end - box.start)}"
    again = min(box.again * scale, wide)
    if again:
        yield Rectangle(
            left,
            y,
            again,
            _HIGH,
            fill=fill,
            alpha=_RECOMPUTE_ALPHA,
            hatched=True,
            title=f"{about}, of it {format_seconds(box.again)} again",
        )
    # A pixel of background between two boxes separates them.
    yield Rectangle(left + again, y, max(wide - again - 0.7, 0.5), _HIGH, fill=fill, title=about)
    if box.label and text_width(box.label) + 2 <= wide - again:
        yield Label(left + again + (wide - again) / 2, y + 14, box.label, anchor="middle", colour=ink)


def _scale(marks: list[Mark], seconds: float, head: float, y: float) -> float:
    for tick in ticks(seconds):
        x = head + _LENGTH * tick / (seconds or 1.0)
        marks.append(Rectangle(x, y, 1, 4, fill=NEUTRAL))
        marks.append(Label(x, y + 16, format_seconds(tick) if tick else "0", anchor="middle"))
    return y + 28


def _memory(marks: list[Mark], step: SimulatedPipeline, head: float, y: float) -> float:
    """A curve per device, all on one scale."""
    most = max(step.peaks) or 1
    marks.append(Label(head, y + 12, f"bytes on each device, at most {format_bytes(most)}", bold=True))
    y += 20
    for device, peak in enumerate(step.peaks):
        base = y + _TALL
        marks.append(Label(0, base - 4, f"device {device}"))
        marks.append(Area(tuple(_outline(step.memory(device), step.seconds, most, head, base)), fill=TASKS["forward"][0], alpha=0.6))
        marks.append(Label(head + _LENGTH + 6, base - 4, format_bytes(peak)))
        y += _TALL + _GAP
    return _scale(marks, step.seconds, head, y)


def _outline(moments: Sequence[Moment], seconds: float, most: int, head: float, base: float) -> Iterator[tuple[float, float]]:
    scale, height = _LENGTH / (seconds or 1.0), base
    yield head, base
    for moment in moments:
        x = round(head + moment.start * scale, 1)
        yield x, height
        height = round(base - _TALL * moment.bytes / most, 1)
        yield x, height
    yield head + _LENGTH, height
    yield head + _LENGTH, base


def _key(kinds: set[str], *, again: bool, head: float, y: float) -> Iterator[Mark]:
    x = head
    for kind, name in TASK_NAMES.items():
        if kind in kinds:
            yield Rectangle(x, y + 2, 10, 10, fill=TASKS[kind][0])
            yield Label(x + 14, y + 11, name)
            x += text_width(name) + 30
    if again:
        yield Rectangle(x, y + 2, 10, 10, fill=TASKS["backward"][0], alpha=_RECOMPUTE_ALPHA, hatched=True)
        yield Label(x + 14, y + 11, "computed again")
