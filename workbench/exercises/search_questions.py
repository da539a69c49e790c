"""Questions about a search: the best plan, and the decision that saves the most."""

from dataclasses import dataclass
from typing import Any

from workbench.errors import SearchError, unknown_name
from workbench.exercises.verdict import Check, Verdict
from workbench.search.explain import Ledger, LedgerLine
from workbench.search.find_plans import read_requirements
from workbench.search.requirements import Requirement
from workbench.search.run_search import run_search
from workbench.search.search_figures import Figures
from workbench.search.search_result import SearchResult
from workbench.search.search_state import SearchState, nothing_found_text
from workbench.units import format_bytes, format_dollars, format_seconds


@dataclass(frozen=True, slots=True)
class WinnerQuestion:
    """A question for the best plan of a search: `WinnerQuestion(plan.search(...)).check(stage=2, zero="zero_1")`."""

    result: SearchResult

    def check(self, **guess: Any) -> Verdict:
        """Whether a best plan has each of these: mesh axis sizes, `layout`, `zero`, `remat`, `schedule`, ...

        The reason for a wrong guess is the extra cost of the best plan with it. Raises `SearchError` for an unknown
        decision or if the search found no plan.
        """
        if self.result.state.best is None:
            raise self.result.no_plan_error()
        requirements = read_requirements(self.result.space, {}, guess)[-len(guess) :] if guess else ()
        return Verdict(tuple(Check(f"A best plan has {requirement}.", self._explain(requirement)) for requirement in requirements))

    def _explain(self, guess: Requirement) -> str:
        result, objective = self.result, self.result.state.objective
        state = _find_best(result, guess)
        best_with_guess = state.best
        if best_with_guess is None and not state.is_complete:
            raise SearchError(nothing_found_text(state, result.space.size), ["search a smaller space"])
        if best_with_guess is None:
            return (
                f"Not {guess}: no plan with it keeps {' and '.join(f'`{bound}`' for bound in result.requirements) or 'what is asked for'}."
            )
        best = result.state.best
        more = _difference_text(objective, best_with_guess[1], best[1]) if best else ""
        return f"Not {guess}: its best plan needs {more} more than the overall best." if more else ""


@dataclass(frozen=True, slots=True)
class LedgerQuestion:
    """A question for the decision that saves the most time: `LedgerQuestion(result.why()).check("remat")`."""

    ledger: Ledger

    def check(self, decision: str) -> Verdict:
        """Whether this decision saves the most time. Raises `SearchError` if the ledger lacks it."""
        lines = {name: line for line in self.ledger.lines for name in line.decisions}
        if decision not in lines:
            raise SearchError(*unknown_name("decision", decision, lines, " in the ledger"))
        line = lines[decision]
        least = min(self.ledger.lines, key=lambda entry: entry.seconds)
        reason = "" if line.seconds <= least.seconds else f"{_line_text(line)}, and another line saves more."
        return Verdict((Check("No decision saves more.", reason),))


def _find_best(result: SearchResult, guess: Requirement) -> SearchState:
    requirements, objective = (*result.requirements, guess), result.state.objective
    *_, last = run_search(result.space, requirements, objective=objective, evaluator=result.evaluator, until="proved")
    return last


def _difference_text(objective: str, figures: Figures, best: Figures) -> str:
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
    names = " with ".join(f"`{decision}`" for decision in line.decisions)
    return f"{names} {'saves' if line.seconds < 0 else 'costs'} {format_seconds(abs(line.seconds))}"
