"""Where a value lies."""

from dataclasses import dataclass
from typing import ClassVar

from workbench.core.sharding import Sharding
from workbench.exercises.goals.goal import Goal
from workbench.plan.plan import Plan
from workbench.reports.report import Report


@dataclass(frozen=True, slots=True)
class Lies(Goal):
    """An argument, result or intermediate value has this sharding: `Lies("up/dot_general", "[data, model]")`."""

    name: ClassVar[str] = "lies"
    value: str
    sharding: str

    def describe(self) -> str:
        return f"`{self.value}` is sharded as {Sharding.parse(self.sharding)}."

    def miss(self, report: Report, start: Plan) -> str:
        del start
        expected = Sharding.parse(self.sharding)
        found = report.propagation.values[report.propagation.find(self.value)[0]].sharding
        return "" if found == expected else f'`{self.value}` is sharded as {found}, not {expected}: `explain("{self.value}")` tells why.'
