"""The kernels of a step under the hardware's roofline (Williams, Waterman, Patterson 2009): their FLOP per byte, and FLOP per second.

Both scales are logarithmic. Under the slanted part of the roof a kernel is bound by memory, under a level one by a compute unit.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from workbench.core.text_tables import table_text, tail_text
from workbench.hardware.hardware import Chip
from workbench.reports.kernel import Kernel
from workbench.reports.report import Report
from workbench.units import format_bytes, format_count, format_seconds
from workbench.visualize.draw.drawing_marks import Disc, Drawing, Label, Mark, Polyline, Rectangle, fit_drawing, text_width
from workbench.visualize.draw.palette import NEUTRAL, STEP, TEXT
from workbench.visualize.draw.picture import Picture

MOST_SHOWN = 50  # kernels, the longest ones
MOST_NAMED = 6
LEAST_INTENSITY = 0.01  # FLOP per byte below which a kernel only moves data
LEAST_SHARE = 0.0005  # of total kernel time
_WIDE, _HIGH, _HEAD, _TOP = 620, 300, 92, 40  # pixels
_LARGEST, _SMALLEST = 17.0, 2.5  # radii
BOUND_COLOURS = {"products": STEP[0], "elementwise": STEP[4], "memory": STEP[1], "launch": STEP[2]}
WHY = {
    "products": "bound by products",
    "elementwise": "bound by elementwise work",
    "memory": "bound by memory traffic",
    "launch": "bound by its launch",
}


@dataclass(frozen=True, slots=True)
class Ceiling:
    """FLOP per second that no kernel of one kind exceeds."""

    name: str
    rate: float


@dataclass(frozen=True, slots=True)
class _Scale:
    """Decades from `low` to `high` on `length` pixels from `start`; it may run backwards."""

    low: float
    high: float
    start: float
    length: float

    def __call__(self, value: float) -> float:
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return self.start + self.length * min(max(share, 0.0), 1.0)

    @property
    def decades(self) -> tuple[int, ...]:
        return tuple(range(math.ceil(self.low), math.floor(self.high) + 1))


def roofline(report: Report) -> Picture:
    """A disc for each kernel, with an area proportional to its time in a step, in the colour of what bounds it; the largest are named."""
    report = report.shown
    title, shown = _title(report), longest_kernels(report)
    chip = report.plan.hardware.chip if report.plan.hardware else None
    if chip is None or not shown:
        return Picture.of_title(title)
    return Picture(title, lambda: _drawing(title, chip, shown, report.kernel_costs), lambda: roofline_text(report))


def roofline_text(report: Report) -> str:
    """The ceilings, then the longest kernels with the fraction of the ceiling they reach."""
    report = report.shown
    chip, shown = report.plan.hardware.chip if report.plan.hardware else None, longest_kernels(report)
    if chip is None or not shown:
        return _title(report)
    ceilings = [(each.name, f"{format_count(each.rate, 'FLOP/s')}") for each in roof_ceilings(chip, shown)]
    ceilings.append(("memory", format_count(chip.memory_bandwidth, "B/s")))
    whole = _kernel_seconds(report)
    rows = [
        (
            tail_text(each.path, 44),
            f"×{each.count:,}",
            format_seconds(each.total_seconds),
            f"{each.total_seconds / whole:.0%}",
            f"{each.intensity:.3g}",
            format_count(each.rate, "FLOP/s"),
            each.bound,
        )
        for each in shown[:16]
    ]
    table = table_text(["kernel", "times>", "a step>", "share>", "FLOP/byte>", "reaches>", "bound by"], rows)
    more = f"\n  and {len(report.kernel_costs) - 16} more" if len(report.kernel_costs) > 16 else ""
    return f"{_title(report)}\n\n{table_text(['ceiling', 'at most>'], ceilings)}\n\n{table}{more}"


def _title(report: Report) -> str:
    if report.plan.hardware is None or not report.kernel_costs:
        return f"{report.title}: no roof, as the plan names no hardware"
    return f"{report.title}: the kernels of one step under the roof of one {report.plan.hardware.chip.name}"


def longest_kernels(report: Report) -> tuple[Kernel, ...]:
    """The longest kernels, without those of negligible time."""
    least = LEAST_SHARE * _kernel_seconds(report)
    return tuple(each for each in report.kernel_costs if each.bytes and each.total_seconds >= least)[:MOST_SHOWN]


def _kernel_seconds(report: Report) -> float:
    return sum_seconds(report.kernel_costs)


def sum_seconds(kernels: Sequence[Kernel]) -> float:
    return sum(each.total_seconds for each in kernels) or 1.0


def roof_ceilings(chip: Chip, shown: Sequence[Kernel]) -> tuple[Ceiling, ...]:
    """Dots in each type that occurs, with the peak of the data sheet, and elementwise work."""
    rates: dict[float, list[str]] = {}
    for dtype in dict.fromkeys(each.dtype for each in shown if each.flops):
        rates.setdefault(chip.peak(dtype), []).append(dtype)
    found = [Ceiling(f"products in {', '.join(names)}", rate) for rate, names in rates.items()]
    if math.isfinite(chip.vector_flops):
        found.append(Ceiling("elementwise work", chip.vector_flops))
    return tuple(sorted(found, key=lambda each: -each.rate))


def _drawing(title: str, chip: Chip, shown: Sequence[Kernel], kernels: Sequence[Kernel]) -> Drawing:
    ceilings, whole = roof_ceilings(chip, shown), sum_seconds(kernels)
    top = max((each.rate for each in ceilings), default=chip.peak("float32"))
    ridge = top / chip.memory_bandwidth
    worked = [each for each in shown if each.intensity >= LEAST_INTENSITY]
    lowest = min((each.intensity for each in worked), default=0.1)
    highest = max([ridge * 10, *(each.intensity for each in worked)])
    across = _Scale(math.floor(math.log10(lowest) * 2) / 2, math.log10(highest) + 0.2, _HEAD, _WIDE)
    slowest = min((each.rate for each in worked), default=top / 1e4)
    low = min(math.log10(max(slowest, top / 1e6)), math.log10(top) - 2.5) - 0.3
    up = _Scale(low, math.log10(top) + 0.35, _TOP + _HIGH, -_HIGH)
    marks: list[Mark] = [Label(0, 12, title, bold=True), *_axes(across, up)]
    marks += _roofs(chip, ceilings, across, up)
    placed = [(each, across(each.intensity), up(each.rate), kernel_radius(each, whole)) for each in worked]
    for each, x, y, radius in sorted(placed, key=lambda entry: -entry[3]):
        marks.append(Disc(x, y, radius, BOUND_COLOURS[each.bound], 0.62, hover_text(each, whole), each.path))
    marks += _names(placed, whole)
    marks += _legend(kernels, whole)
    if idle := [each for each in shown if each.intensity < LEAST_INTENSITY]:
        share = sum(each.total_seconds for each in idle) / whole
        text = f"not in it: {share:.0%} of the time, in kernels that only move bytes"
        marks.append(Label(_HEAD, _TOP + _HIGH + 62 + 16 * min(len(worked), MOST_NAMED), text))
    return fit_drawing(tuple(marks))


def kernel_radius(each: Kernel, whole: float) -> float:
    """The radius of its disc, whose area is proportional to its time."""
    return max(_LARGEST * math.sqrt(min(each.total_seconds / whole * 5, 1.0)), _SMALLEST)


def hover_text(each: Kernel, whole: float) -> str:
    times = f"×{each.count:,}, " if each.count > 1 else ""
    return (
        f"{each.path}: {times}{format_seconds(each.total_seconds)} a step, {each.total_seconds / whole:.1%} of all kernels · "
        f"{format_count(each.work, 'FLOP')} on {format_bytes(each.bytes)}, {each.intensity:.3g} FLOP a byte · "
        f"reaches {format_count(each.rate, 'FLOP/s')} · {WHY[each.bound]} · {each.source}"
    )


def _axes(across: _Scale, up: _Scale) -> Iterator[Mark]:
    """Hair lines at the powers of ten."""
    ground = _TOP + _HIGH
    for power in across.decades:
        x = across(10.0**power)
        yield Rectangle(x, _TOP, 1, _HIGH, fill=NEUTRAL, alpha=0.18)
        yield Label(x, ground + 15, f"{10.0**power:g}", anchor="middle")
    for power in up.decades:
        y = up(10.0**power)
        yield Rectangle(_HEAD, y, _WIDE, 1, fill=NEUTRAL, alpha=0.18)
        yield Label(_HEAD - 6, y + 4, re.sub(r"\.0+ ", " ", format_count(10.0**power, "FLOP/s")), anchor="end")
    yield Rectangle(_HEAD, ground, _WIDE, 1, fill=NEUTRAL)
    yield Rectangle(_HEAD, _TOP, 1, _HIGH, fill=NEUTRAL)
    yield Label(_HEAD + _WIDE / 2, ground + 32, "FLOP per byte read or written", anchor="middle")


def _roofs(chip: Chip, ceilings: Sequence[Ceiling], across: _Scale, up: _Scale) -> Iterator[Mark]:
    """The slope of the memory's bandwidth, and a level line from where it meets each ceiling."""
    slope = chip.memory_bandwidth
    left = max(10.0**across.low, 10.0**up.low / slope)
    top = max((each.rate for each in ceilings), default=slope * 10.0**across.high)
    yield Polyline(((across(left), up(slope * left)), (across(top / slope), up(top))), STEP[1], 2.0)
    middle = math.sqrt(left * top / slope)
    yield Label(across(middle) + 12, up(slope * middle) + 16, f"memory {format_count(slope, 'B/s')}", colour=STEP[1], bold=True)
    if (ahead := chip.efficiency_of("operands")) > 1.02:
        yield Polyline(((across(left), up(slope * ahead * left)), (across(top / slope / ahead), up(top))), STEP[1], 1.0, dashed=True)
        text = f"operands of products, read ahead: {format_count(slope * ahead, 'B/s')}"
        high = math.sqrt(middle * top / slope)
        yield Label(max(across(high) - 26, _HEAD + 8 + text_width(text)), up(slope * ahead * high) - 8, text, anchor="end", colour=STEP[1])
    for place, each in enumerate(ceilings):
        y = up(each.rate)
        colour = STEP[4] if each.name.startswith("elementwise") else STEP[0]
        yield Polyline(((across(each.rate / slope), y), (_HEAD + _WIDE, y)), colour, 2.0, dashed=place > 0)
        text = f"{each.name} {format_count(each.rate, 'FLOP/s')}"
        yield Label(_HEAD + _WIDE, y - 6, text, anchor="end", colour=colour, bold=True)


