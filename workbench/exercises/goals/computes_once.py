"""No work is done twice."""

from dataclasses import dataclass
from typing import ClassVar

from workbench.exercises.goals.goal import Goal
from workbench.plan.plan import Plan
from workbench.reports.duplication import ONCE
from workbench.reports.report import Report


@dataclass(frozen=True, slots=True)
class ComputesOnce(Goal):
    """No matrix product is computed redundantly: each mesh axis splits the work of each."""

    name: ClassVar[str] = "computes_once"

    def describe(self) -> str:
        return "No product is computed by several devices."

    def miss(self, report: Report, start: Plan) -> str:
        del start
        found = report.duplication
        return "" if found < ONCE else f"Products are computed {found:.2f} times over all devices, {report.duplication_causes}."
