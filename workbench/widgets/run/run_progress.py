"""Runs as the board sees them: a value that each event updates, and the results of earlier ones, by plan."""

from dataclasses import dataclass, replace

from workbench.plan.plan import Plan
from workbench.reports.measurement import Measurement
from workbench.reports.report import Report
from workbench.reports.run_events import Cancelled, Failed, Progress, RunDone, RunEvent, StepDone, Waiting
from workbench.units import format_seconds
from workbench.widgets.run.messages import Log, append_message, waiting_text

MOST_STEPS = 10_000
MOST_KEPT = 8


@dataclass(frozen=True, slots=True)
class Live:
    """The state of a run.

    `phase`: `idle`, `running`, `done`, `error`, `cancelled`; `waits` while others come first; `report` the prediction of the plan that
    runs; `started` (when it was requested), `turn` (when it stopped waiting) and `now` are seconds of one clock; `log` has the worker's
    messages; `ran` are the last finished runs, one per plan, the newest first.
    """

    phase: str = "idle"
    steps: int = 20
    stage: str = ""
    fraction: float = 0.0
    seconds: tuple[float, ...] = ()
    losses: tuple[float, ...] = ()
    message: str = ""
    measurement: Measurement | None = None
    report: Report | None = None
    colours: tuple[tuple[str, int], ...] = ()
    started: float = 0.0
    turn: float = 0.0
    now: float = 0.0
    waits: bool = False
    log: Log = ()
    ran: tuple["Live", ...] = ()

    @property
    def running(self) -> bool:
        return self.phase == "running"

    @property
    def plan(self) -> Plan | None:
        return self.report.plan if self.report else None

    def begin(self, report: Report, steps: int, colours: dict[str, int], now: float = 0.0) -> "Live":
        """A new run; earlier ones are kept."""
        log = append_message((), 0.0, f"{steps} steps of {report.plan}")
        return Live(
            "running",
            steps,
            "starting",
            report=report,
            colours=tuple(colours.items()),
            started=now,
            turn=now,
            now=now,
            log=log,
            ran=self.ran,
        )

    def refuse(self, report: Report, message: str) -> "Live":
        """The request cannot be run."""
        return Live("error", self.steps, message=message, report=report, ran=self.ran)

    def after(self, event: RunEvent, now: float = 0.0) -> "Live":
        """The run after one event."""
        following = replace(self, now=now, waits=False, turn=now if self.waits else self.turn)
        match event:
            case Waiting(ahead=ahead):
                stage = waiting_text(ahead)
                return replace(following.noting(stage), stage=stage, waits=True)
            case Progress(stage=stage, fraction=fraction):
                return replace(following.noting(stage), stage=stage, fraction=fraction)
            case StepDone():
                return following.record_step(event)
            case RunDone(measurement=measurement):
                return following.finish(measurement)
            case Failed():
                return replace(following.noting(event.text, "bad"), phase="error", message=event.text)
            case Cancelled():
                return replace(following.noting("cancelled", "warn"), phase="cancelled", message="Cancelled.")
        return following

    def of(self, plan: Plan) -> "Live | None":
        """The finished run of a plan."""
        return next((each for each in self.ran if each.plan and same_step(each.plan, plan)), None)

    def run_to_show(self, plan: Plan) -> "Live | None":
        """The finished run of a plan, or else the last one of all."""
        return self.of(plan) or (self.ran[0] if self.ran else None)

    def noting(self, text: str, tone: str = "") -> "Live":
        return replace(self, log=append_message(self.log, self.now - self.started, text, tone))

    def record_step(self, event: StepDone) -> "Live":
        losses = self.losses if event.loss is None else (*self.losses, event.loss)
        following = self.noting(f"first step: {format_seconds(event.seconds)}") if event.step == 1 else self
        stage, fraction = f"step {event.step} of {event.of}", event.step / max(event.of, 1)
        return replace(following, stage=stage, fraction=fraction, seconds=(*self.seconds, event.seconds), losses=losses)

    def finish(self, measured: Measurement) -> "Live":
        following = self.noting(measured.why_untraced, "warn") if measured.why_untraced else self
        following = following.noting(
            f"done: {format_seconds(measured.median_seconds)} a step (median of {len(measured.step_seconds)})", "good"
        )
        done = replace(following, phase="done", fraction=1.0, measurement=measured, ran=())
        others = (each for each in self.ran if not (each.plan and self.plan and same_step(each.plan, self.plan)))
        return replace(done, ran=(done, *others)[:MOST_KEPT])


def same_step(one: Plan, other: Plan) -> bool:
    """Whether two plans have the same step: a run does not depend on the hardware that a plan names."""
    return (one.program, one.mesh, one.layout, one.pipeline) == (other.program, other.mesh, other.layout, other.pipeline)
