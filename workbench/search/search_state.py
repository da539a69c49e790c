"""The state of a search, as every view shows it."""

from dataclasses import dataclass
from math import ceil

from workbench.search.plan_candidate import PlanCandidate
from workbench.search.search_figures import Figures, ParetoFront, figures_text
from workbench.units import format_seconds

FINISHED, OUT_OF_TIME, CANCELLED, EVALUATED = "finished", "out of time", "cancelled", "evaluations"
"""Endings of a search: complete, time limit reached, cancelled, evaluation limit reached."""


@dataclass(frozen=True)
class SearchState:
    """The state of a search.

    - `objective`: the figure to minimize;
    - `front`: plans that no found plan dominates; `best` is the one with the least objective, `None` until a plan meets
      the requirements;
    - `least`: proven lower bound on the objective of every plan that meets the requirements; 0 if none is known;
    - `evaluated`: candidates that were planned; `bounded`: candidates excluded by bounds; `refused`: illegal candidates
      by reason; `open`: open nodes;
    - `unanswered`: messages of workers that died; better plans may exist behind these questions, so nothing is proved;
    - `is_proved`: no plan beats the best; `is_complete`: no node is left;
    - `ending`: one of `FINISHED`, `OUT_OF_TIME`, `CANCELLED` and `EVALUATED`; empty while the search runs.
    """

    elapsed: float
    objective: str
    front: ParetoFront[PlanCandidate]
    least: float
    evaluated: int
    bounded: int
    open: int
    refused: tuple[tuple[str, int], ...] = ()
    is_proved: bool = False
    is_complete: bool = False
    unanswered: tuple[str, ...] = ()
    ending: str = ""

    @property
    def best(self) -> tuple[PlanCandidate, Figures] | None:
        return min(self.front, key=lambda entry: objective_key(self.objective, entry[1]), default=None)

    @property
    def gap(self) -> float:
        """The largest share of its objective by which the best plan can be beaten; 1 without a plan."""
        if self.best is None:
            return 1.0
        value = objective_key(self.objective, self.best[1])[0]
        return 0.0 if self.is_proved or not value else max(0.0, 1 - self.least / value)

    @property
    def status(self) -> str:
        """`proved`, or the gap, or that no plan meets the requirements."""
        if self.best is None:
            return "no plan meets the requirements" if self.is_complete else _UNFINISHED.get(self.ending, "no plan yet")
        if self.is_complete:
            return "proved, and the front is complete"
        if self.is_proved:
            return "proved"
        return self.gap_text if self.gap else "proved, except for plans that tie in it and are better in other figures"

    @property
    def gap_text(self) -> str:
        """The gap in words, rounded up so that it holds for every plan not examined."""
        value = objective_key(self.objective, self.best[1])[0] if self.best else 0.0
        if not self.least:
            return "no lower bound is known yet"
        ratio = value / self.least
        if ratio >= _TWICE:
            return f"at most {ceil(10 * ratio) / 10:,.1f} times the proven lower bound"
        return f"at most {ceil(1000 * (ratio - 1)) / 10:.1f}% {_MORE[self.objective]} than the proven lower bound"


_TWICE = 2.0  # larger gaps are written as a factor, not as a percentage
_MORE = {"seconds": "slower", "memory": "more memory", "devices": "more devices", "dollars": "more expensive"}
_UNFINISHED = {
    OUT_OF_TIME: "no plan found within the time limit",
    CANCELLED: "no plan found before the search was cancelled",
    EVALUATED: "no plan found within the evaluation limit",
}


def nothing_found_text(state: SearchState, combinations: int) -> str:
    """The message of a search that ended before its first plan. It claims nothing about plans not examined."""
    known = f"{state.evaluated:,} of {combinations:,} combinations planned, {state.bounded:,} compared by bounds"
    how = "The search was cancelled" if state.ending == CANCELLED else "The search did not finish"
    return f"No plan was found in {state.elapsed:.1f} s: {known}. {how}."


def ending_text(state: SearchState, combinations: int) -> str:
    """How the search ended and what it examined; empty while it runs."""
    examined = f"{state.evaluated:,} of {combinations:,} combinations planned, {state.bounded:,} known by their bounds"
    match state.ending:
        case "finished" if state.is_complete:
            return f"all {combinations:,} combinations examined: {state.evaluated:,} planned, the others excluded by bounds or illegal"
        case "out of time":
            return f"out of time: {examined}"
        case "cancelled":
            return f"cancelled: {examined}"
    return examined


def objective_key(objective: str, figures: Figures) -> tuple[float, ...]:
    """The sort key of figures: the objective (infinite if unknown), then seconds and bytes."""
    value = getattr(figures, objective)
    return (float("inf") if value is None else float(value), figures.seconds, figures.memory)


def progress_text(state: SearchState) -> str:
    """One line of progress: `12.4 s · 6.02 s, 34.8 GiB · 3 on the front · at most 4.0% slower than the proven lower
    bound`. Devices are shown if they are the objective.
    """
    devices = f"{state.best[1].devices:,} devices, " if state.best and state.objective == "devices" else ""
    best = f"{devices}{figures_text(state.best[1])} · {len(state.front)} on the front · " if state.best else ""
    return f"{format_seconds(state.elapsed)} · {best}{state.status}"
