"""What every device sends in a step, by mesh axis and kind of collective."""

from workbench.report import KINDS, Report
from workbench.sharding import base_axis
from workbench.text import axes_text
from workbench.units import format_bytes
from workbench.visualize.bars import Bar, bars_picture, bars_text
from workbench.visualize.palette import axes_colour
from workbench.visualize.picture import Picture

_COLUMNS = ("mesh axis", "sent", "of it")


def communication(report: Report) -> Picture:
    """A bar for each set of mesh axes that something is sent over, a segment for each kind of collective."""
    return bars_picture(_title(report), _COLUMNS, _bars(report))


def communication_text(report: Report) -> str:
    return bars_text(_title(report), _COLUMNS, _bars(report))


def _title(report: Report) -> str:
    amount = f"sends {format_bytes(report.sent)} in a step" if report.sent else "sends nothing"
    return f"{report.plan.name} on {report.mesh}: each device {amount}"


def _bars(report: Report) -> tuple[Bar, ...]:
    """In the order of the mesh: single axes and sets by their first axis."""
    sent: dict[tuple[str, ...], dict[str, int]] = {}
    for each in report.collectives:
        kinds = sent.setdefault(each.axes, {})
        kinds[each.kind] = kinds.get(each.kind, 0) + each.total_sent

    def place(axes: tuple[str, ...]) -> tuple[tuple[int, ...], tuple[str, ...]]:
        return tuple(report.mesh.names.index(base_axis(axis)) for axis in axes), axes

    return tuple(
        Bar(axes_text(axes), axes_colour(axes, report.mesh), tuple((kind, sent[axes][kind]) for kind in KINDS if kind in sent[axes]))
        for axes in sorted(sent, key=place)
    )
