"""Exercises that check their own answers: a program on a mesh, a layout to find, and goals for the resulting plan.

    one = Exercise(plan, lies("up/dot_general", "[data, model]"), statements(1))
    one.check("@up/dot_general=[data, model]")  # Right.

A goal is a function of a report that returns why it is not met, or an empty text. Any layout that meets every goal is right.
"""

from collections.abc import Callable
from dataclasses import dataclass

from workbench.core.sharding import Sharding
from workbench.errors import WorkbenchError
from workbench.plan.plan import Plan
from workbench.reports.report import Report
from workbench.units import format_bytes

Goal = Callable[[Report], str]
"""Why a report misses the goal, in a sentence; empty where it meets it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an answer is right; `reasons` say what it misses."""

    reasons: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return not self.reasons

    def __str__(self) -> str:
        return "\n  - ".join(["Not yet:", *self.reasons]) if self.reasons else "Right."

    __repr__ = __str__  # a notebook shows the value of a cell's last line by its repr


@dataclass(frozen=True, slots=True, init=False)
class Exercise:
    """A plan to start from, whose layout is the question, and the goals that an answer has to meet."""

    plan: Plan
    goals: tuple[Goal, ...]

    def __init__(self, plan: Plan, *goals: Goal) -> None:
        object.__setattr__(self, "plan", plan)
        object.__setattr__(self, "goals", goals)

    def check(self, layout: str) -> Verdict:
        """Whether this layout, in place of the plan's, is an answer; for an illegal layout the reason is the planner's error."""
        try:
            report = self.plan.updated(layout=layout).report()
            return Verdict(tuple(filter(None, (goal(report) for goal in self.goals))))
        except WorkbenchError as error:
            return Verdict((str(error),))


def lies(value: str, sharding: str) -> Goal:
    """An argument, result or intermediate value has this sharding."""
    expected = Sharding.parse(sharding)

    def goal(report: Report) -> str:
        try:
            found = report.propagation.values[report.propagation.find(value)[0]].sharding
        except WorkbenchError as error:
            return str(error)
        return "" if found == expected else f'`{value}` is sharded as {found}, not {expected}: `explain("{value}")` tells why.'

    return goal


def statements(most: int) -> Goal:
    """The layout has this number of statements."""

    def goal(report: Report) -> str:
        found = len(report.plan.layout.statements)
        return "" if found <= most else f"{found} statements, where {most} {'is' if most == 1 else 'are'} enough."

    return goal


def sends(most: int = 0, *, kind: str = "") -> Goal:
    """At most so many bytes leave each device per step; with `kind`, by collectives of that kind and no other."""

    def goal(report: Report) -> str:
        if report.sent > most:
            allowed = f"not more than {format_bytes(most)}" if most else "nothing"
            return f"{format_bytes(report.sent)} leave each device a step: {_sent_text(report)}. Let it send {allowed}."
        others = sorted({each.kind for each in report.collectives} - {kind}) if kind else []
        return f"It sends by {' and '.join(others)} where {kind} would do." if others else ""

    return goal


def _sent_text(report: Report) -> str:
    largest = max(report.collectives, key=lambda each: each.total_sent)
    return f"most of it by {largest.kind} over {'+'.join(largest.axes)} at {largest.path}"


def computes_once() -> Goal:
    """No dot is computed redundantly."""

    def goal(report: Report) -> str:
        found = report.flops.duplication
        return "" if found < 1.005 else f"Products are computed {found:.2f} times over all devices: a mesh axis splits nothing there."

    return goal


def gathers_nothing_whole() -> Goal:
    """No value is gathered whole on every device to be resharded (*involuntary full rematerialization*).

    XLA's partitioner is asked, and warns of none.
    """

    def goal(report: Report) -> str:
        partitioned_report = report if report.partitioned else report.plan.report("partitioned")
        places = [str(each) for each in partitioned_report.reshards if each.rematerialises]
        warned = (
            [f"{each.shape} from {each.before} to {each.after}" for each in partitioned_report.partitioned.gathered_whole]
            if partitioned_report.partitioned
            else []
        )
        return f"Gathered whole, then sliced: {(places or warned)[0]}." if warned else ""

    return goal


def holds(role: str, most: int) -> Goal:
    """At its peak a device holds at most so many bytes of a role: `parameter`, `optimizer state`, ..."""

    def goal(report: Report) -> str:
        found = next((size for each, size in report.memory.by_role.items() if each == role), 0)
        return "" if found <= most else f"Each device holds {format_bytes(found)} of {role}, where {format_bytes(most)} are asked for."

    return goal


def pads_nothing() -> Goal:
    """Every dimension divides by the number of its shards."""

    def goal(report: Report) -> str:
        return f"{report.padding[0].path}: {report.padding[0].arithmetic}." if report.padding else ""

    return goal
