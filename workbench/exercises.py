"""Exercises that check their own answers: a program on a mesh, a layout to find, and goals for the resulting plan.

    one = Exercise(plan, lies("up/dot_general", "[data, model]"), statements(1))
    one.check("@up/dot_general=[data, model]")  # Right.

A goal is a function of a report that returns why it is not met, or an empty text. Any layout that meets every goal is right, and so is any
plan of the program where more than the layout is asked for. About a search there are two more: `WinnerExercise` and `LedgerExercise`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from workbench.core.sharding import Sharding
from workbench.errors import SearchError, WorkbenchError, unknown_name
from workbench.plan.plan import Plan
from workbench.reports.report import Report
from workbench.search.candidates import PlanCandidate
from workbench.search.explain import Ledger, LedgerLine
from workbench.search.figures import Figures
from workbench.search.find_plans import read_requirements
from workbench.search.requirements import Requirement
from workbench.search.run_search import run_search
from workbench.search.search_result import SearchResult
from workbench.units import format_bytes, format_dollars, format_seconds

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

    def check(self, answer: str | Plan) -> Verdict:
        """Whether this layout, in place of the plan's, is an answer, or this plan; for an illegal layout the reason is the planner's error.

        A plan may differ in all but the devices, their kind, and what it computes.
        """
        if isinstance(answer, Plan) and (reasons := self._differences(answer)):
            return Verdict(reasons)
        try:
            report = (answer if isinstance(answer, Plan) else self.plan.updated(layout=answer)).report()
            return Verdict(tuple(filter(None, (goal(report) for goal in self.goals))))
        except WorkbenchError as error:
            return Verdict((str(error),))

    def _differences(self, answer: Plan) -> tuple[str, ...]:
        """Why a plan answers another question."""
        asked = self.plan
        reasons = []
        if answer.program.name != asked.program.name or answer.program.dims != asked.program.dims:
            reasons.append(
                f"It is a plan of `{answer.program.name}`, where one of `{asked.program.name}` with the same sizes is asked for."
            )
        if answer.mesh.size != asked.mesh.size or answer.hardware != asked.hardware:
            reasons.append(f"It is for {_devices_text(answer)}, where {_devices_text(asked)} are asked for.")
        return tuple(reasons)


@dataclass(frozen=True, slots=True)
class WinnerExercise:
    """Which plan is the best? To be answered before it is shown: `WinnerExercise(plan.search(...)).check(stage=2, zero="zero_1")`."""

    result: SearchResult

    def check(self, **guess: Any) -> Verdict:
        """Whether a best plan has each of these: mesh axes by their sizes, `layout`, `zero`, `remat`, `micro_batches`, `schedule`.

        For one that none has, the reason is what the best plan with it needs. Raises `SearchError` for a decision that there is not, and
        where the search found no plan.
        """
        if self.result.state.best is None:
            raise self.result.no_plan_error()
        requirements = read_requirements(self.result.space, {}, guess)[-len(guess) :] if guess else ()
        return Verdict(tuple(filter(None, (self._explain(each) for each in requirements))))

    def _explain(self, guess: Requirement) -> str:
        """Why no best plan has what was guessed; empty where one has it."""
        result, objective = self.result, self.result.state.objective
        found = _find_best(result, guess)
        if found is None:
            return f"Not {guess}: no plan with it keeps {' and '.join(f'`{each}`' for each in result.requirements) or 'what is asked for'}."
        best = result.state.best
        more = _difference_text(objective, found[1], best[1]) if best else ""
        return f"Not {guess}: the best plan with it needs {more} more than the best of all." if more else ""


@dataclass(frozen=True, slots=True)
class LedgerExercise:
    """Which decision of a ledger saves most time? `LedgerExercise(result.why()).check("remat")`."""

    ledger: Ledger

    def check(self, decision: str) -> Verdict:
        """Whether the line with this decision takes most off the time of a step. Raises `SearchError` for one that the ledger has not."""
        lines = {name: line for line in self.ledger.lines for name in line.decisions}
        if decision not in lines:
            raise SearchError(*unknown_name("decision", decision, lines, " in the ledger"))
        line = lines[decision]
        least = min(self.ledger.lines, key=lambda each: each.seconds)
        return Verdict() if line.seconds <= least.seconds else Verdict((f"{_line_text(line)}, and another line saves more.",))


def _find_best(result: SearchResult, guess: Requirement) -> tuple[PlanCandidate, Figures] | None:
    """The best plan that has what was guessed and keeps what the search had to keep."""
    requirements = (*result.requirements, guess)
    found = None
    for state in run_search(result.space, requirements, objective=result.state.objective, evaluator=result.evaluator):
        found = state.best
        if state.is_proved:
            break
    return found


def _difference_text(objective: str, figures: Figures, best: Figures) -> str:
    """How much more of the objective; empty where it is not more."""
    more = float(getattr(figures, objective) or 0) - float(getattr(best, objective) or 0)
    match objective if more > 0 else "":
        case "seconds":
            return format_seconds(more)
        case "memory":
            return format_bytes(int(more))
        case "dollars":
            return format_dollars(more)
        case "devices":
            return f"{more:,.0f} devices"
    return ""


def _line_text(line: LedgerLine) -> str:
    names = " with ".join(f"`{each}`" for each in line.decisions)
    return f"{names} {'saves' if line.seconds < 0 else 'costs'} {format_seconds(abs(line.seconds))}"


def _devices_text(plan: Plan) -> str:
    return plan.hardware.name if plan.hardware else f"{plan.mesh.size:,} devices"


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
        report = report.most(lambda each: each.sent)
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


def faster_than(seconds: float) -> Goal:
    """A step takes less than this."""

    def goal(report: Report) -> str:
        if report.seconds is None:
            return "How long a step takes is not known: the plan names no hardware."
        return "" if report.seconds < seconds else f"A step takes {format_seconds(report.seconds)}; beat {format_seconds(seconds)}."

    return goal


def fits() -> Goal:
    """The fullest device has room for its part of the plan."""

    def goal(report: Report) -> str:
        room = report.plan.hardware.chip.memory if report.plan.hardware else None
        if room is None or report.peak <= room:
            return ""
        return f"The fullest device holds {format_bytes(report.peak)} and has {format_bytes(room)}."

    return goal
