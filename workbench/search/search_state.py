"""How far a search is: a value that every view of it shows."""

from dataclasses import dataclass
from math import ceil

from workbench.search.plan_candidate import PlanCandidate
from workbench.search.search_figures import Figures, ParetoFront, figures_text
from workbench.units import format_seconds

FINISHED, OUT_OF_TIME, CANCELLED, EVALUATED = "finished", "out of time", "cancelled", "evaluations"
"""How a search ends: with what was asked for, after its seconds, on request, after so many evaluations."""


@dataclass(frozen=True)
class SearchState:
    """How far a search is.

    - `objective`: the figure that is to be least;
    - `front`: the plans that nothing found beats; `best` the one with the least objective, `None` as long as none keeps the requirements;
    - `least`: no plan of the space that keeps the requirements has a lesser objective; 0 as long as nothing is known of the others;
    - `evaluated` candidates were planned, `bounded` are excluded by bounds, `refused` are illegal, by reason; `open` nodes wait;
    - `unanswered`: why a question found no answer, its worker having died, where a better plan may lie behind it; nothing is proved then;
    - `is_proved`: none is better than the best; `is_complete`: nothing is left to look at;
    - `ending`: how the search ended, of `FINISHED` and its like; empty while it goes on.
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
        """By how much of its objective the best could be beaten at most; 1 as long as there is none."""
        if self.best is None:
            return 1.0
        value = objective_key(self.objective, self.best[1])[0]
        return 0.0 if self.is_proved or not value else max(0.0, 1 - self.least / value)

    @property
    def status(self) -> str:
        """`proved`, or the gap, or that nothing fits."""
        if self.best is None:
            return "no plan meets the requirements" if self.is_complete else _UNFINISHED.get(self.ending, "no plan yet")
        if self.is_complete:
            return "proved, and the front is complete"
        if self.is_proved:
            return "proved"
        return self.gap_text if self.gap else "proved, but for what is as good in it and better in the rest"

    @property
    def gap_text(self) -> str:
        """The most by which the best is worse than the lower bound, rounded up: what it says is true of any plan not looked at."""
        value = objective_key(self.objective, self.best[1])[0] if self.best else 0.0
        if not self.least:
            return "no lower bound is known yet"
        ratio = value / self.least
        if ratio >= _TWICE:
            return f"at most {ceil(10 * ratio) / 10:,.1f} times the proven lower bound"
        return f"at most {ceil(1000 * (ratio - 1)) / 10:.1f}% {_MORE[self.objective]} than the proven lower bound"


_TWICE = 2.0  # from so many times the lower bound on, a gap is written in times
_MORE = {"seconds": "slower", "memory": "more memory", "devices": "more devices", "dollars": "more expensive"}
_UNFINISHED = {
    OUT_OF_TIME: "no plan found in the time of the search",
    CANCELLED: "no plan found before the search was cancelled",
    EVALUATED: "no plan found in so many evaluations",
}


def nothing_found_text(state: SearchState, combinations: int) -> str:
    """That a search ended before its first plan; nothing is said of what there is."""
    known = f"{state.evaluated:,} of {combinations:,} combinations planned, {state.bounded:,} compared by bounds"
    how = "The search was cancelled" if state.ending == CANCELLED else "The search did not finish"
    return f"No plan was found in {state.elapsed:.1f} s: {known}. {how}."


def ending_text(state: SearchState, combinations: int) -> str:
    """How the search ended, and what it examined; empty while it goes on."""
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
    """What is compared first, and what decides between equals: seconds and bytes. An unknown figure is worse than any."""
    value = getattr(figures, objective)
    return (float("inf") if value is None else float(value), figures.seconds, figures.memory)


def progress_text(state: SearchState) -> str:
    """One line: `12.4 s · 6.02 s, 34.8 GiB · 3 on the front · at most 4.0% slower than the proven lower bound`; with devices where they
    count."""
    devices = f"{state.best[1].devices:,} devices, " if state.best and state.objective == "devices" else ""
    best = f"{devices}{figures_text(state.best[1])} · {len(state.front)} on the front · " if state.best else ""
    return f"{format_seconds(state.elapsed)} · {best}{state.status}"
