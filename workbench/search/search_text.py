"""Figures of a search as text: of a plan, beside those of the best, and a line of progress."""

from collections.abc import Sequence

from workbench.search.figures import Figures
from workbench.search.requirements import Requirement
from workbench.search.search_state import SearchState
from workbench.units import format_bytes, format_dollars, format_seconds

_TWICE = 2.0  # from so many times the best on, the comparison is in times
_ALIKE = 0.0005  # a share that is none
_ROUND = 0.0995  # a share from which on it has no decimals
_WORDS = {
    "seconds": ("slower", "faster", "as fast as", "the step time"),
    "memory": ("more memory", "less memory", "as little memory as", "the memory"),
    "devices": ("more devices", "fewer devices", "as few devices as", "the devices"),
    "dollars": ("dearer", "cheaper", "as cheap as", "the cost"),
}
"""Of each objective: more of it, less of it, as much of it, and its name."""


def present_text(present: Figures, best: Figures | None, objective: str, requirements: Sequence[Requirement]) -> str:
    """`12.3 s, 41.0 GiB: 18% slower than the best found`: a plan's figures, and where they stand."""
    return ": ".join(filter(None, (figures_text(present), against_best_text(present, best, objective, requirements))))


def against_best_text(present: Figures, best: Figures | None, objective: str, requirements: Sequence[Requirement]) -> str:
    """Where figures stand against the best found, and which requirements on figures they do not keep.

    >>> against_best_text(Figures(1.18, 8), Figures(1.0, 9), "seconds", ())
    '18% slower than the best found'
    >>> against_best_text(Figures(3.4, 8), Figures(1.0, 9), "seconds", ())
    '3.4 times the step time of the best found'
    """
    broken = [f"`{each}`" for each in requirements if not each.allows_figures(present)]
    parts = [_compare(present, best, objective)] if best else []
    parts += [f"it does not keep {' and '.join(broken)}"] if broken else []
    return "; ".join(parts)


def _compare(present: Figures, best: Figures, objective: str) -> str:
    """How much more of the objective than the best; of the step time, where no price is known."""
    name = objective if getattr(present, objective) and getattr(best, objective) else "seconds"
    more, less, same, noun = _WORDS[name]
    ratio = getattr(present, name) / getattr(best, name)
    if ratio >= _TWICE:
        return f"{ratio:,.3g} times {noun} of the best found" if ratio < 1000 else f"{ratio:,.0f} times {noun} of the best found"
    share = abs(ratio - 1)
    if share < _ALIKE:
        return "as good as the best found" if present.dominates(best) else f"{same} the best found"
    return f"{share:.{0 if share >= _ROUND else 1}%} {more if ratio > 1 else less} than the best found"


def progress_text(state: SearchState) -> str:
    """One line: `12.4 s · 6.02 s, 34.8 GiB · 3 on the front · within 4.0% of what no plan can beat`; with devices where they count."""
    devices = f"{state.best[1].devices:,} devices, " if state.best and state.objective == "devices" else ""
    best = f"{devices}{figures_text(state.best[1])} · {len(state.front)} on the front · " if state.best else ""
    return f"{format_seconds(state.elapsed)} · {best}{state.status}"


def figures_text(figures: Figures) -> str:
    """`6.02 s, 34.8 GiB`, with the dollars of 1,000 steps where a price is known."""
    dollars = "" if figures.dollars is None else f", {format_dollars(figures.dollars)} for 1,000 steps"
    return f"{format_seconds(figures.seconds)}, {format_bytes(int(figures.memory))}{dollars}"
