"""Which collectives a step makes."""

from dataclasses import dataclass
from typing import ClassVar

from workbench.exercises.goals.goal import Goal, one_of
from workbench.plan.plan import Plan
from workbench.reports.collective import KINDS
from workbench.reports.report import Report


@dataclass(frozen=True, slots=True)
class UsesCollective(Goal):
    """A step makes a collective of this kind; with `axis`, over that mesh axis. With `never`, it makes none."""

    name: ClassVar[str] = "uses_collective"
    kind: str = one_of(*KINDS)
    axis: str = ""
    never: bool = False

    def describe(self) -> str:
        return f"A step makes {'no' if self.never else 'an' if self.kind.startswith('a') else 'a'} {self.kind}{self._over}."

    @property
    def _over(self) -> str:
        return f" over `{self.axis}`" if self.axis else ""

    def miss(self, report: Report, start: Plan) -> str:
        del start
        made = [each for stage in report.stages for each in stage.collectives]
        found = [each for each in made if each.kind == self.kind and (not self.axis or self.axis in each.axes)]
        if self.never:
            return f"It makes {len(found)} {self.kind}{self._over}: one at {found[0].path}." if found else ""
        if found:
            return ""
        others = sorted({f"{each.kind} over {'+'.join(each.axes)}" for each in made})
        return f"It makes no {self.kind}{self._over}, but {' and '.join(others) or 'no collective at all'}."
