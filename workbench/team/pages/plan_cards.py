"""A gallery plan as the pages show it, with figures and their tiers."""

import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from workbench.team.actions.entry_records import TIERS, EntryRecord, TriedRecord
from workbench.team.pages.page_words import write_bytes, write_dollars, write_ratio, write_seconds


@dataclass(frozen=True, slots=True)
class FigureKind:
    key: str
    name: str
    write: Callable[[float | None], str]


STEP_TIME = FigureKind("step_seconds", "Step time", write_seconds)
PEAK_MEMORY = FigureKind("peak_bytes", "Peak memory per device", write_bytes)
SENT = FigureKind("sent_bytes", "Sent per device and step", write_bytes)
PRICE = FigureKind("dollars", "Price of 1,000 steps", write_dollars)
FIGURE_KINDS = (STEP_TIME, PEAK_MEMORY, SENT, PRICE)
"""Figures in display order; lower is better for all."""


@dataclass(frozen=True, slots=True)
class KnownFigure:
    kind: FigureKind
    value: float
    tier: str

    @property
    def text(self) -> str:
        return self.kind.write(self.value)


class PlanCard(EntryRecord, frozen=True):
    def known(self, kind: FigureKind) -> KnownFigure | None:
        """Return the figure from the most reliable tier, except CPU runs of a plan for other devices."""
        tiers = (tier for tier in reversed(TIERS) if not self.ran_elsewhere(tier))
        return next((figure for tier in tiers if (figure := self.of_tier(kind, tier))), None)

    def ran_elsewhere(self, tier: str) -> bool:
        """Return whether the tier's figures come from CPUs instead of the plan's hardware."""
        return bool(self.hardware) and self.figures.get(tier, {}).get("device_kind") == "cpu"

    def of_tier(self, kind: FigureKind, tier: str) -> KnownFigure | None:
        value: Any = self.figures.get(tier, {}).get(kind.key)
        is_figure = isinstance(value, int | float) and not isinstance(value, bool)
        return KnownFigure(kind, float(value), tier) if is_figure else None

    @property
    def fits(self) -> tuple[bool, str] | None:
        return next(
            ((bool(value), tier) for tier in reversed(TIERS) if (value := self.figures.get(tier, {}).get("fits")) is not None), None
        )

    def against(self, baseline: "PlanCard | None", kind: FigureKind) -> str:
        """How far a figure is from that of another plan in the same tier; empty where it is not known there."""
        own = self.known(kind)
        other = baseline.of_tier(kind, own.tier) if own and baseline and baseline.id != self.id else None
        return write_ratio(own.value / other.value) if own and other and other.value else ""

    @property
    def tags(self) -> list[str]:
        """The words of its note that begin with `#`."""
        return re.findall(r"(?<!\S)#[\w-]+", self.note)

    @property
    def tries(self) -> list[TriedRecord]:
        ended = [record for record in self.tried if record.state in ("done", "failed")]
        last = {(record.person.name, record.kind): record for record in reversed(ended)}
        return list(last.values())[::-1][:3]

    @property
    def statements(self) -> tuple[str, ...]:
        return tuple(part.strip() for part in self.layout.replace("\n", ";").split(";") if part.strip())


def read_card(entry: Mapping[str, Any]) -> PlanCard:
    return msgspec.convert(entry, PlanCard)


def plan_label(entry: Mapping[str, Any]) -> str:
    """Return a label of a plan for a list, where several may have the same name."""
    detail = entry["note"] or entry["layout"] or "everything replicated"
    return " · ".join((entry["name"], entry["target"], entry["mesh"], textwrap.shorten(detail, 60, placeholder=" …"), entry["digest"][:8]))
