"""Events of a run, a compilation or a calibration: frozen values that a listener matches by class.

    def listen(event: RunEvent) -> None:
        match event:
            case Progress(stage=stage):
                print(stage)
            case StepDone(step=step, of=of, seconds=seconds):
                print(f"step {step} of {of}: {seconds:.3f} s")
            case Failed():
                print(event.text)

`Waiting`, `Progress` and `StepDone` may come again and again; one of `RUN_ENDINGS` comes last, once.
"""

from collections.abc import Callable
from dataclasses import dataclass

from workbench.errors import WorkbenchError
from workbench.hardware.hardware import Hardware
from workbench.reports.compiled import Compiled
from workbench.reports.measurement import Measurement


@dataclass(frozen=True)
class Waiting:
    """So many other jobs come first (`app.runners.queued_runner`)."""

    ahead: int


@dataclass(frozen=True)
class Progress:
    """A stage has begun or goes on; `fraction` of all work is done, from 0 to 1.

    - `elapsed`: seconds of the stage so far, `None` where they are not counted;
    - `model`: the model of a fleet that the stage is about, if it is about one.
    """

    stage: str
    fraction: float = 0.0
    elapsed: float | None = None
    model: str = ""


@dataclass(frozen=True)
class StepDone:
    """A step after warm-up has been run: number `step` of `of`, from 1; `loss` is `None` for a program without one."""

    step: int
    of: int
    seconds: float
    loss: float | None = None


@dataclass(frozen=True)
class RunDone:
    """The run has ended with what it measured."""

    measurement: Measurement


@dataclass(frozen=True)
class CompileDone:
    """The compilation has ended with what the compiler made."""

    compiled: Compiled


@dataclass(frozen=True)
class CalibrationDone:
    """The calibration has ended with what the devices were measured to be."""

    hardware: Hardware


@dataclass(frozen=True)
class Failed:
    """The job has ended without a result: what happened, and what to try."""

    message: str
    ways_out: tuple[str, ...] = ()

    @classmethod
    def of(cls, error: WorkbenchError) -> "Failed":
        """The event for this error."""
        return cls(error.message, error.ways_out)

    @property
    def text(self) -> str:
        """The message with its ways out, as a page or a terminal shows it."""
        return str(WorkbenchError(self.message, self.ways_out))


@dataclass(frozen=True)
class Cancelled:
    """The job was ended on request."""


RunEvent = Waiting | Progress | StepDone | RunDone | CompileDone | CalibrationDone | Failed | Cancelled
RunListener = Callable[[RunEvent], None]

RUN_EVENTS = {
    "waiting": Waiting,
    "progress": Progress,
    "step": StepDone,
    "run done": RunDone,
    "compile done": CompileDone,
    "calibration done": CalibrationDone,
    "failed": Failed,
    "cancelled": Cancelled,
}
"""Each member of `RunEvent`, by its kind on the wire between processes."""

RUN_ENDINGS = (RunDone, CompileDone, CalibrationDone, Failed, Cancelled)
"""One of these ends a job."""
