"""Plans in three tiers as a text table: planned, partitioned, compiled, with the differences; and in words what a tier did not say."""

from collections.abc import Iterator, Sequence
from typing import Any

from workbench.reports.verified_plan import FigureName, TierName, VerifiedPlan
from workbench.core.text_tables import table_text, wrap_text
from workbench.units import format_figure

FIGURES: tuple[tuple[FigureName, str, str], ...] = (("seconds", "step", "seconds"), ("memory", "memory", "bytes"))
"""Each figure: its name in a tier, as it is called, and its unit."""
ASKED: tuple[TierName, ...] = ("partitioned", "compiled")
"""The tiers that a compiler was asked for."""
_ALIKE = 0.0005  # a share that is none


def verified_text(plans: Sequence[VerifiedPlan]) -> str:
    """A table with two lines for each plan, and under it what a tier did not say, and why."""
    if not plans:
        return "No plan was verified."
    columns = ["", "plan~", "", "planned>", "partitioned>", ">", "compiled>", ">"]
    table = table_text(columns, [row for number, each in enumerate(plans) for row in _rows(number, each)])
    return "\n".join([table, "Percentages: how much more, or less, than planned.", *(wrap_text(line) for line in _notes(plans))])


def share_of_planned_text(share: float | None) -> str:
    """How much more than planned.

    >>> share_of_planned_text(0.0123), share_of_planned_text(-0.2), share_of_planned_text(0.0001), share_of_planned_text(None)
    ('+1.2%', '−20%', 'same', '')
    """
    if share is None:
        return ""
    if abs(share) < _ALIKE:
        return "same"
    return f"{'+' if share > 0 else '−'}{abs(share):.{0 if abs(share) >= 0.0995 else 1}%}"


def tier_figure_text(value: float | None, unit: str) -> str:
    """A figure of a tier; `–` where it has none."""
    return "–" if value is None else format_figure(value, unit)


def verified_line(each: VerifiedPlan) -> str:
    """One plan as it becomes known: `data:4, replicated: partitioned 757 µs (−2.6%), 65.0 MiB (same); compiled 753 µs (−3.1%), ...`; where
    it could not be compiled, why."""
    parts = [f"{tier} {_tier_line(each, tier)}" for tier in ASKED if each.tier(tier).memory is not None]
    return f"{each.title}: {'; '.join([*parts, *([each.refusal] if each.refusal else [])])}"


def _tier_line(each: VerifiedPlan, tier: TierName) -> str:
    return ", ".join(
        f"{format_figure(value, unit)} ({share_of_planned_text(each.difference(name, tier))})"
        for name, _, unit in FIGURES
        if (value := getattr(each.tier(tier), name)) is not None
    )


def verified_record(each: VerifiedPlan) -> dict[str, Any]:
    """One plan as plain values: the figures of each tier, and the differences of those that were asked."""
    return {
        "plan": each.title,
        "planned": {name: getattr(each.planned, name) for name, _, _ in FIGURES},
        **{tier: _tier_record(each, tier) for tier in ASKED},
    }


def _tier_record(each: VerifiedPlan, tier: TierName) -> dict[str, Any]:
    found = each.tier(tier)
    return {
        **{name: getattr(found, name) for name, _, _ in FIGURES},
        "difference": {name: each.difference(name, tier) for name, _, _ in FIGURES},
        "compiler": found.compiler or None,
        "reason": found.reason or None,
        "ways_out": list(found.ways_out),
    }


def _rows(number: int, each: VerifiedPlan) -> Iterator[tuple[str, ...]]:
    for place, (name, label, unit) in enumerate(FIGURES):
        cells = [tier_figure_text(getattr(each.planned, name), unit)]
        for tier in ASKED:
            cells += [tier_figure_text(getattr(each.tier(tier), name), unit), share_of_planned_text(each.difference(name, tier))]
        yield ("" if place else str(number), "" if place else each.title, label, *cells)


def _notes(plans: Sequence[VerifiedPlan]) -> Iterator[str]:
    """What a tier did not say, once for the plans that have it in common."""
    found: dict[tuple[TierName, str], list[int]] = {}
    for number, each in enumerate(plans):
        for tier in ASKED:
            if text := reason_text(each, tier):
                found.setdefault((tier, text), []).append(number)
    for (tier, text), numbers in found.items():
        yield f"{', '.join(map(str, numbers))}, {tier}: {text}"


def reason_text(each: VerifiedPlan, tier: TierName) -> str:
    """Why a tier does not say something, with the ways out; empty where it says all."""
    found = each.tier(tier)
    return " ".join([found.reason, *([f"Ways out: {' · '.join(found.ways_out)}."] if found.ways_out else [])])
