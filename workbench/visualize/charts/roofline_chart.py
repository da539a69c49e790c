"""Interactive roofline of the kernels of a step, which can be zoomed."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from workbench.core.text_tables import table_text, tail_text
from workbench.hardware.hardware import Chip
from workbench.reports.kernel import Kernel
from workbench.reports.report import Report
from workbench.units import format_bytes, format_count, format_seconds
from workbench.visualize.charts.chart import AxisUnit, Chart, KeyEntry, columns_of, count_unit
from workbench.visualize.charts.still_drawing import still_drawing
from workbench.visualize.draw.drawing_marks import Drawing
from workbench.visualize.draw.palette import STEP, TEXT
from workbench.visualize.draw.picture import Picture

MOST_KERNELS = 2_000  # longest kernels
MOST_NAMED = 6
_HEIGHT = 380  # pixels

Line = tuple[list[float], list[float], str, str]
"""x values, y values, colour, `solid` or `dashed`."""
_WORD = ("x", "y", "text", "color", "align", "base", "dx", "dy")
Word = tuple[float, float, str, str, str, str, float, float]
"""x, y, text, colour, alignment, baseline, and the offset in pixels."""


def roofline_chart(report: Report) -> Chart | None:
    """A disc for each kernel that computes; `None` if the plan names no hardware."""
    hardware = report.plan.hardware
    kernels = [
        kernel for kernel in report.kernel_costs[:MOST_KERNELS] if kernel.bytes and kernel.intensity >= LEAST_INTENSITY and kernel.seconds
    ]
    if hardware is None or not kernels:
        return None
    chip, whole = hardware.chip, sum_seconds(report.kernel_costs)
    roofs = roof_ceilings(chip, kernels)
    top = max((kernel.rate for kernel in roofs), default=chip.peak("float32"))
    unit = count_unit(top, "FLOP/s")
    across, up = _ranges(chip, kernels, top)
    lines, words = _roofs(chip, kernels, whole, unit, across, up)
    words += _names(kernels, whole, unit, across[1], [kernel.rate for kernel in roofs])
    return Chart(
        empty_roofline,
        (),
        {
            "marks": _marks(kernels, whole, unit),
            "roofs": columns_of(lines, ("xs", "ys", "color", "dash")),
            "words": columns_of(words, _WORD),
        },
        {"x": across, "y": (up[0] / unit.size, up[1] / unit.size)},
        {"y axis": {"axis_label": unit.name}},
        key=_key(report.kernel_costs, whole),
        across="FLOP/byte",
        logs=(True, True),
    )


def roofline(report: Report) -> Picture:
    """A disc for each kernel, with area proportional to its time and the colour of its bound; the largest are labelled."""
    report = report.shown
    title = roofline_title(report)
    return Picture(title, lambda: _drawing(title, report), lambda: roofline_text(report))


def _drawing(title: str, report: Report) -> Drawing:
    chart, kernels = roofline_chart(report), report.kernel_costs
    data_movement_share = sum(kernel.total_seconds for kernel in kernels if kernel.intensity < LEAST_INTENSITY) / sum_seconds(kernels)
    if chart and data_movement_share:
        left_out = KeyEntry("", f"not in it: {data_movement_share:.0%} of the time, in kernels that only move bytes")
        chart = replace(chart, key=(*chart.key, left_out))
    return still_drawing(title, chart)


def empty_roofline() -> Any:
    """The empty figure: discs, the roof above them, and labels."""
    from workbench.visualize.charts.empty_figure import MARKED, add_source, add_text, empty_chart, react

    plot = empty_chart(_HEIGHT, "both", logs=(True, True))
    plot.xaxis.axis_label = "FLOP per byte read or written"
    marks = add_source("marks", ("x", "y", "size", "color", "title", "subject"))
    drawn = plot.scatter("x", "y", size="size", fill_color="color", fill_alpha=0.62, line_color=None, source=marks)
    drawn.selection_glyph = drawn.hover_glyph = drawn.glyph.clone(line_color=MARKED, line_width=2)
    drawn.nonselection_glyph = drawn.glyph
    roofs = add_source("roofs", ("xs", "ys", "color", "dash"))
    plot.multi_line("xs", "ys", line_color="color", line_dash="dash", line_width=2, source=roofs)
    look = {"text_align": "align", "text_color": "color", "text_baseline": "base", "x_offset": "dx", "y_offset": "dy"}
    add_text(plot, add_source("words", _WORD), **look)
    react(plot, drawn)
    return plot


def _ranges(chip: Chip, kernels: Sequence[Kernel], top: float) -> tuple[tuple[float, float], tuple[float, float]]:
    ridge = top / chip.memory_bandwidth
    lowest, highest = min(kernel.intensity for kernel in kernels), max(ridge * 10, *(kernel.intensity for kernel in kernels))
    slowest = min(kernel.rate for kernel in kernels)
    low = min(max(slowest, top / 1e6), top / 300)
    return (lowest / 2, highest * 2), (low / 2, top * 6)


def _marks(kernels: Sequence[Kernel], whole: float, unit: AxisUnit) -> dict[str, list[Any]]:
    """Discs, the longest first, so that small discs are drawn on top."""
    return {
        "x": [kernel.intensity for kernel in kernels],
        "y": [kernel.rate / unit.size for kernel in kernels],
        "size": [round(2 * kernel_radius(kernel, whole), 2) for kernel in kernels],
        "color": [BOUND_COLOURS[kernel.bound] for kernel in kernels],
        "title": [hover_text(kernel, whole).replace(" · ", "\n") for kernel in kernels],
        "subject": [kernel.path for kernel in kernels],
    }


def _roofs(
    chip: Chip, kernels: Sequence[Kernel], whole: float, unit: AxisUnit, across: tuple[float, float], up: tuple[float, float]
) -> tuple[list[Line], list[Word]]:
    slope, roofs = chip.memory_bandwidth / unit.size, roof_ceilings(chip, kernels)
    top = max((ceiling.rate for ceiling in roofs), default=chip.peak("float32")) / unit.size
    left = max(across[0], up[0] / chip.memory_bandwidth)
    middle = math.sqrt(left * top / slope)
    lines: list[Line] = [([left, top / slope], [slope * left, top], STEP[1], "solid")]
    if (ahead := max(chip.efficiency_of("operands"), 1.0)) > 1.02:  # operands of dots are prefetched
        lines.append(([left, top / slope / ahead], [slope * ahead * left, top], STEP[1], "dashed"))
    memory = f"memory {format_count(chip.memory_bandwidth, 'B/s')}"
    words: list[Word] = [(middle, slope * ahead * middle, memory, STEP[1], "right", "bottom", -6.0, -2.0)]
    for place, ceiling in enumerate(roofs):
        colour, rate = STEP[4] if ceiling.name.startswith("elementwise") else STEP[0], ceiling.rate / unit.size
        lines.append(([rate / slope, across[1]], [rate, rate], colour, "dashed" if place else "solid"))
        above = max((kernel_radius(one, whole) for one in kernels if _is_under(one, ceiling.rate, across[1])), default=0.0)
        words.append(
            (across[1], rate, f"{ceiling.name} {format_count(ceiling.rate, 'FLOP/s')}", colour, "right", "bottom", -4.0, -2.0 - above)
        )
    return lines, words


def _is_under(kernel: Kernel, ceiling: float, end: float) -> bool:
    """Whether a kernel's disc overlaps the label of this ceiling at the right end."""
    return abs(math.log10(kernel.rate / ceiling)) < 0.2 and kernel.intensity * 100 > end


