"""What a plan must keep to, beside being legal: limits on its figures, and decisions that are pinned."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from workbench.search.candidates import PlanCandidate
from workbench.units import format_bytes, format_seconds


@dataclass(frozen=True, slots=True)
class AtMost:
    """A figure, `memory` (bytes of the fullest device) or `seconds` (of a step), may be at most `limit`."""

    figure: str
    limit: float

    def allows_figures(self, figures: Any) -> bool:
        """Whether figures, or bounds of them, keep to it."""
        return bool(getattr(figures, self.figure) <= self.limit)

    def allows(self, candidate: PlanCandidate) -> bool:
        """Of a candidate alone nothing is known of its figures."""
        del candidate
        return True

    def __str__(self) -> str:
        shown = format_bytes(int(self.limit)) if self.figure == "memory" else format_seconds(self.limit)
        return f"at most {shown} {'a device' if self.figure == 'memory' else 'a step'}"


@dataclass(frozen=True, slots=True)
class Pin:
    """A decision has one of these values: `zero`, `remat`, `layout`, `micro_batches`, `schedule`, or a mesh axis by its name (its size)."""

    decision: str
    values: tuple[Any, ...]

    def allows_figures(self, figures: Any) -> bool:
        """Figures do not matter to it."""
        del figures
        return True

    def allows(self, candidate: PlanCandidate) -> bool:
        """Whether the candidate has one of the values."""
        if self.decision in {axis for axis, _ in candidate.mesh}:
            return candidate.size(self.decision) in self.values
        return getattr(candidate, self.decision, None) in self.values

    def __str__(self) -> str:
        return (
            f"{self.decision.replace('_', ' ')} {' or '.join(f'{each:,}' if isinstance(each, int) else str(each) for each in self.values)}"
        )


Requirement = AtMost | Pin


def allows_candidate(requirements: Sequence[Requirement], candidate: PlanCandidate) -> bool:
    """Whether a candidate keeps every pin."""
    return all(each.allows(candidate) for each in requirements)


def allows_figures(requirements: Sequence[Requirement], figures: Any) -> bool:
    """Whether figures keep to every limit."""
    return all(each.allows_figures(figures) for each in requirements)
