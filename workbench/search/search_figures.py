"""The planner's figures of a plan for comparison in a search, and Pareto fronts of plans."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from workbench.analysis.diagnose import over_host_memory_text
from workbench.cost.estimate import estimate
from workbench.errors import SearchError
from workbench.hardware.hardware import Hardware
from workbench.pipeline.pipeline_report import pipeline_report
from workbench.plan.plan import Plan
from workbench.reports.pipeline import PipelineReport
from workbench.reports.step_time import StepTime
from workbench.reports.verified_plan import TierFigures
from workbench.units import format_bytes, format_dollars, format_seconds

NOMINAL = 1e12
"""FLOP/s of a device if no hardware is chosen."""
NOMINAL_SECONDS = "Without hardware one second stands for 10¹² operations and communication is free: compare plans only."
HOUR = 3600.0

StepParts = tuple[tuple[str, float], ...]
"""Names and seconds of the parts of a step; the seconds add up to the step time."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Seconds of a step, peak bytes on the fullest device, devices, and dollars per 1,000 steps (`None`: unknown
    price).

    `parts` of the step exist for plans on hardware, not for bounds; `mfu` is the model FLOPs utilization of a plan
    without a pipeline on hardware.
    """

    seconds: float
    memory: float
    devices: int = 0
    dollars: float | None = None
    parts: StepParts = field(default=(), compare=False, repr=False)
    mfu: float | None = field(default=None, compare=False, repr=False)

    def with_seconds(self, seconds: float) -> "Figures":
        dollars = None if self.dollars is None else (self.dollars * seconds / self.seconds if self.seconds else 0.0)
        mfu = self.mfu * self.seconds / seconds if self.mfu and seconds else None
        return replace(self, seconds=seconds, dollars=dollars, parts=(), mfu=mfu)

    def dominates(self, other: "Figures", slack: float = 0.0) -> bool:
        """Whether no figure is worse than in `other` by more than `slack`. Dollars follow from the others.

        >>> Figures(1.0, 8, 4).dominates(Figures(1.0, 9, 4)), Figures(1.0, 8, 8).dominates(Figures(1.0, 9, 4))
        (True, False)
        """
        limit = 1 + slack
        return self.seconds <= other.seconds * limit and self.memory <= other.memory * limit and self.devices <= other.devices


def figures_on(
    hardware: Hardware | None, seconds: float, memory: float, devices: int, parts: StepParts = (), mfu: float | None = None
) -> Figures:
    """Make figures with the cost of 1,000 steps on this hardware."""
    price = hardware.hourly_price if hardware else None
    return Figures(seconds, memory, devices, None if price is None else price * seconds * 1000 / HOUR, parts, mfu)


def evaluate_plan(plan: Plan) -> Figures:
    """Plan it, as a whole or in stages, and return its figures.

    Without hardware the seconds are nominal: one per 10^12 FLOPs of a device. Raises `WorkbenchError` if it is refused
    or exceeds the host memory.
    """
    if plan.pipeline is not None:
        return _figures_of_pipeline(plan, pipeline_report(plan))
    estimated = estimate(plan)
    if plan.hardware is not None and 0 < plan.hardware.chip.host_memory < estimated.memory.host:
        ways_out = ["keep activations on the devices, remat `dots_no_batch`"] if plan.program.remat.uses_host else []
        ways_out += ["keep it on the devices, offload `nothing`"] if plan.program.on_host or not ways_out else []
        raise SearchError(over_host_memory_text(estimated.memory.host, plan.hardware.chip), ways_out)
    return _figures_of_step(plan, estimated.step_time, estimated.flops.per_device, estimated.memory.peak)


def planned_figures(plan: Plan, figures: Figures) -> TierFigures:
    """The figures of a plan as a tier, without nominal seconds."""
    return TierFigures(figures.seconds if plan.hardware else None, figures.memory)


def _figures_of_step(plan: Plan, step: StepTime | None, flops: float, memory: float) -> Figures:
    seconds = step.total if step else flops / NOMINAL
    parts, mfu = (_parts_of_step(step), step.mfu) if step else ((), None)
    return figures_on(plan.hardware, seconds, memory, plan.mesh.size, parts, mfu)


def _figures_of_pipeline(plan: Plan, staged: PipelineReport) -> Figures:
    parts = _parts_of_pipeline(staged) if plan.hardware else ()
    return figures_on(plan.hardware, staged.seconds, max(staged.simulated.peaks), plan.mesh.size, parts)


def _parts_of_step(step: StepTime) -> StepParts:
    parts = (
        ("compute-bound", step.arithmetic),
        ("memory-bound", step.memory),
        ("launches", step.launch),
        ("exposed communication", step.exposed),
        ("waiting for the host", step.host),
    )
    return tuple((name, seconds) for name, seconds in parts if seconds > 0)


def _parts_of_pipeline(staged: PipelineReport) -> StepParts:
    step = staged.simulated
    idle = step.bubble * step.makespan
    parts = (("work of the stages", step.makespan - idle), ("bubble", idle), ("update", step.seconds - step.makespan))
    return tuple((name, seconds) for name, seconds in parts if seconds > 0)


def figures_text(figures: Figures) -> str:
    """`6.02 s, 34.8 GiB`, with the dollars per 1,000 steps if the price is known."""
    dollars = "" if figures.dollars is None else f", {format_dollars(figures.dollars)} for 1,000 steps"
    return f"{format_seconds(figures.seconds)}, {format_bytes(int(figures.memory))}{dollars}"


# Plans that no other found plan dominates.

Item = TypeVar("Item")


@dataclass(frozen=True)
class ParetoFront(Generic[Item]):
    """Immutable front of items with figures, none dominated by another, fastest first.

    >>> front = ParetoFront().with_item("a", Figures(1.0, 9, 4)).with_item("b", Figures(2.0, 8, 4)).with_item("c", Figures(3.0, 9, 4))
    >>> [item for item, _ in front]
    ['a', 'b']
    """

    entries: tuple[tuple[Item, Figures], ...] = ()

    def __iter__(self) -> Iterator[tuple[Item, Figures]]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def with_item(self, item: Item, figures: Figures) -> "ParetoFront[Item]":
        """Return the front with another item, unless an item is at least as good; the first of equal items stays."""
        if self.beats(figures):
            return self
        others = [(member, other) for member, other in self.entries if not figures.dominates(other)]
        return ParetoFront(tuple(sorted((*others, (item, figures)), key=lambda entry: (entry[1].seconds, entry[1].memory))))

    def beats(self, figures: Figures, slack: float = 0.0) -> bool:
        """Whether an item is at least as good as these figures or bounds in all respects, or within a share `slack`."""
        return any(entry.dominates(figures, slack) for _, entry in self.entries)


def hypervolume(front: Iterable[Figures], reference: tuple[float, float]) -> float:
    """Area of (seconds, bytes) that a front dominates, up to a reference point that is worse than all of it.

    >>> hypervolume([Figures(1.0, 2), Figures(2.0, 1)], (3.0, 3.0))
    3.0
    """
    seconds, memory = reference
    area, below = 0.0, memory
    for point in sorted(front, key=lambda figures: (figures.seconds, figures.memory)):
        if point.memory < below and point.seconds < seconds:
            area += (seconds - point.seconds) * (below - point.memory)
            below = point.memory
    return area
