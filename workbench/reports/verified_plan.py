"""A plan in three tiers: step time and memory as planned, as XLA's partitioner has it, and as the compiler of its hardware made it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

from workbench.core.text_tables import Printed, table_text, wrap_text
from workbench.errors import ways_out_text
from workbench.plan.plan import Plan
from workbench.units import format_figure

TierName = Literal["planned", "partitioned", "compiled"]
FigureName = Literal["seconds", "memory"]


@dataclass(frozen=True, slots=True)
class TierFigures:
    """What one tier says of a plan: seconds of a step, and peak bytes of the fullest device.

    - a figure is `None` where the tier does not say it, and then `reason` says why, as a sentence, with `ways_out`; it also says that the
      plan does not fit;
    - `compiler`: who was asked, name and version; empty for nobody.
    """

    seconds: float | None = None
    memory: float | None = None
    reason: str = ""
    ways_out: tuple[str, ...] = ()
    compiler: str = ""


@dataclass(frozen=True, slots=True)
class VerifiedPlan:
    """A plan with its figures in each tier; `title` is what it is called where it was found."""

    plan: Plan
    title: str
    planned: TierFigures
    partitioned: TierFigures
    compiled: TierFigures

    def tier(self, name: TierName) -> TierFigures:
        """The figures of a tier."""
        figures: TierFigures = getattr(self, name)
        return figures

    def difference(self, figure: FigureName, tier: TierName) -> float | None:
        """How much more a tier says than was planned, as a share of that: 0.1 is a tenth more; `None` where there is nothing to compare."""
        found, planned = getattr(self.tier(tier), figure), getattr(self.planned, figure)
        return None if found is None or not planned else found / planned - 1

    @property
    def peak(self) -> float | None:
        """Bytes of the fullest device as compiled; `None` where it was not compiled."""
        return self.compiled.memory

    @property
    def refusal(self) -> str:
        """Why it could not be compiled; empty if it was."""
        return "" if self.peak is not None else self.compiled.reason

    @property
    def memory_error(self) -> float | None:
        """How far the planned peak is from the compiled one, as a share of the latter; `None` where it was not compiled."""
        return None if not self.peak or self.planned.memory is None else self.planned.memory / self.peak - 1


@dataclass(frozen=True, repr=False)
class VerifiedPlans(Printed):
    """Several plans, each in three tiers; `print` them."""

    plans: tuple[VerifiedPlan, ...]

    def __iter__(self) -> Iterator[VerifiedPlan]:
        return iter(self.plans)

    def __len__(self) -> int:
        return len(self.plans)

    @overload
    def __getitem__(self, place: int) -> VerifiedPlan: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[VerifiedPlan, ...]: ...

    def __getitem__(self, place: int | slice) -> VerifiedPlan | tuple[VerifiedPlan, ...]:
        return self.plans[place]

    def __repr__(self) -> str:
        return f"VerifiedPlans({', '.join(each.title for each in self.plans)})"

    def __str__(self) -> str:
        return verified_text(self.plans)


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
    return "\n".join([table, "Percentages: difference from the planned figure.", *(wrap_text(line) for line in _notes(plans))])


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
    return f"{found.reason} {ways_out_text(found.ways_out)}".rstrip()
