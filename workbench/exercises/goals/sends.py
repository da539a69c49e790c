"""How much a step sends."""

from dataclasses import dataclass
from typing import ClassVar

from workbench.exercises.goals.goal import Goal, one_of, quantity
from workbench.exercises.quantities import BYTES
from workbench.plan.plan import Plan
from workbench.reports.collective import KINDS
from workbench.reports.report import Report
from workbench.units import format_bytes


@dataclass(frozen=True, slots=True)
class Sends(Goal):
    """At most so many bytes leave each device per step; with `kind`, by collectives of that kind and no other."""

    name: ClassVar[str] = "sends"
    at_most: float = quantity(BYTES, default=0)
    kind: str = one_of(*KINDS, default="")

    def describe(self) -> str:
        most = f"at most {format_bytes(self.at_most)} leave" if self.at_most else "nothing leaves"
        return f"In a step {most} a device{f', by {self.kind} alone' if self.kind else ''}."

    def miss(self, report: Report, start: Plan) -> str:
        del start
        report = report.most(lambda each: each.sent)
        if report.sent > self.at_most:
            allowed = f"not more than {format_bytes(self.at_most)}" if self.at_most else "nothing"
            return f"{format_bytes(report.sent)} leave each device a step: {_largest_text(report)}. Let it send {allowed}."
        others = sorted({each.kind for each in report.collectives} - {self.kind}) if self.kind else []
        return f"It sends by {' and '.join(others)} where {self.kind} would do." if others else ""


def _largest_text(report: Report) -> str:
    largest = max(report.collectives, key=lambda each: each.total_sent)
    return f"most of it by {largest.kind} over {'+'.join(largest.axes)} at {largest.path}"
