"""The figures of a plan that a search compares: the planner's own, as the board shows them."""

from dataclasses import dataclass, replace

from workbench.cost.estimate import estimate
from workbench.hardware.hardware import Hardware
from workbench.pipeline.pipeline_report import pipeline_report
from workbench.plan.plan import Plan

NOMINAL = 1e12
"""Operations of a device a second where no hardware is chosen."""
HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Figures:
    """Seconds of a step, peak bytes of the fullest device, devices, and dollars of 1,000 steps (`None`: no price is known)."""

    seconds: float
    memory: float
    devices: int = 0
    dollars: float | None = None

    def with_seconds(self, seconds: float) -> "Figures":
        """The same with another step time."""
        dollars = None if self.dollars is None else (self.dollars * seconds / self.seconds if self.seconds else 0.0)
        return replace(self, seconds=seconds, dollars=dollars)

    def dominates(self, other: "Figures", slack: float = 0.0) -> bool:
        """Whether it is no worse in any figure, or worse by a share `slack` at most. Dollars follow from the others.

        >>> Figures(1.0, 8, 4).dominates(Figures(1.0, 9, 4)), Figures(1.0, 8, 8).dominates(Figures(1.0, 9, 4))
        (True, False)
        """
        limit = 1 + slack
        return self.seconds <= other.seconds * limit and self.memory <= other.memory * limit and self.devices <= other.devices


def figures_on(hardware: Hardware | None, seconds: float, memory: float, devices: int) -> Figures:
    """Figures with what 1,000 steps cost on this hardware."""
    price = hardware.hourly_price if hardware else None
    return Figures(seconds, memory, devices, None if price is None else price * seconds * 1000 / HOUR)


def evaluate_plan(plan: Plan) -> Figures:
    """Plan it, whole or in its stages. Raises `WorkbenchError` where it is refused.

    Without hardware seconds are nominal: one for each 10^12 operations of a device.
    """
    if plan.pipeline is not None:
        staged = pipeline_report(plan)
        return figures_on(plan.hardware, staged.seconds, max(staged.simulated.peaks), plan.mesh.size)
    found = estimate(plan)
    seconds = found.step_time.total if found.step_time else found.flops.per_device / NOMINAL
    return figures_on(plan.hardware, seconds, found.memory.peak, plan.mesh.size)
