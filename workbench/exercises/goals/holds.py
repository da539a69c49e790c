"""What a device holds of a role."""

from dataclasses import dataclass
from typing import ClassVar

from workbench.core.tensor import Role
from workbench.exercises.goals.goal import Goal, one_of, quantity
from workbench.exercises.plan_figures import held
from workbench.exercises.quantities import BYTES
from workbench.plan.plan import Plan
from workbench.reports.report import Report
from workbench.units import format_bytes


@dataclass(frozen=True, slots=True)
class Holds(Goal):
    """At its peak a device holds at most so many bytes of a role: `parameter`, `optimizer state`, ..."""

    name: ClassVar[str] = "holds"
    role: str = one_of(*Role)
    at_most: float = quantity(BYTES)

    def describe(self) -> str:
        return f"A device holds at most {format_bytes(self.at_most)} of {self.role}."

    def miss(self, report: Report, start: Plan) -> str:
        del start
        found = held(self.role, report)
        if found <= self.at_most:
            return ""
        return f"Each device holds {format_bytes(found)} of {self.role}, where {format_bytes(self.at_most)} are asked for."
