"""Runs of a board: an immutable value, replaced on each event, with earlier results by plan."""

from dataclasses import dataclass, replace

from workbench.analysis.analyze import analyze
from workbench.hardware.catalogue import is_device_kind
from workbench.plan.plan import Plan
from workbench.reports.measurement import Measurement
from workbench.reports.report import Report
from workbench.reports.run_events import RunDone, RunEvent, StepDone
from workbench.units import format_seconds
from workbench.widgets.run.job_progress import MOST_KEPT, JobProgress

MOST_STEPS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress(JobProgress):
    """A run of `steps` steps: `seconds` and `losses` of the steps done, the final `measurement`.

    `ran_as` is the prediction for the run's devices, `report` that for the plan's; `ran` are finished runs, one per
    plan, newest first.
    """

    steps: int = 20
    seconds: tuple[float, ...] = ()
    losses: tuple[float, ...] = ()
    measurement: Measurement | None = None
    ran_as: Report | None = None
    colours: tuple[tuple[str, int], ...] = ()
    ran: tuple["RunProgress", ...] = ()

    @property
    def plan(self) -> Plan | None:
        return self.report.plan if self.report else None

    def begin(self, report: Report, steps: int, colours: dict[str, int], now: float = 0.0) -> "RunProgress":
        begun = self.begun(report, f"{steps} steps of {report.plan}", now)
        return replace(begun, steps=steps, colours=tuple(colours.items()), ran=self.ran)

    def refuse(self, report: Report, message: str) -> "RunProgress":
        return type(self)(phase="error", steps=self.steps, message=message, report=report, ran=self.ran)

    def after(self, event: RunEvent, now: float = 0.0) -> "RunProgress":
        following = JobProgress.after(self, event, now)  # `super()` does not know a class with slots
        match event:
            case StepDone():
                return following.record_step(event)
            case RunDone(measurement=measurement):
                return following.finish(measurement)
        return following

    def of(self, plan: Plan) -> "RunProgress | None":
        return next((run for run in self.ran if run.plan and same_step(run.plan, plan)), None)

    def run_to_show(self, plan: Plan) -> "RunProgress | None":
        """Return the finished run of a plan, else the latest run of any plan."""
        return self.of(plan) or (self.ran[0] if self.ran else None)

    def with_finished(self, run: "RunProgress") -> "RunProgress":
        """Add a run that another board of the same session has finished."""
        others = (other for other in self.ran if not (other.plan and run.plan and same_step(other.plan, run.plan)))
        return replace(self, ran=(replace(run, ran=()), *others)[:MOST_KEPT])

    def record_step(self, event: StepDone) -> "RunProgress":
        losses = self.losses if event.loss is None else (*self.losses, event.loss)
        following = self.noting(f"first step: {format_seconds(event.seconds)}") if event.step == 1 else self
        stage, fraction = f"step {event.step} of {event.of}", event.step / max(event.of, 1)
        return replace(following, stage=stage, fraction=fraction, seconds=(*self.seconds, event.seconds), losses=losses)

    def finish(self, measured: Measurement) -> "RunProgress":
        following = self.noting(measured.why_untraced, "warn") if measured.why_untraced else self
        following = following.noting(
            f"done: {format_seconds(measured.median_seconds)} a step (median of {len(measured.step_seconds)})", "good"
        )
        ran_as = self.report and _predict_where_run(self.report, measured)
        done = replace(following, phase="done", fraction=1.0, measurement=measured, ran_as=ran_as, ran=())
        others = (run for run in self.ran if not (run.plan and self.plan and same_step(run.plan, self.plan)))
        return replace(done, ran=(done, *others)[:MOST_KEPT])


def same_step(one: Plan, other: Plan) -> bool:
    """Whether two plans have the same step; a run does not depend on the named hardware."""
    return (one.program, one.mesh, one.layout, one.pipeline) == (other.program, other.mesh, other.layout, other.pipeline)


def on_these_devices(plan: Plan, measured: Measurement) -> bool:
    """Whether a run used the kind of device that the plan names; times on CPUs do not predict times on TPUs."""
    return plan.hardware is None or is_device_kind(plan.hardware, measured.device_kind)


def _predict_where_run(report: Report, measured: Measurement) -> Report:
    """Return the prediction for the devices of a run, or the plan's own report if they match or are unknown."""
    if measured.hardware is None or on_these_devices(report.plan, measured):
        return report
    return analyze(report.plan.updated(hardware=measured.hardware, axis_assignment=None)).prediction
