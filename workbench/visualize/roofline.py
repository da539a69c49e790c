"""The kernels of a step under the hardware's roofline (Williams, Waterman, Patterson 2009): their FLOP per byte, and FLOP per second.

Both scales are logarithmic. Under the slanted part of the roof a kernel is bound by memory, under a level one by a compute unit.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from workbench.core.text_tables import table_text, tail_text
from workbench.hardware.hardware import Chip
from workbench.reports.kernel import Kernel
from workbench.reports.report import Report
from workbench.units import format_bytes, format_count, format_seconds
from workbench.visualize.draw.palette import STEP

MOST_SHOWN = 50  # kernels, the longest ones
LEAST_INTENSITY = 0.01  # FLOP per byte below which a kernel only moves data
LEAST_SHARE = 0.0005  # of total kernel time
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


def roofline_text(report: Report) -> str:
    """The ceilings, then the longest kernels with the fraction of the ceiling they reach."""
    chip, shown = report.plan.hardware.chip if report.plan.hardware else None, longest_kernels(report)
    if chip is None or not shown:
        return roofline_title(report)
    ceilings = [(each.name, f"{format_count(each.rate, 'FLOP/s')}") for each in roof_ceilings(chip, shown)]
    ceilings.append(("memory", format_count(chip.memory_bandwidth, "B/s")))
    whole = sum_seconds(report.kernel_costs)
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
    return f"{roofline_title(report)}\n\n{table_text(['ceiling', 'at most>'], ceilings)}\n\n{table}{more}"


def roofline_title(report: Report) -> str:
    if report.plan.hardware is None or not report.kernel_costs:
        return f"{report.title}: no roof, as the plan names no hardware"
    return f"{report.title}: the kernels of one step under the roof of one {report.plan.hardware.chip.name}"


def longest_kernels(report: Report) -> tuple[Kernel, ...]:
    """The longest kernels, without those of negligible time."""
    least = LEAST_SHARE * sum_seconds(report.kernel_costs)
    return tuple(each for each in report.kernel_costs if each.bytes and each.total_seconds >= least)[:MOST_SHOWN]


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
