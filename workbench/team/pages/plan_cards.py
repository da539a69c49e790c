"""A plan of a gallery as the pages show it: read from what the actions answer, with each figure beside how well it is known."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.team.pages.page_words import TIERS, write_bytes, write_dollars, write_seconds


@dataclass(frozen=True, slots=True)
class FigureKind:
    """A figure that plans are judged by: its key in what a tier says, its name, how it is written, and whether less of it is better."""

    key: str
    name: str
    write: Callable[[float | None], str]


STEP_TIME = FigureKind("step_seconds", "Time of a step", write_seconds)
PEAK_MEMORY = FigureKind("peak_bytes", "Peak memory per device", write_bytes)
SENT = FigureKind("sent_bytes", "Sent per device and step", write_bytes)
PRICE = FigureKind("dollars", "1,000 steps", write_dollars)
FIGURE_KINDS = (STEP_TIME, PEAK_MEMORY, SENT, PRICE)
"""In the order in which they are shown; of each, less is better."""


@dataclass(frozen=True, slots=True)
class KnownFigure:
    """A figure and the tier that says it."""

    kind: FigureKind
    value: float
    tier: str

    @property
    def text(self) -> str:
        return self.kind.write(self.value)


@dataclass(frozen=True, slots=True)
class PlanCard:
    """An entry of a gallery. `figures` are what each tier says of its plan; `tried` is who ran or compiled it, and how that ended."""

    id: str
    name: str
    note: str
    digest: str
    target: str
    mesh: str
    devices: int
    hardware: str
    layout: str
    dims: tuple[str, ...]
    author: str
    created: float
    figures: Mapping[str, Mapping[str, Any]]
    forked_from: tuple[str, str] | None = None  # id and name of the entry that it began as
    forks: int = 0
    tried: tuple[tuple[str, str], ...] = ()
    has_thumbnail: bool = False

    def known(self, kind: FigureKind) -> KnownFigure | None:
        """The figure as the best tier that has it says it."""
        return next((found for tier in reversed(TIERS) if (found := self.of_tier(kind, tier))), None)

    def of_tier(self, kind: FigureKind, tier: str) -> KnownFigure | None:
        value = self.figures.get(tier, {}).get(kind.key)
        return KnownFigure(kind, float(value), tier) if _is_figure(value) else None

    @property
    def fits(self) -> tuple[bool, str] | None:
        """Whether it fits, and which tier says so."""
        return next(
            ((bool(found), tier) for tier in reversed(TIERS) if (found := self.figures.get(tier, {}).get("fits")) is not None), None
        )

    @property
    def statements(self) -> tuple[str, ...]:
        """Those of its layout."""
        return tuple(part.strip() for part in self.layout.replace("\n", ";").split(";") if part.strip())

    @property
    def best_tier(self) -> str:
        """The best tier that says anything of it."""
        return next((tier for tier in reversed(TIERS) if self.figures.get(tier)), "")


def predicted_step(card: PlanCard) -> KnownFigure | None:
    """The step as it was foreseen: by the best tier that ran nothing."""
    return next((found for tier in reversed(TIERS[:-1]) if (found := card.of_tier(STEP_TIME, tier))), None)


def measured_step(card: PlanCard) -> KnownFigure | None:
    return card.of_tier(STEP_TIME, TIERS[-1])


def letters_of(count: int) -> Sequence[str]:
    """
    >>> letters_of(3)
    'ABC'
    """
    return "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[:count]


def _is_figure(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
