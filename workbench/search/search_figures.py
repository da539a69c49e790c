"""The figures of a plan that a search compares, the planner's own, as the board shows them; and which plans no other beats in all of
them."""

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
"""Operations of a device a second where no hardware is chosen."""
NOMINAL_SECONDS = "Without hardware one second stands for 10¹² operations and communication is free: compare plans only."
HOUR = 3600.0

StepParts = tuple[tuple[str, float], ...]
"""Parts of a step in words with their seconds, which add up to it."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Seconds of a step, peak bytes of the fullest device, devices, and dollars of 1,000 steps (`None`: no price is known).

    `parts` of the step are known of a plan on hardware, not of bounds; `mfu`, its model FLOPs utilisation, of one program on hardware.
    """

    seconds: float
    memory: float
    devices: int = 0
    dollars: float | None = None
    parts: StepParts = field(default=(), compare=False, repr=False)
    mfu: float | None = field(default=None, compare=False, repr=False)

    def with_seconds(self, seconds: float) -> "Figures":
        """The same with another step time, of unknown parts."""
        dollars = None if self.dollars is None else (self.dollars * seconds / self.seconds if self.seconds else 0.0)
        mfu = self.mfu * self.seconds / seconds if self.mfu and seconds else None
        return replace(self, seconds=seconds, dollars=dollars, parts=(), mfu=mfu)

    def dominates(self, other: "Figures", slack: float = 0.0) -> bool:
        """Whether it is no worse in any figure, or worse by a share `slack` at most. Dollars follow from the others.

        >>> Figures(1.0, 8, 4).dominates(Figures(1.0, 9, 4)), Figures(1.0, 8, 8).dominates(Figures(1.0, 9, 4))
        (True, False)
        """
        limit = 1 + slack
        return self.seconds <= other.seconds * limit and self.memory <= other.memory * limit and self.devices <= other.devices


def figures_on(
    hardware: Hardware | None, seconds: float, memory: float, devices: int, parts: StepParts = (), mfu: float | None = None
) -> Figures:
    """Figures with what 1,000 steps cost on this hardware."""
    price = hardware.hourly_price if hardware else None
    return Figures(seconds, memory, devices, None if price is None else price * seconds * 1000 / HOUR, parts, mfu)


def evaluate_plan(plan: Plan) -> Figures:
    """Plan it, whole or in its stages. Raises `WorkbenchError` where it is refused, or keeps more on the host than that has.

    Without hardware seconds are nominal: one for each 10^12 operations of a device.
    """
    if plan.pipeline is not None:
        return _figures_of_pipeline(plan, pipeline_report(plan))
    found = estimate(plan)
    if plan.hardware is not None and 0 < plan.hardware.chip.host_memory < found.memory.host:
        ways_out = ["keep activations on the devices, remat `dots_no_batch`"] if plan.program.remat.uses_host else []
        ways_out += ["keep it on the devices, offload `nothing`"] if plan.program.on_host or not ways_out else []
        raise SearchError(over_host_memory_text(found.memory.host, plan.hardware.chip), ways_out)
    return _figures_of_step(plan, found.step_time, found.flops.per_device, found.memory.peak)


def planned_figures(plan: Plan, figures: Figures) -> TierFigures:
    """The figures of a plan as a tier; without hardware no seconds, which are nominal then."""
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
    """On average over the stages' devices."""
    step = staged.simulated
    idle = step.bubble * step.makespan
    parts = (("work of the stages", step.makespan - idle), ("bubble", idle), ("update", step.seconds - step.makespan))
    return tuple((name, seconds) for name, seconds in parts if seconds > 0)


def figures_text(figures: Figures) -> str:
    """`6.02 s, 34.8 GiB`, with the dollars of 1,000 steps where a price is known."""
    dollars = "" if figures.dollars is None else f", {format_dollars(figures.dollars)} for 1,000 steps"
    return f"{format_seconds(figures.seconds)}, {format_bytes(int(figures.memory))}{dollars}"


# The plans that no other found plan beats in every figure.

Item = TypeVar("Item")


@dataclass(frozen=True)
class ParetoFront(Generic[Item]):
    """Items with their figures, none dominated by another, the fastest first. A change is a new front.

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
        """The front with another item, if nothing on it is as good; of equals the first stays."""
        if self.beats(figures):
            return self
        kept = [(each, other) for each, other in self.entries if not figures.dominates(other)]
        return ParetoFront(tuple(sorted((*kept, (item, figures)), key=lambda entry: (entry[1].seconds, entry[1].memory))))

    def beats(self, figures: Figures, slack: float = 0.0) -> bool:
        """Whether an item is as good as these figures or bounds in each of them, or within a share `slack`."""
        return any(each.dominates(figures, slack) for _, each in self.entries)


def hypervolume(front: Iterable[Figures], reference: tuple[float, float]) -> float:
    """The area of (seconds, bytes) that a front dominates, up to a reference point that is worse than all of it.

    >>> hypervolume([Figures(1.0, 2), Figures(2.0, 1)], (3.0, 3.0))
    3.0
    """
    seconds, memory = reference
    area, below = 0.0, memory
    for each in sorted(front, key=lambda figures: (figures.seconds, figures.memory)):
        if each.memory < below and each.seconds < seconds:
            area += (seconds - each.seconds) * (below - each.memory)
            below = each.memory
    return area
