"""Why one plan and not another: ledgers and counterfactuals, every figure of which the planner computed.

A ledger goes from one candidate to another one decision at a time, each step a candidate of its own that is planned. So its lines add up to
the whole difference by construction. A decision that cannot be changed alone (more stages, and the schedule that needs them) stands with
the next one. A counterfactual changes one decision of a candidate and plans what comes out.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from workbench.core.text_tables import Printed, table_text
from workbench.errors import WorkbenchError
from workbench.search.evaluator import Evaluator, never
from workbench.search.neighbours import is_of_space, list_neighbours
from workbench.search.plan_candidate import DECISIONS, PlanCandidate
from workbench.search.requirements import Requirement
from workbench.search.search_figures import Figures
from workbench.units import format_bytes, format_seconds

_ORDERS = (DECISIONS, tuple(reversed(DECISIONS)))


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """Decisions changed together, from what to what, and what that adds: seconds of a step, bytes of the fullest device."""

    decisions: tuple[str, ...]
    before: str
    after: str
    seconds: float
    memory: float


@dataclass(frozen=True)
class Ledger(Printed):
    """The way from one candidate to another; `print` it. **Invariants**: the lines add up to the difference of the figures."""

    start: PlanCandidate
    end: PlanCandidate
    start_figures: Figures
    end_figures: Figures
    lines: tuple[LedgerLine, ...]

    def __str__(self) -> str:
        return ledger_text(self)


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """One decision of a candidate changed, and what comes of it: figures, or the reason why it is no plan. Its text is a sentence.

    - `base`: the figures of the candidate that is changed; `breaks`: the requirements that its own do not keep.
    """

    decision: str
    candidate: PlanCandidate
    change: str
    base: Figures
    figures: Figures | None = None
    reason: str = ""
    breaks: tuple[str, ...] = ()

    def __str__(self) -> str:
        return counterfactual_text(self, self.base)


def make_ledger(evaluator: Evaluator, start: PlanCandidate, end: PlanCandidate) -> Ledger:
    """The ledger from `start` to `end`, by the order of decisions that has the most lines.

    Raises `WorkbenchError` where one of the two cannot be planned.
    """
    first, last = evaluator.evaluate(start), evaluator.evaluate(end)
    ways = [tuple(_walk(evaluator, start, end, order)) for order in _ORDERS]
    return Ledger(start, end, first, last, max(ways, key=len))


def _walk(evaluator: Evaluator, start: PlanCandidate, end: PlanCandidate, order: Sequence[str]) -> Iterator[LedgerLine]:
    here, figures = start, evaluator.evaluate(start)
    waiting: list[str] = []
    there = start
    for name in order:
        if here.decision(name) == end.decision(name) and there.decision(name) == end.decision(name):
            continue
        waiting.append(name)
        there = there.with_decision(name, end)
        after = _evaluate_if_legal(evaluator, there)
        if after is None:
            continue
        shown = [[each.describe(decision) for decision in waiting] for each in (here, there)]
        yield LedgerLine(
            tuple(waiting), ", ".join(shown[0]), ", ".join(shown[1]), after.seconds - figures.seconds, after.memory - figures.memory
        )
        here, figures, waiting = there, after, []


def _evaluate_if_legal(evaluator: Evaluator, candidate: PlanCandidate) -> Figures | None:
    """The figures of a candidate that the space allows; `None` where it does not, or the planner refuses it."""
    if not is_of_space(evaluator.space, candidate):
        return None
    try:
        return evaluator.evaluate(candidate)
    except WorkbenchError:
        return None


NOT_TRIED = "It was not planned: the time of the search was over."


def list_counterfactuals(
    evaluator: Evaluator, candidate: PlanCandidate, requirements: Sequence[Requirement] = (), is_over: Callable[[], bool] = never
) -> tuple[Counterfactual, ...]:
    """Every change of one decision to another value that the space has for it, planned; the mildest first, what is no plan last. Once it
    `is_over`, the others are `NOT_TRIED`.

    Raises `WorkbenchError` where the candidate itself cannot be planned.
    """
    base = evaluator.evaluate(candidate)
    found = [
        _try(evaluator, candidate, base, name, each, requirements, is_over) for name, each in list_neighbours(evaluator.space, candidate)
    ]
    return tuple(sorted(found, key=lambda each: (each.figures is None, bool(each.breaks), each.figures.seconds if each.figures else 0.0)))


def _try(
    evaluator: Evaluator,
    candidate: PlanCandidate,
    base: Figures,
    decision: str,
    other: PlanCandidate,
    requirements: Sequence[Requirement],
    is_over: Callable[[], bool],
) -> Counterfactual:
    names = [name for name in DECISIONS if candidate.decision(name) != other.decision(name)]
    shown = [", ".join(each.describe(name) for name in names) for each in (other, candidate)]
    change = f"{shown[0]} instead of {shown[1]}"
    if is_over():
        return Counterfactual(decision, other, change, base, reason=NOT_TRIED)
    try:
        figures = evaluator.evaluate(other)
    except WorkbenchError as error:
        return Counterfactual(decision, other, change, base, reason=error.message)
    broken = tuple(str(each) for each in requirements if not each.allows_figures(figures) or not each.allows(other))
    return Counterfactual(decision, other, change, base, figures, breaks=broken)


def ledger_text(ledger: Ledger) -> str:
    """The way from one plan to another, line by line, with both ends."""
    rows = [(_line_text(each.before, each.after), _signed(each.seconds, "s"), _signed(each.memory, "B")) for each in ledger.lines]
    ends = [
        ("from " + str(ledger.start), format_seconds(ledger.start_figures.seconds), format_bytes(int(ledger.start_figures.memory))),
        *rows,
        ("to " + str(ledger.end), format_seconds(ledger.end_figures.seconds), format_bytes(int(ledger.end_figures.memory))),
    ]
    return table_text(["decision~", "step>", "memory>"], ends)


def counterfactual_text(each: Counterfactual, base: Figures) -> str:
    """`with ZeRO 1 instead of ZeRO 3: +12 ms, +9.1 GiB`; or why it is no plan, or what it breaks."""
    if each.figures is None:
        return f"with {each.change}: {'' if each.reason == NOT_TRIED else 'no plan. '}{each.reason}"
    change = f"{_signed(each.figures.seconds - base.seconds, 's')}, {_signed(each.figures.memory - base.memory, 'B')}"
    broken = f"; it violates {' and '.join(each.breaks)}" if each.breaks else ""
    return f"with {each.change}: {change}{broken}"


def _line_text(before: str, after: str) -> str:
    return f"{before} → {after}"


def _signed(value: float, unit: str) -> str:
    shown = format_seconds(abs(value)) if unit == "s" else format_bytes(int(abs(value)))
    return "same" if not value else f"{'+' if value > 0 else '−'}{shown}"
