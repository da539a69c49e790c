"""A plan in three tiers: step time and memory as planned, as XLA's partitioner has it, and as the compiler of its hardware made it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, overload

from workbench.plan.plan import Plan

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
class VerifiedPlans:
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
        from workbench.text.verified_plans import verified_text

        return verified_text(self.plans)

    def _repr_html_(self) -> str:
        from workbench.core.text_tables import html_text

        return html_text(lambda: str(self))
