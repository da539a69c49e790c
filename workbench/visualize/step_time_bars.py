"""Step time as bars of its parts: predicted, compiled and measured, on one scale."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from workbench.analysis.tier_comparison import Comparison
from workbench.core.text_tables import table_text
from workbench.reports.report import Report
from workbench.reports.step_time import StepTime
from workbench.units import format_seconds
from workbench.visualize.draw.bars import stack_bars
from workbench.visualize.draw.drawing_marks import Drawing, Label, Mark, Rectangle, fit_drawing, legend_marks, text_width
from workbench.visualize.draw.palette import NEUTRAL, STEP
from workbench.visualize.draw.picture import Picture

_LENGTH, _HIGH, _LINE, _CHARACTERS = 620, 26, 16, 32  # pixels, and length of the longest bar in characters
_HIDDEN = "hidden communication"


@dataclass(frozen=True, slots=True)
class _BarPart:
    """A part of a bar; `why` describes the time spent in it."""

    name: str
    seconds: float
    colour: str
    why: str
    hatched: bool = False


@dataclass(frozen=True, slots=True)
class _Bar:
    """A tier: its parts in sequence, and the parts `beside` that overlap with them."""

    name: str
    parts: tuple[_BarPart, ...]
    beside: tuple[_BarPart, ...] = ()
    note: str = ""

    @property
    def seconds(self) -> float:
        return sum(part.seconds for part in self.parts)


def step_time(report: Report, comparison: Comparison | None = None) -> Picture:
    """A bar for each tier, or each stage of a pipelined plan; overlapped communication is hatched below it."""
    bars = _bars(report, comparison)
    title = _title(report, bars)
    return Picture(title, lambda: _drawing(title, bars), lambda: _text(report, bars))


def _bars(report: Report, comparison: Comparison | None) -> tuple[_Bar, ...]:
    bars = [_predicted_bar(stage.step_time, stage.stage) for stage in report.stages if stage.step_time]
    if comparison is not None and comparison.compiled is not None and (seconds := comparison.compiled.compute_seconds):
        compiled = comparison.compiled
        bars.append(_Bar("compiled", (_BarPart("kernels", seconds, STEP[0], f"by the compiler's own estimate for {compiled.target}"),)))
    if comparison is not None and (measured := comparison.measurement):
        where = f"{measured.devices} × {measured.device_kind}"
        step = _BarPart("whole step", measured.median_seconds, NEUTRAL, f"median of {len(measured.step_seconds)} steps on {where}")
        bars.append(_Bar("measured", (step,), note=f"on {where}"))
    return tuple(bars)


def _predicted_bar(step: StepTime, stage: int | None) -> _Bar:
    parts = (
        _BarPart("compute-bound", step.arithmetic, STEP[0], "in compute-bound kernels"),
        _BarPart("memory-bound", step.memory, STEP[1], "in memory-bound kernels"),
        _BarPart("launches", step.launch, STEP[2], "between one kernel and the next"),
        _BarPart("exposed communication", step.exposed, STEP[3], "the device waits and computes nothing"),
        _BarPart("waiting for the host", step.host, STEP[4], "which launches each kernel"),
        _BarPart("waiting for other stages", step.idle, NEUTRAL, "the bubble of the pipeline", hatched=True),
    )
    beside = _BarPart(_HIDDEN, step.hidden, STEP[3], "overlapped with computation: adds no time", hatched=True)
    shown = step.hidden > 0.001 * step.total
    name, place = ("predicted", step.place) if stage is None else (f"stage {stage}", "")
    return _Bar(name, tuple(part for part in parts if part.seconds), (beside,) if shown else (), place)


def _title(report: Report, bars: Sequence[_Bar]) -> str:
    if not bars:
        return f"{report.title}: its time is not known, as the plan names no hardware"
    if len(bars) > 1 and not report.is_of_devices:
        place = next(stage.step_time.place for stage in report.stages if stage.step_time)
        return f"{report.title}: one step, {format_seconds(bars[0].seconds)} predicted {place}, as each stage spends it"
    listed = ", ".join(f"{format_seconds(bar.seconds)} {bar.name}" for bar in bars)
    return f"{report.title}: one step, {listed}"


def _text(report: Report, bars: Sequence[_Bar]) -> str:
    title = _title(report, bars)
    longest = max((bar.seconds for bar in bars), default=0.0) or 1.0
    sections = [title]
    for bar in bars:
        rows = [
            (part.name, format_seconds(part.seconds), f"{part.seconds / (bar.seconds or 1):.0%}", _blocks(part, longest), part.why)
            for part in (*bar.parts, *bar.beside)
        ]
        sections.append(f"{bar.name} {bar.note}".strip() + "\n\n" + table_text(["", "time>", "of it>", "", ""], rows))
    return "\n\n".join(sections)


def _blocks(part: _BarPart, longest: float) -> str:
    return ("░" if part.hatched else "█") * round(_CHARACTERS * part.seconds / longest) or "▏"


def _drawing(title: str, bars: Sequence[_Bar]) -> Drawing:
    marks: list[Mark] = [Label(0, 12, title, bold=True)]
    head = max((text_width(bar.name) for bar in bars), default=0) + 14
    longest = max((bar.seconds for bar in bars), default=0.0) or 1.0
    y = 30.0
    for bar in bars:
        marks += _bar(bar, head, y, longest)
        y += _HIGH + 4 + 14 * bool(bar.beside) + _LINE * (len(bar.parts) > 1) + 14
    return fit_drawing(tuple(marks))


def _bar(bar: _Bar, head: float, y: float, longest: float) -> Iterator[Mark]:
    yield Label(0, y + 17, bar.name, bold=True)
    spans = stack_bars([part.seconds for part in bar.parts], longest, _LENGTH)
    for (start, stop), part in zip(spans, bar.parts, strict=True):
        title = f"{part.name} {format_seconds(part.seconds)}, {part.seconds / (bar.seconds or 1):.0%}: {part.why}"
        yield Rectangle(head + start, y, max(stop - start - 1, 1), _HIGH, fill=part.colour, hatched=part.hatched, title=title)
    end = head + max(spans[-1][1], 1) if spans else head
    yield Label(end + 8, y + 17, f"{format_seconds(bar.seconds)} {bar.note}", bold=True)
    y += _HIGH + 3
    for part in bar.beside:
        title = f"{part.name} {format_seconds(part.seconds)}: {part.why}"
        width = max(min(part.seconds / longest, 1.0) * _LENGTH, 1)
        yield Rectangle(head, y, width, 9, fill=part.colour, alpha=0.35, hatched=True, title=title)
        yield Label(head + width + 8, y + 9, f"{part.name} {format_seconds(part.seconds)}")
        y += 14
    if len(bar.parts) > 1:
        yield from legend_marks(((part.colour, f"{part.name} {format_seconds(part.seconds)}") for part in bar.parts), head, y + 14)
