"""`workbench fleet`: train many models at once, including models added to the file during training, or simulate it from
units timed here.
"""

import argparse
import json
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any, Protocol

from workbench import engine
from workbench.cli.catalogue_command import use_hardware_file
from workbench.cli.plan_arguments import hardware_of
from workbench.cli.shared_arguments import allowed_modules
from workbench.documents import fleet_record, load_fleet, simulation_record
from workbench.engine import add_model_command
from workbench.errors import FleetError, WorkbenchError
from workbench.multimodel import ALL_POLICIES, FleetSchedule, ScheduledUnit, policy_named, training_events
from workbench.multimodel import simulate as simulate_jobs
from workbench.multimodel.fleet import Fleet
from workbench.multimodel.fleet_forecast import count_devices, plan_times
from workbench.multimodel.fleet_measurement import FleetTimes
from workbench.multimodel.fleet_text import measurement_text, simulation_text
from workbench.multimodel.running_forecast import predict_rest
from workbench.multimodel.unit_chains import verify_devices
from workbench.reports.run_events import Progress
from workbench.tracing.jax_backends import force_cpu_backend
from workbench.units import format_seconds, parse_bytes


def run(options: argparse.Namespace) -> None:
    """Train in a worker process. Ctrl-C ends it; with a folder, the next run resumes from its checkpoints."""
    fleet = _fleet(options, **({} if options.policy is None else {"policy": options.policy}))
    progress = _ProgressPrinter(fleet)
    training = engine.start_fleet(fleet, progress)
    follower = Follower(Path(options.file), fleet, training, progress.say, allowed_modules(options)) if options.follow else None
    try:
        measured = training.wait()
    finally:
        if follower:
            follower.end()
    print(json.dumps(fleet_record(measured), indent=1) if options.json else measurement_text(measured))
    if measured.failed:
        names = ", ".join(f"`{name}`" for name in measured.failed)
        count = f"{len(measured.failed)} of {len(measured.names)} models"
        raise FleetError(f"{count} failed: {names}. The others are trained.", ["fix the errors above and run again"])


def simulate(options: argparse.Namespace) -> None:
    """Simulate the policies given on the command line, else that of the file."""
    if options.policy not in (None, "all"):
        policy_named(options.policy)  # before anything is traced
    verify_devices(options.devices or 1)
    fleet = _fleet(options)
    policy_name = options.policy or fleet.policy
    devices = count_devices(fleet)
    verify_devices(devices)
    times = _unit_times(fleet)
    schedules = _schedules(times, devices, fleet, policy_name)
    print(
        json.dumps(simulation_record(times, devices, schedules), indent=1) if options.json else simulation_text(times, devices, schedules)
    )


def _unit_times(fleet: Fleet) -> FleetTimes:
    """Units timed here, or taken from the cost model for given hardware."""
    if fleet.hardware is not None:
        return plan_times(fleet)
    return engine.measure_units(fleet, on_progress=_ProgressPrinter(fleet))


def serve(options: argparse.Namespace, reach: Mapping[str, Any]) -> None:
    """Serve the page of the fleet in a file. Raises `OSError` if the address is not available."""
    from workbench.app.page.fleet_page import serve_fleet

    if options.plan or options.model:
        raise FleetError("A page shows either a plan or a fleet.", ["leave out the plan", "leave out `--fleet`"])
    force_cpu_backend()
    use_hardware_file(options)
    allow, changes = allowed_modules(options), {} if options.hardware is None else {"hardware": hardware_of(options, None)}
    fleet = _with_links(load_fleet(options.fleet, allow, **changes), options)
    opened = {"open_browser": not options.no_open, "unix_socket": options.unix_socket, "path": options.fleet, "allow": allow}
    serve_fleet(fleet, options.port, **opened, **reach)


def _schedules(times: FleetTimes, devices: int, fleet: Fleet, policy_name: str) -> dict[str, FleetSchedule]:
    if policy_name == "exact":
        from workbench.multimodel.optimal_schedule import optimum, prepare_policy  # the solver is a large import

        found = optimum(times.jobs, devices)
        schedule = simulate_jobs(
            times.jobs, devices, prepare_policy(policy_named(fleet.policy), times.jobs, devices), double_buffer=fleet.double_buffer
        )
        return {fleet.policy: schedule, f"exact ({'proven' if found.proven else 'not proven'}, no transfers)": found.schedule}
    policies = ALL_POLICIES if policy_name == "all" else (policy_named(policy_name),)
    return {each.name: simulate_jobs(times.jobs, devices, each, double_buffer=fleet.double_buffer) for each in policies}


def _fleet(options: argparse.Namespace, **changes: Any) -> Fleet:
    """The fleet of the file with the changes of the command line, which are checked before any model is traced."""
    force_cpu_backend()
    use_hardware_file(options)
    if options.hardware is not None:
        changes["hardware"] = hardware_of(options, None)
    if options.devices is not None:
        changes["devices"] = options.devices
    if options.memory is not None:
        changes["memory"] = parse_bytes(options.memory)
        if changes["memory"] is None:
            raise FleetError(f'"{options.memory}" is not an amount of memory.', ['write "2 GiB", "512 MiB" or a number of bytes'])
    if getattr(options, "folder", None):
        changes["folder"] = Path(options.folder).absolute()
    return _with_links(load_fleet(options.file, allowed_modules(options), **changes), options)


def _with_links(fleet: Fleet, options: argparse.Namespace) -> Fleet:
    """Apply `--link` to the hardware of the file; `--hardware` has applied it already."""
    return fleet.updated(hardware=hardware_of(options, fleet.hardware)) if options.link and options.hardware is None else fleet


