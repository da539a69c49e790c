"""What a plan must keep to, beside being legal: limits on its figures, and decisions that are pinned."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from workbench.errors import SearchError, unknown_name
from workbench.search.plan_candidate import PlanCandidate
from workbench.search.search_figures import Figures, figures_text
from workbench.units import format_bytes, format_seconds

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

PINNED = ("layout", "zero", "remat", "precision", "offload", "micro_batches", "schedule", "chunks", "boundaries", "hardware")
"""Decisions that can be pinned, beside the sizes of mesh axes."""
FIGURES = ("seconds", "memory", "devices", "dollars")


@dataclass(frozen=True, slots=True)
class AtMost:
    """A figure may be at most `limit`: `memory` (bytes of the fullest device), `seconds` (of a step), `devices`, `dollars` (of 1,000
    steps).

    **Invariants**

    - The figure is one of `FIGURES`; the limit is more than 0.
    """

    figure: str
    limit: float

    def __post_init__(self) -> None:
        if self.figure not in FIGURES:
            raise SearchError(*unknown_name("figure", self.figure, FIGURES))
        if not self.limit > 0:
            raise SearchError(f"At most {self.limit:g} {self.figure} leaves no plan.", [f"give more than 0 {self.figure}"])

    def allows_figures(self, figures: Figures) -> bool:
        """Whether figures, or bounds of them, keep to it; what is not known does not."""
        value = getattr(figures, self.figure)
        return value is not None and bool(value <= self.limit)

    def allows(self, candidate: PlanCandidate) -> bool:
        """Of a candidate alone nothing is known of its figures."""
        del candidate
        return True

    def __str__(self) -> str:
        match self.figure:
            case "memory":
                return f"at most {format_bytes(int(self.limit))} a device"
            case "seconds":
                return f"at most {format_seconds(self.limit)} a step"
            case "dollars":
                return f"at most {self.limit:,.2f} $ for 1,000 steps"
        return f"at most {self.limit:,.0f} devices"


@dataclass(frozen=True, slots=True)
class Pin:
    """A decision has one of these values: one of `PINNED`, or a mesh axis by its name (its size)."""

    decision: str
    values: tuple[Any, ...]

    def allows_figures(self, figures: Figures) -> bool:
        """Figures do not matter to it."""
        del figures
        return True

    def allows(self, candidate: PlanCandidate) -> bool:
        """Whether the candidate has one of the values."""
        return self.value_of(candidate) in self.values

    def value_of(self, candidate: PlanCandidate) -> Any:
        """What the candidate has for the pinned decision; one device along a mesh axis that it does not have."""
        return getattr(candidate, self.decision) if self.decision in PINNED else candidate.size(self.decision)

    def __str__(self) -> str:
        return (
            f"{self.decision.replace('_', ' ')} {' or '.join(f'{each:,}' if isinstance(each, int) else str(each) for each in self.values)}"
        )


Requirement = AtMost | Pin


def allows_candidate(requirements: Sequence[Requirement], candidate: PlanCandidate) -> bool:
    """Whether a candidate keeps every pin."""
    return all(each.allows(candidate) for each in requirements)


def allows_figures(requirements: Sequence[Requirement], figures: Figures) -> bool:
    """Whether figures keep to every limit."""
    return all(each.allows_figures(figures) for each in requirements)


def excess_of(requirements: Sequence[Requirement], figures: Figures) -> float:
    """By how much figures exceed the limits, in shares of these, added up; 0 where they keep all of them.

    >>> excess_of((AtMost("memory", 10), AtMost("devices", 4)), Figures(1.0, 15, 5))
    0.75
    """
    values = [(each.limit, getattr(figures, each.figure)) for each in requirements if isinstance(each, AtMost)]
    return sum(float("inf") if value is None else max(0.0, value / limit - 1) for limit, value in values)


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
    parts += [f"it violates {' and '.join(broken)}"] if broken else []
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
        return "equal to the best found" if present.dominates(best) else f"{same} the best found"
    return f"{share:.{0 if share >= _ROUND else 1}%} {more if ratio > 1 else less} than the best found"
