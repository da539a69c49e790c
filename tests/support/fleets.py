"""Fleets for boards, and a runner that needs no devices: the test tells each event, in the words of the engine."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import workbench as wb
from workbench.multimodel import lower_bound, policy_named, simulate
from workbench.multimodel.fleet import Fleet, FleetModel
from workbench.multimodel.fleet_forecast import FleetForecast, count_devices
from workbench.multimodel.fleet_measurement import FleetMeasurement, FleetTimes
from workbench.multimodel.greedy_partition import shard_bytes
from workbench.multimodel.training_events import (
    AddModel,
    CommandDone,
    FleetCommand,
    SchedulePredicted,
    StopModel,
    TrainingDone,
    TrainingListener,
    UnitDone,
)
from workbench.multimodel.unit_estimates import estimated_job, layers_of
from workbench.reports.run_events import Progress


def perceptron(layers: int = 4, learning_rate: float = 0.1) -> wb.Program:
    """Layers of 16 x 16 in scopes of their own."""

    def loss(params, batch):
        x = batch["x"]
        for name in sorted(params):
            with jax.named_scope(name):
                x = jnp.tanh(x @ params[name])
        return jnp.square(x - batch["x"]).mean()

    params = {f"layer_{i}": np.full((16, 16), 0.1, np.float32) for i in range(layers)}
    program = wb.trace_training(loss, params, {"x": np.ones((8, 16), np.float32)}, optimizer=optax.sgd(learning_rate), name="perceptron")
    return replace(program, reference=wb.Reference("tests:perceptron", {"layers": layers, "learning_rate": learning_rate}))


def three_models(**options: Any) -> Fleet:
    """Two alike, and one of eight layers; ten mini-batches each."""
    four, eight = perceptron(), perceptron(8, 0.01)
    models = (FleetModel("a", four, 10), FleetModel("b", four, 10), FleetModel("deep", eight, 10))
    return Fleet(models, **{"devices": 2, **options})


def times_of(seen: FleetForecast, factor: float = 0.5) -> FleetTimes:
    """As if a compiler had made shards of `factor` times their estimate, whose units take a millisecond each."""
    jobs, starts, needs = [], [], []
    for each in seen.models:
        layers = layers_of(each.model.program)
        names = [layer.name for layer in layers]
        begins = tuple(names.index(shard.first) for shard in each.shards)
        ends = [*begins[1:], len(layers)]
        job = estimated_job(each.model, begins)
        for place in range(len(job.units)):
            job = job.with_unit_seconds(place, 1e-3)
        jobs.append(job)
        starts.append(begins)
        needs.append(tuple(int(factor * shard_bytes(layers, a, b)) for a, b in zip(begins, ends, strict=True)))
    memory = seen.fleet.memory
    return FleetTimes(tuple(jobs), tuple(map(len, starts)), "script", memory, 0.5, memory, tuple(starts), tuple(needs))


class ToldHandle:
    """What a board does with its worker."""

    def __init__(self, fleet: Fleet, tell: TrainingListener) -> None:
        self.fleet, self.tell = fleet, tell
        self.commands: list[FleetCommand] = []
        self.cancels = 0

    def cancel(self) -> None:
        self.cancels += 1

    def send(self, command: FleetCommand) -> None:
        self.commands.append(command)


class ToldRunner:
    """Starts nothing: `runs` and `timings` are what was asked for, and each has its `tell`."""

    def __init__(self) -> None:
        self.runs: list[ToldHandle] = []
        self.timings: list[ToldHandle] = []

    def train(self, fleet: Fleet, on_event: TrainingListener) -> ToldHandle:
        self.runs.append(ToldHandle(fleet, on_event))
        return self.runs[-1]

    def add_model_command(self, model: FleetModel) -> AddModel:
        return AddModel(model.name)

    def time(self, fleet: Fleet, on_event: TrainingListener) -> ToldHandle:
        self.timings.append(ToldHandle(fleet, on_event))
        return self.timings[-1]


class Training:
    """A run as the simulator has it, told unit by unit."""

    def __init__(self, handle: ToldHandle, seen: FleetForecast, devices: int = 0) -> None:
        self.handle, self.jobs, self.times = handle, seen.jobs, times_of(seen)
        self.devices = devices or count_devices(handle.fleet)
        self.predicted = simulate(seen.jobs, self.devices, policy_named(handle.fleet.policy))
        self.left = list(self.predicted.placed)
        self.last = {job.name: job.length for job in seen.jobs}
        self.losses: dict[str, list[float]] = {job.name: [] for job in seen.jobs}
        self.ran: list[Any] = []
        self.begun: tuple[tuple[int, ...], ...] = ()  # units that a checkpoint spares each model, and how many each will have at its end

    def begin(self) -> None:
        names = tuple(job.name for job in self.jobs)
        bound = lower_bound(self.jobs, self.devices)
        self.handle.tell(Progress("compiling 7 units of `a` for 2 devices"))
        self.handle.tell(SchedulePredicted(names, self.devices, bound, self.predicted.placed, self.times, *self.begun))
        self.handle.tell(Progress("training"))

    def units(self, count: int = 1_000_000) -> None:
        """The next units, but for those of models that are stopped; loss is 5 less the unit's hundredth."""
        while self.left and count:
            each = self.left.pop(0)
            job = self.jobs[each.model]
            if each.unit >= self.last[job.name]:
                continue
            count -= 1
            loss = 5 - each.unit / 100 if job.unit(each.unit).kind == "forward_loss" else None
            self.losses[job.name] += [] if loss is None else [loss]
            self.ran.append(each)
            self.handle.tell(UnitDone(job.name, each.unit + 1, self.last[job.name], loss, each))

    def stopped(self, name: str) -> None:
        """As the engine stops it."""
        number = [job.name for job in self.jobs].index(name)
        done = sum(each.model == number for each in self.ran)
        length = len(self.jobs[number].units)
        self.last[name] = -(-done // length) * length
        self.handle.tell(CommandDone(StopModel(name), done, self.last[name]))

    def done(self) -> None:
        schedule = replace(self.predicted, placed=tuple(self.ran))
        names, bound = tuple(job.name for job in self.jobs), lower_bound(self.jobs, self.devices)
        losses = {name: tuple(each) for name, each in self.losses.items()}
        measured = FleetMeasurement(
            names,
            self.handle.fleet.policy,
            self.jobs,
            schedule,
            self.predicted,
            bound,
            losses,
            (1,) * len(names),
            "script",
            1 << 20,
            (9, 9),
        )
        self.handle.tell(TrainingDone(measured))
