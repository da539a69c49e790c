"""Every shard is full."""

from dataclasses import dataclass
from typing import ClassVar

from workbench.exercises.goals.goal import Goal
from workbench.plan.plan import Plan
from workbench.reports.report import Report


@dataclass(frozen=True, slots=True)
class PadsNothing(Goal):
    """Every dimension divides by the number of its shards."""

    name: ClassVar[str] = "pads_nothing"

    def describe(self) -> str:
        return "Every dimension divides by the number of its shards."

    def miss(self, report: Report, start: Plan) -> str:
        del start
        return f"{report.padding[0].path}: {report.padding[0].arithmetic}." if report.padding else ""