class _ProgressPrinter:
    """Prints one line per stage, per tenth of all units and per finished model, on stderr."""

    def __init__(self, fleet: Fleet) -> None:
        self._forecast = ShortForecast(fleet)
        self._stage, self._units, self._of = "", 0, 0
        self._losses: dict[str, float] = {}
        self._lengths: dict[str, int] = {}  # units of a mini-batch
        self._failed: set[str] = set()

    def __call__(self, event: training_events.TrainingEvent) -> None:
        self._forecast.hear(event)
        match event:
            case Progress(stage=stage) if stage != self._stage:
                self._stage = stage
                self.say(f"{stage} ...")
            case training_events.SchedulePredicted():
                self._tell_schedule(event)
            case training_events.UnitDone():
                self._unit(event)
            case training_events.ModelFailed(model=model, done=done, message=message):
                self._failed.add(model)
                self.say(f"{message}\n`{model}` has failed after {done:,} units")
            case training_events.CommandRefused(message=message) | training_events.CheckpointNotice(message=message):
                self.say(message)
            case training_events.CommandDone(command=training_events.AddModel(model=model)):
                self.say(f"`{model}` joins")
            case training_events.CommandDone(command=training_events.StopModel(model=model)):
                self.say(f"`{model}` stops after the current mini-batch")

    def _tell_schedule(self, event: training_events.SchedulePredicted) -> None:
        self._of = len(event.predicted)
        self._lengths = {each.name: len(each.units) for each in event.times.jobs}
        before = sum(resumed >= count for resumed, count in zip(event.resumed_units, event.unit_counts, strict=True))
        if before:
            self.say(f"{before:,} of {len(event.names):,} models are done from an earlier run")
        if self._of:
            devices = f"{event.devices} device{'s' * (event.devices != 1)}"
            self.say(f"{self._of:,} units, at least {format_seconds(event.bound)} on {devices}")

    def _unit(self, event: training_events.UnitDone) -> None:
        self._units += 1
        model, loss = event.model, event.loss
        if loss is not None:
            if not isfinite(loss) and isfinite(self._losses.get(model, 0.0)):
                self.say(f"`{model}`: the loss of mini-batch {event.placed.unit // self._lengths[model] + 1} is {loss:g}")
            self._losses[model] = loss
        if event.done == event.of and model not in self._failed:
            ended = f"has {event.ended}" if event.ended else f"is done, loss {self._losses.get(model, float('nan')):.4f}"
            self.say(f"`{model}` {ended}")
        elif self._units % max(1, self._of // 10) == 0:
            self.say(f"unit {self._units:,} of {self._of:,}{self._forecast.text}")

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


# The expected time of a fleet's run, for its lines of progress.

MOST_LEFT = 5_000  # the most units that are simulated for a line of progress


class ShortForecast:
    """Follows the events of a training and forecasts its end."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._times: FleetTimes | None = None
        self._predicted = FleetSchedule(1, ())
        self._last: dict[str, int] = {}
        self._ran: list[ScheduledUnit] = []

    def hear(self, event: training_events.TrainingEvent) -> None:
        match event:
            case training_events.SchedulePredicted(times=times):
                self._times = times
                self._predicted = FleetSchedule(event.devices, event.predicted)
                self._last = {each.name: self._last.get(each.name, each.length) for each in times.jobs}
            case training_events.UnitDone():
                self._ran.append(event.placed)
                self._last[event.model] = event.of

    @property
    def text(self) -> str:
        """The forecast; empty if simulating it takes long. Uses the default policy in place of a solver's order, which
        is not known here.
        """
        if self._times is None or len(self._predicted.placed) - len(self._ran) > MOST_LEFT:
            return ""
        policy = policy_named("sharded-lrtf" if self._fleet.policy == "exact" else self._fleet.policy)
        last = [self._last[each.name] for each in self._times.jobs]
        rest = predict_rest(self._predicted, self._times.jobs, self._ran, last, policy, double_buffer=self._fleet.double_buffer)
        return f", {format_seconds(rest.makespan)} in all by the current forecast"


# Follow changes of a fleet file during training: models added to it join the run, removed ones stop.

EVERY = 0.5  # seconds


class AcceptsCommands(Protocol):
    def send(self, command: training_events.FleetCommand) -> None: ...


@dataclass
class Follower:
    """Reads the file repeatedly. A file that cannot be read, for example during an edit, is reported once and changes
    nothing.
    """

    path: Path
    fleet: Fleet
    training: AcceptsCommands
    say: Callable[[str], None]
    allow: tuple[str, ...] = ()
    _seen: float = field(init=False)
    _names: set[str] = field(init=False)
    _over: threading.Event = field(init=False, default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._seen = self._changed_at()
        self._names = {each.name for each in self.fleet.models}
        threading.Thread(target=self._follow, daemon=True).start()

    def end(self) -> None:
        self._over.set()

    def _follow(self) -> None:
        while not self._over.wait(EVERY):
            if (now := self._changed_at()) != self._seen:
                self._seen = now
                try:
                    self._apply(load_fleet(self.path, self.allow))
                except WorkbenchError as error:
                    self.say(str(error))

    def _changed_at(self) -> float:
        try:
            return self.path.stat().st_mtime
        except OSError:
            return self._seen

    def _apply(self, fleet: Fleet) -> None:
        """Apply changes of models; other changes wait for the next run."""
        models = {each.name: each for each in fleet.models}
        for name in [each for each in models if each not in self._names]:
            self.training.send(add_model_command(models[name]))
        for name in sorted(self._names - models.keys()):
            self.training.send(training_events.StopModel(name))
        self._names = set(models)
