"""What a step spends most of its time on."""

from dataclasses import dataclass
from typing import ClassVar

from workbench.errors import WorkbenchError
from workbench.exercises.goals.goal import Goal, one_of
from workbench.exercises.plan_figures import BOUNDS, seconds_by_bound
from workbench.plan.plan import Plan
from workbench.reports.report import Report
from workbench.units import format_seconds

_SPENT = ("arithmetic", "reading and writing memory", "waiting for what is sent", "waiting for other stages", "the host")
_WORDS = dict(zip(BOUNDS, _SPENT, strict=True))
_UNSPENT = (
    "nothing takes longer on arithmetic than on memory",
    "nothing takes longer on memory than on arithmetic",
    "nothing that is sent is waited for",
    "no stage waits for others",
    "the host is not waited for",
)
_NOTHING = dict(zip(BOUNDS, _UNSPENT, strict=True))
"""What is so where no time is spent; of arithmetic and memory a kernel counts whole as what takes it longer."""


@dataclass(frozen=True, slots=True)
class BoundBy(Goal):
    """A step of the longest stage spends more time on this than on any other of `compute`, `memory`, `communication`, `bubble`, `host`."""

    name: ClassVar[str] = "bound_by"
    what: str = one_of(*BOUNDS)

    def describe(self) -> str:
        return f"A step is bound by {self.what}: most of its time goes to {_WORDS[self.what]}."

    def miss(self, report: Report, start: Plan) -> str:
        del start
        found = seconds_by_bound(report)
        if not found:
            raise WorkbenchError("What a step is bound by is not known: the plan names no hardware.", ["give the plan hardware"])
        most = max(found, key=lambda each: found[each])
        if most == self.what:
            return ""
        spent, rest = format_seconds(found[self.what]), f"{format_seconds(found[most])} on {_WORDS[most]}"
        if spent == format_seconds(0):
            return f"A step spends {rest}; {_NOTHING[self.what]}."
        return f"A step spends {spent} on {_WORDS[self.what]}, and {rest}."
