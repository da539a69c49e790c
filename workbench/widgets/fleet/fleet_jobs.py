"""Jobs of a fleet's board: at most one training and one timing, in the runner's processes."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from workbench.errors import WorkbenchError
from workbench.multimodel.fleet import Fleet, FleetModel
from workbench.multimodel.fleet_forecast import count_devices
from workbench.multimodel.fleet_measurement import FleetTimes
from workbench.multimodel.training_events import (
    AddModel,
    FleetCommand,
    SchedulePredicted,
    TimingDone,
    TrainingEvent,
    TrainingListener,
    UnitDone,
)
from workbench.reports.run_events import Cancelled, Failed, Progress
from workbench.widgets.fleet.training_progress import ModelProgress, TrainingProgress
from workbench.widgets.run.runner_protocol import RunHandle

# The protocol of a runner, which trains a fleet for its board and times its units.


class FleetHandle(RunHandle, Protocol):
    """A training in progress."""

    def send(self, command: FleetCommand) -> None:
        """Send a command, which is answered by an event."""
        ...


class FleetRunner(Protocol):
    """Starts work without blocking. Events, as those of `engine.start_fleet`, may come from another thread."""

    def train(self, fleet: Fleet, on_event: TrainingListener) -> FleetHandle:
        """Train the models; the last event holds a `FleetMeasurement`."""
        ...

    def add_model_command(self, model: FleetModel) -> AddModel:
        """Build the command that adds a model; raises `EngineError` if it cannot be sent."""
        ...

    def time(self, fleet: Fleet, on_event: TrainingListener) -> RunHandle:
        """Partition the models and time their units; the last event holds `FleetTimes`."""
        ...


News = Literal["unit", "run", "timing", "times", "fleet", "expected"]
"""Kinds of news: units ran, a run began or ended, a timing changed, new times, a failed join, a new expectation."""

Changed = Callable[[News], None]

_EVERY = 0.2  # seconds between two published states of a run
_PER_UNIT = 1e-4  # additional seconds per finished unit, because long lists take longer to send and draw


@dataclass(slots=True)
class Timing:
    """State of a timing of units; `phase` as for a run."""

    phase: str = "idle"
    stage: str = ""
    message: str = ""

    @property
    def running(self) -> bool:
        return self.phase == "running"


class FleetWork:
    """Starts, cancels and follows a training and a timing; `changed(news)` is called from any thread."""

    def __init__(self, runner: FleetRunner | None, changed: Changed) -> None:
        self._runner, self._changed = runner, changed
        self.lock = threading.RLock()
        self.live, self.timing = TrainingProgress(), Timing()
        self.timed: tuple[FleetTimes, ...] = ()
        self.attached: int | None = None  # number of devices of a run, if it differs from the planned one
        self._run: FleetHandle | None = None
        self._timer: RunHandle | None = None
        self._shown, self._late = 0.0, False

    @property
    def can_run(self) -> bool:
        return self._runner is not None

    @property
    def done_already(self) -> bool:
        """Whether the last run left nothing to do and its checkpoints still exist."""
        fleet, models = self.live.fleet, self.live.models.values()
        if self.live.phase != "done" or fleet is None or fleet.folder is None:
            return False
        has_checkpoints = all((fleet.folder / model.name).exists() for model in fleet.models)
        return has_checkpoints and all(model.ended and not model.goes_on and not model.failed for model in models)

    def train(self, fleet: Fleet) -> None:
        """Start a training unless one is running; a running timing is cancelled, since a training times its own units."""
        with self.lock:
            if self.live.running or self._runner is None:
                return
            self.cancel_timing()
            live = self.live = TrainingProgress.begin(fleet, time.monotonic())
        self._changed("run")
        try:
            self._run = self._runner.train(fleet, lambda event: self._receive(live, event))
        except WorkbenchError as error:
            self._receive(live, Failed.of(error))

    def time(self, fleet: Fleet) -> None:
        """Start a timing unless a training or a timing is running, which it would disturb."""
        with self.lock:
            if self.timing.running or self.live.running or self._runner is None:
                return
            timing = self.timing = Timing("running", "starting")
        self._changed("timing")
        try:
            self._timer = self._runner.time(fleet, lambda event: self._receive_timing_event(timing, fleet, event))
        except WorkbenchError as error:
            self._receive_timing_event(timing, fleet, Failed.of(error))

    def send(self, command: FleetCommand) -> None:
        if self._run is not None and self.live.running:
            self._run.send(command)

    def add_model_commands(self, models: Sequence[FleetModel]) -> list[AddModel]:
        return [self._runner.add_model_command(model) for model in models] if self._runner is not None else []

    def join(self, models: Sequence[FleetModel], commands: Sequence[AddModel]) -> None:
        with self.lock:
            if not self.live.running or self.live.fleet is None or self._run is None:
                return
            self.live.fleet = self.live.fleet.updated(models=(*self.live.fleet.models, *models))
            for model in models:
                self.live.models[model.name] = ModelProgress(model.name, model.mini_batches * model.epochs)
        for command in commands:
            self._run.send(command)

    def cancel(self) -> None:
        if self._run is not None and self.live.running:
            self._run.cancel()

    def cancel_timing(self) -> None:
        if self._timer is not None and self.timing.running:
            self._timer.cancel()

    def _receive(self, live: TrainingProgress, event: TrainingEvent) -> None:
        with self.lock:
            if not live.running:
                return
            before = live.fleet
            live.hear(event, time.monotonic())
            other: News = "fleet" if live.running and live.fleet is not before else "run"
            times = self._take_times(live, event.times) if isinstance(event, SchedulePredicted) else None
            self.timed = self.timed if times is None else (times, *self.timed)
            soon = live.running and isinstance(event, UnitDone | Progress)
            wait = self._shown + _EVERY + _PER_UNIT * len(live.measured) - time.monotonic()
            if soon and wait > 0:
                self._look_again(wait)
                return
            self._shown = time.monotonic()
        self._changed("times" if times else "unit" if soon else other)

    def _take_times(self, live: TrainingProgress, times: FleetTimes) -> FleetTimes:
        """Return the times of a run, and record its number of devices if it differs from the planned one."""
        if live.fleet is None:
            return times
        self.attached = live.devices if live.devices != count_devices(live.fleet) else None
        return times.for_models(live.fleet.models)

    def _look_again(self, wait: float) -> None:
        if not self._late:
            self._late = True
            timer = threading.Timer(wait, self._look)
            timer.daemon = True
            timer.start()

    def _look(self) -> None:
        with self.lock:
            self._late = False
            if not self.live.running:
                return
            self._shown = time.monotonic()
        self._changed("unit")

    def _receive_timing_event(self, timing: Timing, fleet: Fleet, event: TrainingEvent) -> None:
        with self.lock:
            if not timing.running:
                return
            match event:
                case Progress(stage=stage):
                    timing.stage = stage
                case TimingDone(times=times):
                    timing.phase = "done"
                    self.timed = (times.for_models(fleet.models), *self.timed)
                case Failed():
                    timing.phase, timing.message = "error", event.text
                case Cancelled():
                    timing.phase = "cancelled"
        self._changed("times" if timing.phase == "done" else "timing")
