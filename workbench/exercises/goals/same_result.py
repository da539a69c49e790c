"""The answer computes what was asked for, bit for bit or rounded as before."""

from dataclasses import dataclass
from typing import ClassVar

from workbench.core.precision import Precision
from workbench.exercises.goals.goal import Goal
from workbench.plan.plan import Plan
from workbench.reports.report import Report


@dataclass(frozen=True, slots=True)
class SameResult(Goal):
    """The step computes the same result as the plan that the exercise started from: layouts, stages, rematerialisation and offloading never
    change it, another precision does."""

    name: ClassVar[str] = "same_result"

    def describe(self) -> str:
        return "The step computes the same result, in the same precision."

    def miss(self, report: Report, start: Plan) -> str:
        found, asked = report.plan.program.precision, start.program.precision
        if found == asked:
            return ""
        return f"It computes {_precision_text(found)}, where the exercise computes {_precision_text(asked)}: results are rounded otherwise."


def _precision_text(precision: Precision) -> str:
    return f"in {precision}" if precision != Precision() else "as traced"