def _names(kernels: Sequence[Kernel], whole: float, unit: AxisUnit, end: float, ceilings: Sequence[float]) -> list[Word]:
    """Labels of the longest kernels, away from the slope, without those that would overlap a ceiling."""
    labels: list[Word] = []
    for labelled in _drop_overlapping(sorted(kernels, key=lambda kernel: -kernel.total_seconds)[:MOST_NAMED]):
        if any(0.05 < math.log10(labelled.rate / roof) < 0.4 for roof in ceilings):
            continue
        radius, is_near = 0.7 * kernel_radius(labelled, whole), labelled.intensity * 15 > end
        side, across = ("right", -radius) if is_near else ("left", radius + 3)
        labels.append(
            (labelled.intensity, labelled.rate / unit.size, tail_text(labelled.path, 24), TEXT, side, "top", across, radius + 3 * is_near)
        )
    return labels


def _drop_overlapping(kernels: Sequence[Kernel]) -> list[Kernel]:
    """The kernels whose labels do not overlap."""
    labelled: list[Kernel] = []
    for kernel in kernels:
        near = (
            abs(math.log10(kernel.rate / other.rate)) < 0.25 and abs(math.log10(kernel.intensity / other.intensity)) < 1.2
            for other in labelled
        )
        if not any(near):
            labelled.append(kernel)
    return labelled


def _key(kernels: Sequence[Kernel], whole: float) -> tuple[KeyEntry, ...]:
    sums: dict[str, float] = {}
    for kernel in kernels:
        sums[kernel.bound] = sums.get(kernel.bound, 0.0) + kernel.total_seconds
    shown = sorted(((seconds, bound) for bound, seconds in sums.items() if seconds >= 0.005 * whole), reverse=True)
    return tuple(
        KeyEntry(BOUND_COLOURS[bound], f"{WHY[bound]}: {format_seconds(seconds)}, {seconds / whole:.0%}") for seconds, bound in shown
    )


