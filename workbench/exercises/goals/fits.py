"""The plan fits into the devices' memory."""

from dataclasses import dataclass
from typing import ClassVar

from workbench.exercises.goals.goal import Goal
from workbench.plan.plan import Plan
from workbench.reports.report import Report
from workbench.units import format_bytes


@dataclass(frozen=True, slots=True)
class Fits(Goal):
    """The fullest device has room for its part of the plan; always so without hardware."""

    name: ClassVar[str] = "fits"

    def describe(self) -> str:
        return "Every device has room for its part."

    def miss(self, report: Report, start: Plan) -> str:
        del start
        room = report.plan.hardware.chip.memory if report.plan.hardware else None
        if room is None or report.peak <= room:
            return ""
        return f"The fullest device holds {format_bytes(report.peak)} and has {format_bytes(room)}."
