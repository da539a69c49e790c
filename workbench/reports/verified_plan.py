"""A plan's step time and memory in three tiers: planned, partitioned by XLA, and compiled for its hardware."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from workbench.core.text_tables import Printed, table_text, wrap_text
from workbench.errors import ways_out_text
from workbench.plan.plan import Plan
from workbench.units import format_figure

TierName = Literal["planned", "partitioned", "compiled"]
FigureName = Literal["seconds", "memory"]


@dataclass(frozen=True, slots=True)
class TierFigures:
    """Figures of one tier: seconds of a step, and peak bytes of the fullest device.

    - `reason`: why a figure is `None`, as a sentence, with `ways_out`; also if the plan does not fit;
    - `compiler`: name and version; empty if none was used.
    """

    seconds: float | None = None
    memory: float | None = None
    reason: str = ""
    ways_out: tuple[str, ...] = ()
    compiler: str = ""


@dataclass(frozen=True, slots=True)
class VerifiedPlan:
    """A plan with its figures in each tier; `title` is its name in the original list."""

    plan: Plan
    title: str
    planned: TierFigures
    partitioned: TierFigures
    compiled: TierFigures

    def tier(self, name: TierName) -> TierFigures:
        figures: TierFigures = getattr(self, name)
        return figures

    def difference(self, figure: FigureName, tier: TierName) -> float | None:
        """Return the relative difference from the planned figure, such as 0.1; `None` if either is missing."""
        value, planned = getattr(self.tier(tier), figure), getattr(self.planned, figure)
        return None if value is None or not planned else value / planned - 1

    @property
    def peak(self) -> float | None:
        """Compiled bytes of the fullest device; `None` if the plan was not compiled."""
        return self.compiled.memory

    @property
    def refusal(self) -> str:
        return "" if self.peak is not None else self.compiled.reason

    @property
    def memory_error(self) -> float | None:
        """Relative error of the planned peak against the compiled one; `None` if the plan was not compiled."""
        return None if not self.peak or self.planned.memory is None else self.planned.memory / self.peak - 1


class VerifiedPlans(tuple[VerifiedPlan, ...], Printed):
    """Several plans, each in three tiers."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"VerifiedPlans({', '.join(plan.title for plan in self)})"

    def __str__(self) -> str:
        """Format a table with two lines per plan, and the reasons for missing figures."""
        if not self:
            return "No plan was verified."
        columns = ["", "plan~", "", "planned>", "partitioned>", ">", "compiled>", ">"]
        table = table_text(columns, [row for number, plan in enumerate(self) for row in _rows(number, plan)])
        return "\n".join([table, "Percentages: difference from the planned figure.", *(wrap_text(line) for line in _notes(self))])


FIGURES: tuple[tuple[FigureName, str, str], ...] = (("seconds", "step", "seconds"), ("memory", "memory", "bytes"))
"""Attribute, label and unit of each figure."""
ASKED: tuple[TierName, ...] = ("partitioned", "compiled")
"""The tiers that use a compiler."""
_ALIKE = 0.0005  # relative difference shown as `same`


def share_of_planned_text(share: float | None) -> str:
    """Format a relative difference from the planned figure.

    >>> share_of_planned_text(0.0123), share_of_planned_text(-0.2), share_of_planned_text(0.0001), share_of_planned_text(None)
    ('+1.2%', '−20%', 'same', '')
    """
    if share is None:
        return ""
    if abs(share) < _ALIKE:
        return "same"
    return f"{'+' if share > 0 else '−'}{abs(share):.{0 if abs(share) >= 0.0995 else 1}%}"


def tier_figure_text(value: float | None, unit: str) -> str:
    return "–" if value is None else format_figure(value, unit)


def verified_line(each: VerifiedPlan) -> str:
    """Format one plan: `data:4, replicated: partitioned 757 µs (−2.6%), 65.0 MiB (same); compiled ...`, or the reason."""
    parts = [f"{tier} {_tier_line(each, tier)}" for tier in ASKED if each.tier(tier).memory is not None]
    return f"{each.title}: {'; '.join([*parts, *([each.refusal] if each.refusal else [])])}"


def _tier_line(each: VerifiedPlan, tier: TierName) -> str:
    return ", ".join(
        f"{format_figure(value, unit)} ({share_of_planned_text(each.difference(name, tier))})"
        for name, _, unit in FIGURES
        if (value := getattr(each.tier(tier), name)) is not None
    )


def verified_record(each: VerifiedPlan) -> dict[str, Any]:
    """Return one plan as JSON values: the figures of each tier, and differences from the planned ones."""
    return {
        "plan": each.title,
        "planned": {name: getattr(each.planned, name) for name, _, _ in FIGURES},
        **{tier: _tier_record(each, tier) for tier in ASKED},
    }


def _tier_record(each: VerifiedPlan, tier: TierName) -> dict[str, Any]:
    figures = each.tier(tier)
    return {
        **{name: getattr(figures, name) for name, _, _ in FIGURES},
        "difference": {name: each.difference(name, tier) for name, _, _ in FIGURES},
        "compiler": figures.compiler or None,
        "reason": figures.reason or None,
        "ways_out": list(figures.ways_out),
    }


def _rows(number: int, each: VerifiedPlan) -> Iterator[tuple[str, ...]]:
    for place, (name, label, unit) in enumerate(FIGURES):
        cells = [tier_figure_text(getattr(each.planned, name), unit)]
        for tier in ASKED:
            cells += [tier_figure_text(getattr(each.tier(tier), name), unit), share_of_planned_text(each.difference(name, tier))]
        yield ("" if place else str(number), "" if place else each.title, label, *cells)


def _notes(plans: Sequence[VerifiedPlan]) -> Iterator[str]:
    numbers_by_reason: dict[tuple[TierName, str], list[int]] = {}
    for number, plan in enumerate(plans):
        for tier in ASKED:
            if text := reason_text(plan, tier):
                numbers_by_reason.setdefault((tier, text), []).append(number)
    for (tier, text), numbers in numbers_by_reason.items():
        yield f"{', '.join(map(str, numbers))}, {tier}: {text}"


def reason_text(each: VerifiedPlan, tier: TierName) -> str:
    """Format why a tier lacks a figure, with suggestions; empty if it has all."""
    figures = each.tier(tier)
    return f"{figures.reason} {ways_out_text(figures.ways_out)}".rstrip()
