"""Why devices compute more than the program needs: the same products on several of them, or padding."""

from collections.abc import Iterable, Iterator

from workbench.reports.duplication import ONCE, Duplication
from workbench.reports.measurement import Measurement
from workbench.reports.report import Report
from workbench.units import format_count
from workbench.widgets.tabs.blocks import Block, Column, Paint
from workbench.widgets.tabs.number_breakdown import Contribution, parts_table

_TITLE = "how much more than an equal part a device computes"
_COLUMNS = (Column("done"), Column("alike along"), Column("padded", title=_TITLE))
_SHADE = 3


def explain_duplication(report: Report, paint: Paint, _measurement: Measurement | None) -> tuple[str, Iterable[str], Iterable[Block]]:
    """Title, lead and table of the dots of which devices compute more than their part, by the work that would be saved."""
    flops, parts = report.flops, list(_parts(report, paint))
    whole = f"{_flop(flops.per_device)} on each of {flops.devices:,} devices is {flops.duplication:.2f} × the {_flop(flops.unique)}"
    lead = [f"{whole} of the program.", *(_causes(report.duplication_causes) if parts else ["No product is done twice."])]
    table = [parts_table("product", _COLUMNS, parts, _flop, "in vain")] if parts else []
    return f"Why {flops.duplication:.2f}×?", lead, table


def _parts(report: Report, paint: Paint) -> Iterator[Contribution]:
    devices = report.flops.devices
    for each in report.products:
        wasted = (each.per_device * devices - each.flops) * each.count / devices
        if wasted > 0:
            alike = each.per_device * devices / each.flops / each.padding
            idle = tuple(name for name, size in report.mesh.axes if name not in each.axes and size > 1) if alike > ONCE else ()
            padded = f"{each.padding:.2f}×" if each.padding > ONCE else ""
            yield Contribution(each.path, wasted, each.source, _SHADE, (f"{alike:,.0f}×", paint.axes(idle), padded))


def _causes(found: Duplication) -> Iterator[str]:
    if found.alike > ONCE:
        yield (
            "The devices along a mesh axis that splits none of a product's dimensions all compute the same; "
            "put one of them there, or make the axis smaller."
        )
    if found.padding > ONCE and found.largest:
        largest = found.largest
        yield f"{found.padding:.2f}× is padding, most of it of `{largest.path}`: {largest.arithmetic}. {largest.way_out}."


def _flop(count: float) -> str:
    return format_count(count, "FLOP")
