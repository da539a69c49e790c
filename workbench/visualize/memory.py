"""Bytes that a device holds at the peak of a step, by the role of the tensors."""

from workbench.reports.report import Report
from workbench.units import format_bytes
from workbench.visualize.draw.bars import Bar, bars_picture, bars_text
from workbench.visualize.draw.palette import NEUTRAL
from workbench.visualize.draw.picture import Picture

_COLUMNS = ("role", "bytes", "")


def memory(report: Report) -> Picture:
    """A bar for each role that takes any memory; of a pipelined plan on its fullest stage."""
    return bars_picture(_title(report.shown), _COLUMNS, _bars(report.shown))


def memory_text(report: Report) -> str:
    return bars_text(_title(report.shown), _COLUMNS, _bars(report.shown))


def _title(report: Report) -> str:
    return f"{report.title}: each device holds {format_bytes(report.memory.peak)} at the peak of a step"


def _bars(report: Report) -> tuple[Bar, ...]:
    return tuple(Bar(role.value, NEUTRAL, (("", count),)) for role, count in report.memory.by_role.items() if count)
