"""A fleet's training as its board follows it, updated by each event."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from workbench.multimodel import training_events as events
from workbench.multimodel.fleet import Fleet
from workbench.multimodel.fleet_measurement import FleetMeasurement
from workbench.multimodel.unit_schedule import ScheduledUnit
from workbench.reports.run_events import Cancelled, Failed, Progress
from workbench.units import format_seconds
from workbench.widgets.run.job_progress import Log, append_message

DONE_BEFORE = "All models were trained in an earlier run."
PREPARED = {"cutting": "cut", "compiling": "compiled"}  # state of a model once the next one is being prepared
MOST_LOSSES = 20_000  # losses of one model; beyond that every second one is dropped
Row = list[Any]
"""`[model, unit, device, start, end]` of a unit for drawing; after a run also whether it was lost with its device."""


@dataclass
class ModelProgress:
    """One model of a run: `done` of `of` units, `whole` if it is not stopped; losses by mini-batch, from 0.

    - `resumed_units`: units done by its checkpoint; `failed`: its data raised; `stopping`: stopped by the user before
      its last mini-batch;
    - `preparing`: `cutting`, `cut`, `compiling` or `compiled`, before the run.
    """

    name: str
    mini_batches: int
    whole: int = 0
    of: int = 0
    done: int = 0
    resumed_units: int = 0
    stopping: bool = False
    failed: bool = False
    preparing: str = ""
    losses: list[tuple[int, float]] = field(default_factory=list)

    @property
    def length(self) -> int:
        return max(1, self.whole // self.mini_batches)

    @property
    def batches(self) -> int:
        return self.done // self.length

    @property
    def ended(self) -> bool:
        """Whether all its units are done; a model stopped before it began has none."""
        return bool(self.whole) and self.done >= self.of

    @property
    def goes_on(self) -> bool:
        """Whether a run from the same checkpoint would continue this stopped model."""
        return self.stopping and self.ended and self.of < self.whole and not self.failed

    def state(self, *, running: bool) -> str:
        if self.failed:
            return "failed"
        if self.ended:
            return "stopped" if self.of < self.whole else "finished"
        if not running:
            return "interrupted" if self.done else "waiting"
        return "stopping" if self.stopping else "running" if self.done > self.resumed_units else self.preparing or "waiting"

    @property
    def sound(self) -> bool:
        return not self.losses or isfinite(self.losses[-1][1])

    def hear(self, loss: float, at: int) -> None:
        self.losses.append((at, loss))
        if len(self.losses) > MOST_LOSSES:
            del self.losses[1::2]


@dataclass
class TrainingProgress:
    """One training. `phase`: `idle`, `running`, `done`, `error`, `cancelled`; times are seconds of one clock."""

    fleet: Fleet | None = None
    phase: str = "idle"
    stage: str = ""
    message: str = ""
    started: float = 0.0
    now: float = 0.0
    devices: int = 0
    scheduled: bool = False
    measured: list[Row] = field(default_factory=list)
    models: dict[str, ModelProgress] = field(default_factory=dict)
    away: set[int] = field(default_factory=set)
    measurement: FleetMeasurement | None = None
    log: Log = ()

    @classmethod
    def begin(cls, fleet: Fleet, now: float) -> "TrainingProgress":
        models = {model.name: ModelProgress(model.name, model.mini_batches * model.epochs) for model in fleet.models}
        return cls(fleet, "running", "starting", started=now, now=now, models=models)

    @property
    def running(self) -> bool:
        return self.phase == "running"

    @property
    def fraction(self) -> float:
        """Share of all units that have run."""
        return sum(model.done for model in self.models.values()) / max(1, sum(model.of for model in self.models.values()))

    def hear(self, event: events.TrainingEvent, now: float) -> None:
        self.now = now
        match event:
            case Progress(stage=stage, model=model):
                self.stage = stage
                self._prepare(model, stage)
                self._note(stage)
            case events.SchedulePredicted():
                self._begin_schedule(event)
            case events.UnitDone():
                self._unit(event)
            case events.ModelFailed():
                self._fail_model(event)
            case events.CheckpointNotice(message=message):
                self._note(message, "warn")
            case events.CommandDone():
                self._command_done(event)
            case events.CommandRefused():
                self._command_refused(event)
            case events.TrainingDone(measurement=measurement):
                self._done(measurement)
            case Failed():
                self._end("error", event.text, "bad")
            case Cancelled():
                self._end("cancelled", self._cancellation_text(), "warn")

    def _prepare(self, name: str, stage: str) -> None:
        for model in self.models.values():
            if model.name != name:
                model.preparing = PREPARED.get(model.preparing, model.preparing)
        if name in self.models:
            self.models[name].preparing = "cutting" if stage.startswith("cutting") else "compiling"

    def _begin_schedule(self, event: events.SchedulePredicted) -> None:
        self.devices, self.scheduled = event.devices, True
        resumed_units = dict(zip(event.names, event.resumed_units, strict=False))
        counts = dict(zip(event.names, event.unit_counts, strict=False))
        for name, job in zip(event.names, event.times.jobs, strict=True):
            model = self.models.setdefault(name, ModelProgress(name, job.mini_batches * job.epochs))
            if not model.whole:  # sent again whenever a model joins
                model.whole = job.length
                model.of = counts.get(name, model.whole)  # an earlier run may have stopped it
                model.done = model.resumed_units = resumed_units.get(name, 0)
                model.preparing = ""
                if model.done >= model.of:
                    self._note(f"`{name}` is {model.state(running=True)} from an earlier run")

    def _unit(self, event: events.UnitDone) -> None:
        model = self.models[event.model]
        if model.done == model.resumed_units:
            self._note(f"`{model.name}` has begun" if event.done == 1 else f"`{model.name}` goes on after {event.done - 1:,} units")
        model.done, model.of = event.done, event.of
        self.measured.append(_row(event.placed))
        if event.loss is not None:
            self._loss(model, event.loss, event.placed.unit // model.length)
        if model.done >= model.of and not model.failed:
            model.stopping = model.stopping and not event.ended  # a model ended by its loss stays ended in the next run
            self._note(f"`{model.name}` {self._ending_text(model, event.ended)}", "good")

    def _loss(self, model: ModelProgress, loss: float, at: int) -> None:
        if model.sound and not isfinite(loss):
            self._note(f"`{model.name}`: the loss of mini-batch {at + 1:,} is {loss:g}", "bad")
        model.hear(loss, at)

    def _ending_text(self, model: ModelProgress, ended: str = "") -> str:
        return f"has {ended}" if ended else f"is {model.state(running=True)}{self.warning(model)}"

    def warning(self, model: ModelProgress) -> str:
        """Return a warning for a stopped model whose checkpoint does not record the stop."""
        return "; Run continues it" if model.goes_on and self.fleet and self.fleet.folder else ""

    def _fail_model(self, event: events.ModelFailed) -> None:
        model = self.models[event.model]
        model.failed, model.of = True, event.of
        self._note(event.message, "bad")

    def _command_done(self, event: events.CommandDone) -> None:
        match event.command:
            case events.AddModel(model=name):
                self._note(f"`{name}` joins")
            case events.StopModel(model=name):
                self._stop_model(self.models[name], event.of)
            case events.RemoveDevice(device=number):
                self.away = self.away | {number}
                self._note(f"device {number} no longer accepts units")
            case events.ReturnDevice(device=number):
                self.away = self.away - {number}
                self._note(f"device {number} is back")

    def _stop_model(self, model: ModelProgress, of: int | None) -> None:
        model.stopping, model.of = True, model.of if of is None else of
        ends = self._ending_text(model) if model.ended else "stops after the current mini-batch"
        self._note(f"`{model.name}` {ends}")

    def _command_refused(self, event: events.CommandRefused) -> None:
        self._note(event.message, "warn")
        if isinstance(event.command, events.AddModel):
            self._without({event.command.model} - {model.name for model in self.models.values() if model.whole})

    def _without(self, names: AbstractSet[str]) -> None:
        """Remove models that failed to join; the engine's next model takes their index."""
        if self.fleet and names & self.models.keys():
            self.models = {name: model for name, model in self.models.items() if name not in names}
            self.fleet = self.fleet.updated(models=tuple(model for model in self.fleet.models if model.name not in names))

    def _done(self, measured: FleetMeasurement) -> None:
        self.phase, self.measurement, self.devices = "done", measured, measured.schedule.devices
        late = [name for name in self.models if name not in measured.names]
        self._without(set(late))
        for name in late:
            self._note(f"`{name}` was added too late: the run has ended", "warn")
        self._note(f"done in {format_seconds(measured.schedule.makespan)}" if measured.schedule.placed else DONE_BEFORE, "good")
        self.measured = [[*_row(unit), unit.lost] for unit in measured.schedule.placed]
        for name, losses in measured.losses.items():
            self.models[name].losses = list(enumerate(losses))
            self.models[name].done = max(self.models[name].done, self.models[name].of)

    def _end(self, phase: str, message: str, tone: str) -> None:
        self.phase, self.message = phase, message
        self._note(message, tone)

    def _cancellation_text(self) -> str:
        folder = self.fleet.folder if self.fleet else None
        continuation = (
            f"Run continues from the checkpoint in {folder}." if folder else "The fleet has no checkpoint folder: Run starts over."
        )
        return f"Cancelled. {continuation}"

    def _note(self, text: str, tone: str = "") -> None:
        self.log = append_message(self.log, self.now - self.started, text, tone)


def _row(placed: ScheduledUnit) -> Row:
    return [placed.model, placed.unit, placed.device, placed.start, placed.end]
