"""Goals about a layout: where values are, which collectives it needs, and what it must not waste."""

from dataclasses import dataclass
from typing import ClassVar

from workbench.analysis.analyze import analyze
from workbench.core.precision import Precision
from workbench.core.sharding import Sharding
from workbench.exercises.goals.goal import Goal, one_of
from workbench.plan.plan import Plan
from workbench.reports.collective import KINDS
from workbench.reports.diagnostic import ONCE
from workbench.reports.report import Report

# No work is done twice.


@dataclass(frozen=True, slots=True)
class ComputesOnce(Goal):
    """No matrix product is computed redundantly: each mesh axis splits the work of each."""

    name: ClassVar[str] = "computes_once"

    def describe(self) -> str:
        return "No product is duplicated on several devices."

    def miss(self, report: Report, _start: Plan) -> str:
        found = report.duplication
        return "" if found < ONCE else f"Products are computed {found:.2f} times over all devices, {report.duplication_causes}."


# No value is gathered whole only to be split again.


@dataclass(frozen=True, slots=True)
class GathersNothingWhole(Goal):
    """No value is gathered whole on every device to be resharded (*involuntary full rematerialization*).

    XLA's partitioner is asked, and warns of none.
    """

    name: ClassVar[str] = "gathers_nothing_whole"

    def describe(self) -> str:
        return "No value is gathered whole to be resharded."

    def is_quick(self, report: Report) -> bool:
        return report.partitioned is not None

    def miss(self, report: Report, _start: Plan) -> str:
        asked = report if report.partitioned else _ask_partitioner(report.plan)
        places = [str(each) for each in asked.reshards if each.rematerialises]
        warned = (
            [f"{each.shape} from {each.before} to {each.after}" for each in asked.partitioned.gathered_whole] if asked.partitioned else []
        )
        return f"Gathered whole, then sliced: {(places or warned)[0]}." if warned else ""


def _ask_partitioner(plan: Plan) -> Report:
    """The plan's report with the answer of XLA's partitioner."""
    from workbench.engine import partition_plan  # loads JAX and the engine, which a board does without until it is asked this

    return analyze(plan, answer=partition_plan(plan))


# Where a value lies.


@dataclass(frozen=True, slots=True)
class Lies(Goal):
    """An argument, result or intermediate value has this sharding: `Lies("up/dot_general", "[data, model]")`."""

    name: ClassVar[str] = "lies"
    value: str
    sharding: str

    def describe(self) -> str:
        return f"`{self.value}` is sharded as {Sharding.parse(self.sharding)}."

    def miss(self, report: Report, _start: Plan) -> str:
        expected = Sharding.parse(self.sharding)
        found = report.propagation.values[report.propagation.find(self.value)[0]].sharding
        return "" if found == expected else f'`{self.value}` is sharded as {found}, not {expected}: `explain("{self.value}")` tells why.'


# Every shard is full.


@dataclass(frozen=True, slots=True)
class PadsNothing(Goal):
    """Every dimension divides by the number of its shards."""

    name: ClassVar[str] = "pads_nothing"

    def describe(self) -> str:
        return "Every dimension divides by the number of its shards."

    def miss(self, report: Report, _start: Plan) -> str:
        return f"{report.padding[0].path}: {report.padding[0].arithmetic}." if report.padding else ""


# The answer computes what was asked for, bit for bit or rounded as before.


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
        return f"It computes {_precision_text(found)}, but the exercise computes {_precision_text(asked)}: results round differently."


def _precision_text(precision: Precision) -> str:
    return f"in {precision}" if precision != Precision() else "as traced"


# How short a layout is.


@dataclass(frozen=True, slots=True)
class FewStatements(Goal):
    """The layout has at most so many statements: the rest is for propagation to infer."""

    name: ClassVar[str] = "statements"
    at_most: int

    def describe(self) -> str:
        return f"The layout has at most {self.at_most} statement{'s' * (self.at_most != 1)}."

    def miss(self, report: Report, _start: Plan) -> str:
        found = len(report.plan.layout.statements)
        return "" if found <= self.at_most else f"{found} statements; {self.at_most} {'is' if self.at_most == 1 else 'are'} enough."


# Which collectives a step makes.


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

    def miss(self, report: Report, _start: Plan) -> str:
        made = [each for stage in report.stages for each in stage.collectives]
        found = [each for each in made if each.kind == self.kind and (not self.axis or self.axis in each.axes)]
        if self.never:
            return f"It makes {len(found)} {self.kind}{self._over}: one at {found[0].path}." if found else ""
        if found:
            return ""
        others = sorted({f"{each.kind} over {'+'.join(each.axes)}" for each in made})
        return f"It makes no {self.kind}{self._over}, but {' and '.join(others) or 'no collective at all'}."
