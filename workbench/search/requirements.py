"""Requirements of a search: limits on figures, and pinned decisions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from workbench.errors import SearchError, unknown_name
from workbench.search.plan_candidate import PlanCandidate
from workbench.search.search_figures import Figures, figures_text
from workbench.units import format_bytes, format_seconds

_TWICE = 2.0  # larger ratios are written as a factor, not as a percentage
_ALIKE = 0.0005  # smaller differences count as equal
_ROUND = 0.0995  # larger percentages have no decimals
_WORDS = {
    "seconds": ("slower", "faster", "as fast as", "the step time"),
    "memory": ("more memory", "less memory", "as little memory as", "the memory"),
    "devices": ("more devices", "fewer devices", "as few devices as", "the devices"),
    "dollars": ("dearer", "cheaper", "as cheap as", "the cost"),
}
"""Words per objective: more of it, less of it, as much of it, and its name."""

PINNED = ("layout", "zero", "remat", "precision", "offload", "micro_batches", "schedule", "chunks", "boundaries", "hardware")
"""Decisions that can be pinned, in addition to the sizes of mesh axes."""
FIGURES = ("seconds", "memory", "devices", "dollars")


@dataclass(frozen=True, slots=True)
class AtMost:
    """Upper limit on a figure: `memory` in bytes, `seconds` per step, `devices`, or `dollars` per 1,000 steps.

    **Invariants**

    - The figure is one of `FIGURES`; the limit is more than 0.
    """

    figure: str
    limit: float

    def __post_init__(self) -> None:
        if self.figure not in FIGURES:
            raise SearchError(*unknown_name("figure", self.figure, FIGURES))
        if not self.limit > 0:
            raise SearchError(f"A limit of {self.limit:g} {self.figure} excludes every plan.", [f"give more than 0 {self.figure}"])

    def allows_figures(self, figures: Figures) -> bool:
        """Whether figures, or bounds on them, are within the limit; false for unknown figures."""
        value = getattr(figures, self.figure)
        return value is not None and bool(value <= self.limit)

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
    """A decision restricted to these values: one of `PINNED`, or a mesh axis by name (its size)."""

    decision: str
    values: tuple[Any, ...]

    def allows(self, candidate: PlanCandidate) -> bool:
        return self.value_of(candidate) in self.values

    def value_of(self, candidate: PlanCandidate) -> Any:
        """Return the candidate's value of the pinned decision; 1 for a mesh axis that it does not have."""
        return getattr(candidate, self.decision) if self.decision in PINNED else candidate.size(self.decision)

    def __str__(self) -> str:
        return (
            f"{self.decision.replace('_', ' ')} {' or '.join(f'{item:,}' if isinstance(item, int) else str(item) for item in self.values)}"
        )


Requirement = AtMost | Pin


def allows_candidate(requirements: Sequence[Requirement], candidate: PlanCandidate) -> bool:
    return all(requirement.allows(candidate) for requirement in requirements if isinstance(requirement, Pin))


def allows_figures(requirements: Sequence[Requirement], figures: Figures) -> bool:
    return all(requirement.allows_figures(figures) for requirement in requirements if isinstance(requirement, AtMost))


def relative_excess(requirements: Sequence[Requirement], figures: Figures) -> float:
    """Sum of the relative excesses over the limits; 0 if all limits are met.

    >>> relative_excess((AtMost("memory", 10), AtMost("devices", 4)), Figures(1.0, 15, 5))
    0.75
    """
    values = [(bound.limit, getattr(figures, bound.figure)) for bound in requirements if isinstance(bound, AtMost)]
    return sum(float("inf") if value is None else max(0.0, value / limit - 1) for limit, value in values)


def present_text(present: Figures, best: Figures | None, objective: str, requirements: Sequence[Requirement]) -> str:
    """Figures of a plan, compared with the best: `12.3 s, 41.0 GiB: 18% slower than the best found`."""
    return ": ".join(filter(None, (figures_text(present), against_best_text(present, best, objective, requirements))))


def against_best_text(present: Figures, best: Figures | None, objective: str, requirements: Sequence[Requirement]) -> str:
    """Compare figures with the best found, and name the limits that they violate.

    >>> against_best_text(Figures(1.18, 8), Figures(1.0, 9), "seconds", ())
    '18% slower than the best found'
    >>> against_best_text(Figures(3.4, 8), Figures(1.0, 9), "seconds", ())
    '3.4 times the step time of the best found'
    """
    broken = [f"`{each}`" for each in requirements if not allows_figures([each], present)]
    parts = [_compare(present, best, objective)] if best else []
    parts += [f"it violates {' and '.join(broken)}"] if broken else []
    return "; ".join(parts)


def present_ways(requirements: Sequence[Requirement], present: Figures) -> list[str]:
    """The advice to keep a present plan that meets the limits; empty if it does not."""
    return [f"keep the current plan, which meets the limits: {figures_text(present)}"] if allows_figures(requirements, present) else []


def _compare(present: Figures, best: Figures, objective: str) -> str:
    name = objective if getattr(present, objective) and getattr(best, objective) else "seconds"
    more, less, same, noun = _WORDS[name]
    ratio = getattr(present, name) / getattr(best, name)
    if ratio >= _TWICE:
        return f"{ratio:,.3g} times {noun} of the best found" if ratio < 1000 else f"{ratio:,.0f} times {noun} of the best found"
    share = abs(ratio - 1)
    if share < _ALIKE:
        return "equal to the best found" if present.dominates(best) else f"{same} the best found"
    return f"{share:.{0 if share >= _ROUND else 1}%} {more if ratio > 1 else less} than the best found"
