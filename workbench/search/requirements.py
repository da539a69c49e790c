"""What a plan must keep to, beside being legal: limits on its figures, and decisions that are pinned."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from workbench.errors import SearchError, unknown_name
from workbench.search.candidates import PlanCandidate
from workbench.search.figures import Figures
from workbench.units import format_bytes, format_seconds

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
