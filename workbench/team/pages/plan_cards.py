"""A plan of a gallery as the pages show it: read from what the actions answer, with each figure beside how well it is known."""

import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from workbench.team.actions.entry_records import TIERS, EntryRecord, TriedRecord
from workbench.team.pages.page_words import write_bytes, write_dollars, write_seconds


@dataclass(frozen=True, slots=True)
class FigureKind:
    """A figure that plans are judged by: its key in what a tier says, its name, how it is written, and whether less of it is better."""

    key: str
    name: str
    write: Callable[[float | None], str]


STEP_TIME = FigureKind("step_seconds", "Step time", write_seconds)
PEAK_MEMORY = FigureKind("peak_bytes", "Peak memory per device", write_bytes)
SENT = FigureKind("sent_bytes", "Sent per device and step", write_bytes)
PRICE = FigureKind("dollars", "Price of 1,000 steps", write_dollars)
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


class PlanCard(EntryRecord, frozen=True):
    """An entry of a gallery as `plans.get` answers it. `figures` are what each tier says of its plan; `tried` is who ran or compiled it
    last, and how that ended."""

    def known(self, kind: FigureKind) -> KnownFigure | None:
        """The figure as the best tier that has it says it; a run on a processor says nothing of the devices that a plan is for."""
        tiers = (tier for tier in reversed(TIERS) if not self.ran_elsewhere(tier))
        return next((found for tier in tiers if (found := self.of_tier(kind, tier))), None)

    def ran_elsewhere(self, tier: str) -> bool:
        """Whether a tier's figures are of this server's processor in place of the plan's own hardware."""
        return bool(self.hardware) and self.figures.get(tier, {}).get("device_kind") == "cpu"

    def of_tier(self, kind: FigureKind, tier: str) -> KnownFigure | None:
        value: Any = self.figures.get(tier, {}).get(kind.key)
        is_figure = isinstance(value, int | float) and not isinstance(value, bool)
        return KnownFigure(kind, float(value), tier) if is_figure else None

    @property
    def fits(self) -> tuple[bool, str] | None:
        """Whether it fits, and which tier says so."""
        return next(
            ((bool(found), tier) for tier in reversed(TIERS) if (found := self.figures.get(tier, {}).get("fits")) is not None), None
        )

    @property
    def tries(self) -> list[TriedRecord]:
        """The jobs that came to an end of their own, each person's last of a kind, at most three."""
        ended = [each for each in self.tried if each.state in ("done", "failed")]
        last = {(each.person.name, each.kind): each for each in reversed(ended)}
        return list(last.values())[::-1][:3]

    @property
    def statements(self) -> tuple[str, ...]:
        """Those of its layout."""
        return tuple(part.strip() for part in self.layout.replace("\n", ";").split(";") if part.strip())


def read_card(entry: Mapping[str, Any]) -> PlanCard:
    """The card of an entry in an answer."""
    return msgspec.convert(entry, PlanCard)


def plan_words(entry: Mapping[str, Any]) -> str:
    """A plan in a list to choose from, where several may have one name."""
    more = entry["note"] or entry["layout"] or "everything replicated"
    return " · ".join((entry["name"], entry["target"], entry["mesh"], textwrap.shorten(more, 60, placeholder=" …"), entry["digest"][:8]))
