"""How short a layout is."""

from dataclasses import dataclass
from typing import ClassVar

from workbench.exercises.goals.goal import Goal
from workbench.plan.plan import Plan
from workbench.reports.report import Report


@dataclass(frozen=True, slots=True)
class FewStatements(Goal):
    """The layout has at most so many statements: the rest is for propagation to infer."""

    name: ClassVar[str] = "statements"
    at_most: int

    def describe(self) -> str:
        return f"The layout has at most {self.at_most} statement{'s' * (self.at_most != 1)}."

    def miss(self, report: Report, start: Plan) -> str:
        del start
        found = len(report.plan.layout.statements)
        return "" if found <= self.at_most else f"{found} statements, where {self.at_most} {'is' if self.at_most == 1 else 'are'} enough."
