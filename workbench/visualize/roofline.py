"""Roofline of a step's kernels (Williams, Waterman, Patterson 2009): FLOP/byte against FLOP/s, logarithmic.

Kernels below the slanted part of the roof are memory-bound, those below a level part compute-bound.
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