def _names(placed: Sequence[tuple[Kernel, float, float, float]], whole: float) -> Iterator[Mark]:
    """The largest discs have numbers; their names are below, with their share of the time."""
    spots: list[tuple[float, float]] = []
    y = _TOP + _HIGH + 56
    for number, (each, x, top, _) in enumerate(sorted(placed, key=lambda entry: -entry[0].total_seconds)[:MOST_NAMED], start=1):
        spot = (x, top + 4)
        while any(abs(spot[0] - a) < 10 and abs(spot[1] - b) < 11 for a, b in spots):
            spot = spot[0] + 11, spot[1]
        spots.append(spot)
        yield Label(*spot, f"{number}", anchor="middle", colour=TEXT, bold=True)
        share = f"{each.total_seconds / whole:.0%}"
        yield Label(_HEAD - 22, y, f"{number}", anchor="end", bold=True)
        yield Rectangle(_HEAD - 16, y - 9, 9, 9, fill=BOUND_COLOURS[each.bound])
        text = f"{share:>4}  {format_seconds(each.total_seconds):>7}  {tail_text(each.path, 56)}"
        yield Label(_HEAD, y, text)
        y += 16


def _legend(kernels: Sequence[Kernel], whole: float) -> Iterator[Mark]:
    x = float(_HEAD)
    sums: dict[str, float] = {}
    for each in kernels:
        sums[each.bound] = sums.get(each.bound, 0.0) + each.total_seconds
    for bound, seconds in sorted(sums.items(), key=lambda entry: -entry[1]):
        if seconds < 0.005 * whole:
            continue
        text = f"{WHY[bound]} {seconds / whole:.0%}"
        yield Rectangle(x, _TOP - 17, 9, 9, fill=BOUND_COLOURS[bound])
        yield Label(x + 14, _TOP - 9, text)
        x += text_width(text) + 30