# Roofline of a step's kernels (Williams, Waterman, Patterson 2009): FLOP/byte against FLOP/s, logarithmic.
#
# Kernels below the slanted part of the roof are memory-bound, those below a level part compute-bound.


MOST_SHOWN = 50  # longest kernels
LEAST_INTENSITY = 0.01  # FLOP per byte; kernels below it only move data
LEAST_SHARE = 0.0005  # of total kernel time
_LARGEST, _SMALLEST = 17.0, 2.5  # radii in pixels
BOUND_COLOURS = {"products": STEP[0], "elementwise": STEP[4], "memory": STEP[1], "launch": STEP[2]}
WHY = {
    "products": "bound by products",
    "elementwise": "bound by elementwise work",
    "memory": "bound by memory traffic",
    "launch": "bound by its launch",
}


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The peak FLOP/s of one kind of kernel."""

    name: str
    rate: float


def roofline_text(report: Report) -> str:
    """The ceilings, then the longest kernels with their arithmetic intensity and rate."""
    chip, shown = report.plan.hardware.chip if report.plan.hardware else None, longest_kernels(report)
    if chip is None or not shown:
        return roofline_title(report)
    ceilings = [(item.name, f"{format_count(item.rate, 'FLOP/s')}") for item in roof_ceilings(chip, shown)]
    ceilings.append(("memory", format_count(chip.memory_bandwidth, "B/s")))
    whole = sum_seconds(report.kernel_costs)
    rows = [
        (
            tail_text(item.path, 44),
            f"×{item.count:,}",
            format_seconds(item.total_seconds),
            f"{item.total_seconds / whole:.0%}",
            f"{item.intensity:.3g}",
            format_count(item.rate, "FLOP/s"),
            item.bound,
        )
        for item in shown[:16]
    ]
    table = table_text(["kernel", "times>", "a step>", "share>", "FLOP/byte>", "reaches>", "bound by"], rows)
    more = f"\n  and {len(report.kernel_costs) - 16} more" if len(report.kernel_costs) > 16 else ""
    return f"{roofline_title(report)}\n\n{table_text(['ceiling', 'at most>'], ceilings)}\n\n{table}{more}"


def roofline_title(report: Report) -> str:
    if report.plan.hardware is None or not report.kernel_costs:
        return f"{report.title}: no roof, as the plan names no hardware"
    return f"{report.title}: the kernels of one step under the roof of one {report.plan.hardware.chip.name}"


def longest_kernels(report: Report) -> tuple[Kernel, ...]:
    """The longest kernels, without those of negligible time."""
    least = LEAST_SHARE * sum_seconds(report.kernel_costs)
    return tuple(kernel for kernel in report.kernel_costs if kernel.bytes and kernel.total_seconds >= least)[:MOST_SHOWN]


def sum_seconds(kernels: Sequence[Kernel]) -> float:
    return sum(kernel.total_seconds for kernel in kernels) or 1.0


def roof_ceilings(chip: Chip, shown: Sequence[Kernel]) -> tuple[Ceiling, ...]:
    """The data sheet's peak for dots in each type that occurs, and the elementwise peak."""
    rates: dict[float, list[str]] = {}
    for dtype in dict.fromkeys(kernel.dtype for kernel in shown if kernel.flops):
        rates.setdefault(chip.peak(dtype), []).append(dtype)
    ceilings = [Ceiling(f"products in {', '.join(names)}", rate) for rate, names in rates.items()]
    if math.isfinite(chip.vector_flops):
        ceilings.append(Ceiling("elementwise work", chip.vector_flops))
    return tuple(sorted(ceilings, key=lambda ceiling: -ceiling.rate))


def kernel_radius(each: Kernel, whole: float) -> float:
    """The radius of a kernel's disc in pixels; its area is proportional to the kernel's time."""
    return max(_LARGEST * math.sqrt(min(each.total_seconds / whole * 5, 1.0)), _SMALLEST)


def hover_text(each: Kernel, whole: float) -> str:
    times = f"×{each.count:,}, " if each.count > 1 else ""
    return (
        f"{each.path}: {times}{format_seconds(each.total_seconds)} a step, {each.total_seconds / whole:.1%} of all kernels · "
        f"{format_count(each.work, 'FLOP')} on {format_bytes(each.bytes)}, {each.intensity:.3g} FLOP a byte · "
        f"reaches {format_count(each.rate, 'FLOP/s')} · {WHY[each.bound]} · {each.source}"
    )
