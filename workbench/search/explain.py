"""Explanations of plan choices as ledgers and counterfactuals; the planner computes every figure.

A ledger leads from one candidate to another, one decision at a time. Each step is a planned candidate, so the lines add
up to the whole difference by construction. A decision that cannot change alone (more stages, without a schedule for
them) is grouped with the next one. A counterfactual changes one decision of a candidate and plans the result.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from workbench.core.text_tables import Printed, table_text
from workbench.errors import WorkbenchError
from workbench.search.evaluator import Evaluator, never
from workbench.search.neighbours import is_of_space, list_neighbours
from workbench.search.plan_candidate import DECISIONS, PlanCandidate
from workbench.search.requirements import Requirement, allows_candidate, allows_figures
from workbench.search.search_figures import Figures
from workbench.units import format_bytes, format_seconds

_ORDERS = (DECISIONS, tuple(reversed(DECISIONS)))


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """Decisions changed together, and the change of step seconds and of bytes on the fullest device."""

    decisions: tuple[str, ...]
    before: str
    after: str
    seconds: float
    memory: float


@dataclass(frozen=True)
class Ledger(Printed):
    """Step-by-step comparison of two candidates. **Invariants**: the lines add up to the difference of the figures."""

    start: PlanCandidate
    end: PlanCandidate
    start_figures: Figures
    end_figures: Figures
    lines: tuple[LedgerLine, ...]

    def __str__(self) -> str:
        return ledger_text(self)


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """One changed decision and its result: figures, or the reason why the plan is illegal. `str` gives a sentence.

    - `base`: figures of the unchanged candidate; `breaks`: requirements that the new figures violate.
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
    """The ledger from `start` to `end` with the most lines. Raises `WorkbenchError` if one cannot be planned."""
    first, last = evaluator.evaluate(start), evaluator.evaluate(end)
    ledgers = [tuple(_walk(evaluator, start, end, order)) for order in _ORDERS]
    return Ledger(start, end, first, last, max(ledgers, key=len))


def _walk(evaluator: Evaluator, start: PlanCandidate, end: PlanCandidate, order: Sequence[str]) -> Iterator[LedgerLine]:
    current, figures = start, evaluator.evaluate(start)
    waiting: list[str] = []
    target = start
    for name in order:
        if current.decision(name) == end.decision(name) and target.decision(name) == end.decision(name):
            continue
        waiting.append(name)
        target = target.with_decision(name, end)
        after = _evaluate_if_legal(evaluator, target)
        if after is None:
            continue
        shown = [[candidate.describe(decision) for decision in waiting] for candidate in (current, target)]
        yield LedgerLine(
            tuple(waiting), ", ".join(shown[0]), ", ".join(shown[1]), after.seconds - figures.seconds, after.memory - figures.memory
        )
        current, figures, waiting = target, after, []


def _evaluate_if_legal(evaluator: Evaluator, candidate: PlanCandidate) -> Figures | None:
    if not is_of_space(evaluator.space, candidate):
        return None
    try:
        return evaluator.evaluate(candidate)
    except WorkbenchError:
        return None


NOT_TRIED = "Not planned: the time limit was reached."


def list_counterfactuals(
    evaluator: Evaluator, candidate: PlanCandidate, requirements: Sequence[Requirement] = (), is_over: Callable[[], bool] = never
) -> tuple[Counterfactual, ...]:
    """Plan every change of one decision within the space, and sort the results: mildest first, illegal plans last.

    Once `is_over` returns true, the remaining ones are `NOT_TRIED`. Raises `WorkbenchError` if the candidate itself
    cannot be planned.
    """
    base = evaluator.evaluate(candidate)
    results = [
        _try(evaluator, candidate, base, name, other, requirements, is_over) for name, other in list_neighbours(evaluator.space, candidate)
    ]
    return tuple(sorted(results, key=lambda line: (line.figures is None, bool(line.breaks), line.figures.seconds if line.figures else 0.0)))


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
    descriptions = [", ".join(option.describe(name) for name in names) for option in (other, candidate)]
    change = f"{descriptions[0]} instead of {descriptions[1]}"
    if is_over():
        return Counterfactual(decision, other, change, base, reason=NOT_TRIED)
    try:
        figures = evaluator.evaluate(other)
    except WorkbenchError as error:
        return Counterfactual(decision, other, change, base, reason=error.message)
    broken = tuple(str(each) for each in requirements if not (allows_figures([each], figures) and allows_candidate([each], other)))
    return Counterfactual(decision, other, change, base, figures, breaks=broken)


def ledger_text(ledger: Ledger) -> str:
    rows = [(f"{line.before} → {line.after}", _signed(line.seconds, "s"), _signed(line.memory, "B")) for line in ledger.lines]
    ends = [
        ("from " + str(ledger.start), format_seconds(ledger.start_figures.seconds), format_bytes(int(ledger.start_figures.memory))),
        *rows,
        ("to " + str(ledger.end), format_seconds(ledger.end_figures.seconds), format_bytes(int(ledger.end_figures.memory))),
    ]
    return table_text(["decision~", "step>", "memory>"], ends)


def counterfactual_text(counterfactual: Counterfactual, base: Figures) -> str:
    """`with ZeRO 1 instead of ZeRO 3: +12 ms, +9.1 GiB`, with violated requirements, or the reason for no plan."""
    if counterfactual.figures is None:
        return f"with {counterfactual.change}: {'' if counterfactual.reason == NOT_TRIED else 'no plan. '}{counterfactual.reason}"
    change = f"{_signed(counterfactual.figures.seconds - base.seconds, 's')}, {_signed(counterfactual.figures.memory - base.memory, 'B')}"
    broken = f"; it violates {' and '.join(counterfactual.breaks)}" if counterfactual.breaks else ""
    return f"with {counterfactual.change}: {change}{broken}"


def _signed(value: float, unit: str) -> str:
    shown = format_seconds(abs(value)) if unit == "s" else format_bytes(int(abs(value)))
    return "same" if not value else f"{'+' if value > 0 else '−'}{shown}"
