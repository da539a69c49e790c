"""Interactive Gantt chart of a pipelined step: predicted and measured tasks per stage, and memory below."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.reports.measurement import TaskTime, bubble_share
from workbench.reports.simulated_pipeline import TASK_NAMES, Moment, SimulatedPipeline, gantt_text, gantt_title
from workbench.units import format_bytes, format_seconds
from workbench.visualize.charts.chart import Chart, KeyEntry, seconds_unit
from workbench.visualize.charts.packed_spans import NUMBER, Lane, PackedSpans, Span, SpanStyle, idle_columns, lane_properties, pack_spans
from workbench.visualize.charts.still_drawing import still_drawing
from workbench.visualize.draw.palette import NEUTRAL, TASKS
from workbench.visualize.draw.picture import Picture

_PART = "update of a chunk"
_MANY = 16  # stages above which lanes are lower
_MOST_MOMENTS = 2_000  # of a stage's memory curve
_AXIS = 48  # pixels below the lanes
_MEASURED, _GAP, _HEAD = 10, 6, 20  # pixels: height of a measured lane, gap between stages, gap above memory


@dataclass(frozen=True, slots=True)
class _StageRows:
    stages: int
    measured: bool

    @property
    def _bar(self) -> int:
        return 18 if self.stages <= _MANY else 12

    @property
    def _pitch(self) -> int:
        return self._bar + (_MEASURED + 1) * self.measured + _GAP

    @property
    def _memory(self) -> int:
        return 22 if self.stages <= _MANY else 13

    def predicted(self, stage: int) -> tuple[int, int]:
        """Bottom and top of a stage's predicted lane."""
        top = stage * self._pitch
        return top + self._bar, top

    def below(self, stage: int) -> tuple[int, int]:
        bottom, _ = self.predicted(stage)
        return bottom + 1 + _MEASURED, bottom + 1

    def memory(self, stage: int) -> tuple[int, int]:
        top = self.stages * self._pitch + _HEAD + stage * (self._memory + 4)
        return top + self._memory, top

    @property
    def height(self) -> int:
        return self.memory(self.stages)[1]


def gantt_chart(step: SimulatedPipeline, tasks: Sequence[TaskTime] = ()) -> Chart | None:
    """The simulated step of a pipeline and the measured `tasks`; `None` if the step takes no time."""
    if not step.seconds:
        return None
    begin = min((task.start for task in tasks), default=0.0)
    lasted = max((task.end - begin for task in tasks), default=0.0)
    longest = max(step.seconds, lasted)
    unit, rows = seconds_unit(longest), _StageRows(len(step.devices), bool(tasks))
    packed = _packed(step, tasks, begin, lasted, rows, unit.size)
    ticks = {(low + high) / 2: name for name, (low, high) in _names(step, rows)}
    return Chart(
        empty_gantt,
        (),
        {
            "idle": idle_columns([rows.predicted(stage) for stage in range(rows.stages)], step.seconds / unit.size),
            "memory": _memory(step, rows, unit.size),
        },
        {"x": (0.0, longest / unit.size), "y": (float(rows.height), 0.0)},
        lane_properties(rows.height + _AXIS, f"{unit.name} of the step", ticks),
        key=tuple(_key(step, tasks)),
        across=f"pipeline {unit.name}",
        rescales=True,
        spans=(packed,),
    )


def pipeline(step: SimulatedPipeline, tasks: Sequence[TaskTime] = (), *, title: str = "") -> Picture:
    """The simulated step of a pipeline above the memory of each stage, with thin lanes of measured `tasks`.

    A task shows the number of its micro-batch, with a prime for each further pass through the stages. `title` replaces
    the step time and the idle share, for readers who have to predict them.
    """
    measured = ""
    if tasks:
        measured = f"measured: {format_seconds(max(task.end for task in tasks))}, {bubble_share(tasks):.0%} idle"
    heading = title or " · ".join(filter(None, (f"simulated: {format_seconds(step.seconds)}, {step.bubble:.0%} idle", measured)))
    text = f"{gantt_text(step)}\n\n{measured}".rstrip()
    return Picture(title or gantt_title(step), lambda: still_drawing(heading, gantt_chart(step, tasks)), lambda: text)


def empty_gantt() -> Any:
    """The empty figure: idle time, tasks with recomputed parts hatched, their numbers, and memory."""
    from workbench.visualize.charts.empty_figure import add_idle, add_source, add_tasks, empty_lanes

    plot = empty_lanes()
    add_idle(plot)
    memory = add_source("memory", ("xs", "ys"))
    plot.patches("xs", "ys", source=memory, fill_color="#A3B4CE", fill_alpha=0.55, line_color=TASKS["forward"], line_width=1)
    add_tasks(plot)
    return plot


