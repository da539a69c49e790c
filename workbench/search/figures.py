"""The figures of a plan that a search compares: the planner's own, as the board shows them."""

from dataclasses import dataclass

from workbench.cost.estimate import estimate
from workbench.pipeline.pipeline_report import pipeline_report
from workbench.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class Figures:
    """Seconds of a step, peak bytes of the fullest device, devices, and dollars an hour of all of them (`None`: not known)."""

    seconds: float
    memory: int
    devices: int
    hourly_cost: float | None = None

    def dominates(self, other: "Figures") -> bool:
        """Whether it is no worse in any figure.

        >>> Figures(1.0, 8, 4).dominates(Figures(1.0, 9, 4)), Figures(1.0, 8, 8).dominates(Figures(1.0, 9, 4))
        (True, False)
        """
        return self.seconds <= other.seconds and self.memory <= other.memory and self.devices <= other.devices


def evaluate_plan(plan: Plan) -> Figures:
    """Plan it, whole or in its stages. Raises `WorkbenchError` where it is refused.

    Without hardware seconds are nominal: one for each 10^12 operations of a device.
    """
    if plan.pipeline is not None:
        staged = pipeline_report(plan)
        return Figures(staged.seconds, max(staged.simulated.peaks), plan.mesh.size)
    found = estimate(plan)
    seconds = found.step_time.total if found.step_time else found.flops.per_device / 1e12
    return Figures(seconds, found.memory.peak, plan.mesh.size)
