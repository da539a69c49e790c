"""Goals on the layout: shardings of values, collectives, and avoidable waste."""

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

# Redundant compute.


@dataclass(frozen=True, slots=True)
class ComputesOnce(Goal):
    """No matrix product is computed redundantly: each mesh axis splits the work of each."""

    name: ClassVar[str] = "computes_once"

    def describe(self) -> str:
        return "No product is duplicated on several devices."

    def miss(self, report: Report, _start: Plan) -> str:
        duplication = report.duplication
        return "" if duplication < ONCE else f"Products are computed {duplication:.2f} times over all devices, {report.duplication_causes}."


# Involuntary full rematerialization.


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
        partitioned_report = report if report.partitioned else _ask_partitioner(report.plan)
        places = [str(reshard) for reshard in partitioned_report.reshards if reshard.rematerialises]
        warned = (
            [f"{reshard.shape} from {reshard.before} to {reshard.after}" for reshard in partitioned_report.partitioned.gathered_whole]
            if partitioned_report.partitioned
            else []
        )
        return f"Gathered whole, then sliced: {(places or warned)[0]}." if warned else ""


def _ask_partitioner(plan: Plan) -> Report:
    from workbench.engine import partition_plan  # deferred: loads JAX and the engine, which the board otherwise does not need

    return analyze(plan, answer=partition_plan(plan))


# Sharding of a value.


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
        actual = report.propagation.values[report.propagation.find(self.value)[0]].sharding
        return "" if actual == expected else f'`{self.value}` is sharded as {actual}, not {expected}: `explain("{self.value}")` tells why.'


# Padding.


@dataclass(frozen=True, slots=True)
class PadsNothing(Goal):
    """Every dimension divides by the number of its shards."""

    name: ClassVar[str] = "pads_nothing"

    def describe(self) -> str:
        return "Every dimension divides by the number of its shards."

    def miss(self, report: Report, _start: Plan) -> str:
        return f"{report.padding[0].path}: {report.padding[0].arithmetic}." if report.padding else ""


# Numerical equivalence.


@dataclass(frozen=True, slots=True)
class SameResult(Goal):
    """The step computes the same result as the plan that the exercise started from: layouts, stages, rematerialisation and offloading never
    change it, another precision does."""

    name: ClassVar[str] = "same_result"

    def describe(self) -> str:
        return "The step computes the same result, in the same precision."

    def miss(self, report: Report, start: Plan) -> str:
        actual, expected = report.plan.program.precision, start.program.precision
        if actual == expected:
            return ""
        return f"It computes {_precision_text(actual)}, but the exercise computes {_precision_text(expected)}: results round differently."


def _precision_text(precision: Precision) -> str:
    return f"in {precision}" if precision != Precision() else "as traced"


# Size of a layout.


@dataclass(frozen=True, slots=True)
class FewStatements(Goal):
    """The layout has at most so many statements: the rest is for propagation to infer."""

    name: ClassVar[str] = "statements"
    at_most: int

    def describe(self) -> str:
        return f"The layout has at most {self.at_most} statement{'s' * (self.at_most != 1)}."

    def miss(self, report: Report, _start: Plan) -> str:
        count = len(report.plan.layout.statements)
        return "" if count <= self.at_most else f"{count} statements; {self.at_most} {'is' if self.at_most == 1 else 'are'} enough."


# Collectives of a step.


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
        collectives = [collective for stage in report.stages for collective in stage.collectives]
        matches = [
            collective for collective in collectives if collective.kind == self.kind and (not self.axis or self.axis in collective.axes)
        ]
        if self.never:
            return f"It makes {len(matches)} {self.kind}{self._over}: one at {matches[0].path}." if matches else ""
        if matches:
            return ""
        others = sorted({f"{collective.kind} over {'+'.join(collective.axes)}" for collective in collectives})
        return f"It makes no {self.kind}{self._over}, but {' and '.join(others) or 'no collective at all'}."