def _packed(step: SimulatedPipeline, tasks: Sequence[TaskTime], begin: float, lasted: float, rows: _StageRows, unit: float) -> PackedSpans:
    """The lanes of predicted and measured tasks of each stage; styles are kinds per virtual stage."""
    stages, styles = len(step.devices), _Styles(len(step.devices), len(step.costs))
    own_scale = unit * lasted / step.seconds
    tasks_by_stage: list[list[TaskTime]] = [[] for _ in range(stages)]
    for task in tasks:
        if task.device < stages and task.kind in TASK_NAMES:
            tasks_by_stage[task.device].append(task)
    lanes: list[Lane] = []
    spans: list[list[Span]] = []
    for stage in range(stages):
        lanes.append(Lane(f"stage {stage}", NEUTRAL, *rows.predicted(stage), "predicted", "measured" if tasks else ""))
        spans.append(list(_predicted(step, stage, styles)))
        if tasks:
            lanes.append(Lane(f"stage {stage}", NEUTRAL, *rows.below(stage), "measured", "predicted", own_scale))
            spans.append([_measured(task, begin, styles) for task in tasks_by_stage[stage]])
    return pack_spans(spans, tuple(lanes), styles.all, unit, "computed again")


class _Styles:
    """Span styles by task kind and virtual stage, numbered in order of first use."""

    def __init__(self, stages: int, virtual_stages: int) -> None:
        self._stages, self.has_chunks = stages, virtual_stages > stages
        self._places: dict[tuple[str, int], int] = {}

    def place(self, kind: str, stage: int) -> int:
        return self._places.setdefault((kind, stage), len(self._places))

    @property
    def all(self) -> tuple[SpanStyle, ...]:
        return tuple(self._style(kind, stage) for kind, stage in self._places)

    def _style(self, kind: str, stage: int) -> SpanStyle:
        turn, colour = stage // self._stages, TASKS["update" if kind == _PART else kind]
        chunk = f", chunk {turn}" if turn else ""
        if kind == "update":
            return SpanStyle("", TASK_NAMES[kind], colour=colour)
        if kind == _PART:
            return SpanStyle("", f"update of chunk {turn}", colour=colour)
        return SpanStyle(NUMBER + "'" * turn, f"{TASK_NAMES[kind]} of micro-batch {NUMBER}{chunk}", colour=colour)


def _predicted(step: SimulatedPipeline, device: int, styles: _Styles) -> Iterator[Span]:
    for span in step.devices[device]:
        recomputed_share = span.recompute / span.seconds if span.seconds else 0.0
        style = styles.place(span.task.kind.value, span.task.stage)
        yield Span(span.start, span.seconds, style, span.task.micro_batch, recomputed_share)
    start, end = step.update_span(device)
    if end > start:
        yield Span(start, end - start, styles.place("update", device))


def _measured(task: TaskTime, begin: float, styles: _Styles) -> Span:
    """The span of a measured task.

    With chunks, updates are predicted per stage but measured per chunk, so they get separate styles.
    """
    if task.kind == "update":
        style = styles.place(_PART, task.stage) if styles.has_chunks else styles.place("update", task.device)
        return Span(task.start - begin, task.seconds, style)
    return Span(task.start - begin, task.seconds, styles.place(task.kind, task.stage), task.micro_batch)


def _names(step: SimulatedPipeline, rows: _StageRows) -> Iterator[tuple[str, tuple[int, int]]]:
    for stage in range(rows.stages):
        yield f"stage {stage}", rows.predicted(stage)
    for stage, peak in enumerate(step.peaks):
        yield f"memory {stage}: {format_bytes(peak)}", rows.memory(stage)


def _memory(step: SimulatedPipeline, rows: _StageRows, unit: float) -> dict[str, list[list[float]]]:
    most = max(step.peaks) or 1
    outlines = [list(_outline(step.memory(stage), step.seconds, most, rows.memory(stage))) for stage in range(rows.stages)]
    return {"xs": [[x / unit for x, _ in outline] for outline in outlines], "ys": [[y for _, y in outline] for outline in outlines]}


def _outline(moments: Sequence[Moment], seconds: float, most: int, edges: tuple[int, int]) -> Iterator[tuple[float, float]]:
    base, top = edges
    yield 0.0, float(base)
    shown = _reduced(moments)
    for moment, end in zip(shown, [*(following.start for following in shown[1:]), seconds], strict=True):
        height = round(base - (base - top) * moment.bytes / most, 2)
        yield moment.start, height
        yield end, height
    yield seconds, float(base)


def _reduced(moments: Sequence[Moment]) -> list[Moment]:
    """At most `_MOST_MOMENTS` moments; merged ones keep their maximum, so the peak stays."""
    width = max(-(-len(moments) // _MOST_MOMENTS), 1)
    groups = [moments[start : start + width] for start in range(0, len(moments), width)]
    return [Moment(group[0].start, max(moment.bytes for moment in group)) for group in groups]


def _key(step: SimulatedPipeline, tasks: Sequence[TaskTime]) -> Iterator[KeyEntry]:
    kinds = {*(span.task.kind.value for span in step.spans), *(task.kind for task in tasks)}
    if step.seconds > step.makespan:
        kinds.add("update")
    for kind, name in TASK_NAMES.items():
        if kind in kinds:
            yield KeyEntry(TASKS[kind], name)
    if any(span.recompute for span in step.spans):
        yield KeyEntry(TASKS["backward"], "computed again", hatched=True)
    yield KeyEntry(NEUTRAL, "idle", hatched=True)
    if tasks:
        yield KeyEntry("", "thin: measured")
