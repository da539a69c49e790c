"""Train a fleet: cut each model into shards that fit, compile their units for each device, time them, and run them all.

The house rule holds here too: what is predicted (the simulator's schedule of units that were timed one by one) stands beside what is
measured.
"""

import os
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, lru_cache
from queue import SimpleQueue
from typing import Any

import jax
import numpy as np

from workbench.engine.failures import in_user_terms
from workbench.engine.fleet_devices import CompiledUnit, FleetDevice, bandwidth, compile_unit, pinned_place, timed
from workbench.engine.fleet_floor import Floor, Listener
from workbench.engine.fleet_store import HostStore
from workbench.engine.fleet_trainee import Trainee
from workbench.engine.fleet_units import ModelUnits, UnitFunction
from workbench.errors import FleetError
from workbench.multimodel import Job, Unit, lower_bound, policy_named, simulate
from workbench.multimodel.fleet import Fleet, FleetModel
from workbench.multimodel.measured import FleetMeasurement, FleetTimes
from workbench.multimodel.shards import Layer, Room, greedy_shards, verify_shards
from workbench.program import STATE, Program
from workbench.tensor import Role, itemsize
from workbench.tracing.cut import cut_network, starts_at
from workbench.tracing.cutting import network_of

Orders = SimpleQueue[dict[str, Any]]
Compiled = tuple[tuple[CompiledUnit, ...], ...]
"""Units of the mini-batch, of each device."""


def train_fleet(fleet: Fleet, on_event: Listener | None = None, orders: Orders | None = None) -> FleetMeasurement:
    """Train all models of the fleet on the attached devices, and measure.

    With a folder it goes on from the checkpoint there, if there is one. `orders` are obeyed meanwhile (`Floor.obey`): each is followed by
    an event `obeyed`, or `refused` with a message. Raises `FleetError`: too few devices, a budget smaller than one layer, data that run
    out; `PipelineError` for a program that cannot be cut; `EngineError` for what a user's function raises.
    """
    stage = _Stage(on_event or (lambda _: None))
    try:
        run = FleetRun(fleet, stage)
        if orders is not None:
            threading.Thread(target=_obey, args=(run.floor, orders, stage), daemon=True).start()
        return run.run()
    except Exception as error:  # whatever a user's function or XLA raises
        raise in_user_terms(error, fleet, stage.name) from error


def time_fleet(fleet: Fleet, on_event: Listener | None = None) -> FleetTimes:
    """Cut the models and time their units on one device, without training: what the simulator needs. Raises what `train_fleet` does."""
    stage = _Stage(on_event or (lambda _: None))
    try:
        run = FleetRun(fleet.updated(devices=1, folder=None, spill="host"), stage, train=False)
    except Exception as error:
        raise in_user_terms(error, fleet, stage.name) from error
    return FleetTimes(tuple(run.jobs), run.shards, run.devices[0].device.device_kind, run.devices[0].budget, run.compile_seconds)


class _Stage:
    """Hears of everything, and knows at which stage it was: it outlives the failure that it explains."""

    def __init__(self, tell: Listener) -> None:
        self.tell, self.name = tell, "starting"

    def __call__(self, event: dict[str, Any]) -> None:
        self.name = event.get("stage", self.name)
        self.tell(event)


def _obey(floor: Floor, orders: Orders, tell: Listener) -> None:
    while True:
        order = orders.get()
        try:
            floor.obey(order)
        except FleetError as error:
            tell({"event": "refused", **order, "message": str(error)})
        else:
            tell({"event": "obeyed", **order})


class FleetRun:
    """A fleet made ready, then run; `floor` takes what happens on the way (a model that stops, a device that leaves).

    `jobs` are its models as the simulator sees them, their units timed one by one; with `train=False` there is no more.
    """

    def __init__(self, fleet: Fleet, on_event: Listener | None = None, *, train: bool = True) -> None:
        self.fleet = fleet
        self._tell = on_event or (lambda _: None)
        self.devices = [FleetDevice(i, each, _budget(fleet, each)) for i, each in enumerate(_attached(fleet))]
        self.compile_seconds = 0.0
        cut = [self._cut(each) for each in fleet.models]
        self.jobs, self.shards = [job for _, _, job in cut], tuple(len(starts) for starts, _, _ in cut)
        self.trainees = [self._trainee(model, *each) for model, each in zip(fleet.models, cut, strict=True) if train]
        self.floor = Floor(self.trainees, self.devices, policy_named(fleet.policy), double_buffer=fleet.double_buffer, tell=self._tell)

    def run(self) -> FleetMeasurement:
        jobs = self.jobs
        predicted = simulate(jobs, len(self.devices), self.floor.policy, double_buffer=self.fleet.double_buffer)
        bound = lower_bound(jobs, len(self.devices))
        plan = [[each.model, each.unit, each.device, each.start, each.end] for each in predicted.placed]
        names = [each.name for each in self.fleet.models]
        self._tell({"event": "schedule", "names": names, "devices": len(self.devices), "bound": bound, "predicted": plan})
        self._say("training")
        schedule = self.floor.run()
        moved = sum(each.moved for each in self.devices)
        moving, waited = moved / self._bandwidth, sum(each.waited for each in self.devices)
        return FleetMeasurement(
            tuple(names),
            self.fleet.policy,
            tuple(jobs),
            schedule,
            predicted,
            bound,
            {each.model.name: tuple(each.losses) for each in self.trainees},
            self.shards,
            self.devices[0].device.device_kind,
            self.devices[0].budget,
            tuple(each.peak for each in self.devices),
            moved,
            max(0.0, 1 - waited / moving) if moving else 1.0,
            self.floor.deciding / max(self.floor.decisions, 1),
            self.compile_seconds,
        )

    def parameters(self, name: str) -> dict[str, np.ndarray[Any, Any]]:
        """A model's parameters by path, as they are on the host now, layers stacked again."""
        trainee = next((each for each in self.trainees if each.model.name == name), None)
        if trainee is None:
            raise FleetError(f"There is no model `{name}` in this fleet.", [each.name for each in self.fleet.models])
        network = network_of(trainee.model.program)
        found: dict[str, list[np.ndarray[Any, Any]]] = {}
        for number, ((leaf, _), _) in enumerate(network.flat.pieces):
            found.setdefault(network.parameter_paths[leaf], []).append(np.asarray(trainee.store.get(("piece", number))))
        return {path: pieces[0] if len(pieces) == 1 else np.concatenate(pieces) for path, pieces in found.items()}

    def _cut(self, model: FleetModel) -> tuple[tuple[int, ...], Compiled, Job]:
        """Where its shards begin, its units on each device, and their times on the first."""
        self._say(f"cutting `{model.name}`")
        starts = self._starts(model)
        compiled = self._compiled(model, starts)
        seconds = [timed(each, self.devices[0]) for each in compiled[0]]
        functions = _units(model.program, starts).functions
        return starts, compiled, Job(model.name, tuple(map(self._unit, functions, seconds)), model.mini_batches, model.epochs)

    def _trainee(self, model: FleetModel, starts: tuple[int, ...], compiled: Compiled, job: Job) -> Trainee:
        """With its first state, or as a checkpoint says it stood."""
        units = _units(model.program, starts)
        folder = None if self.fleet.folder is None else self.fleet.folder / model.name
        store = HostStore(folder, on_disk=self.fleet.spill == "disk", pinned=pinned_place(self.devices[0].device))
        trainee = Trainee(model, job, model.program.step.feed, store, compiled, last=job.length)
        if (position := self._resumed(store, model, starts)) is None:
            store.put(units.initial(_initial(model)))
        else:
            trainee.done = trainee.begun = position["done"]
            trainee.losses = position["losses"]
        trainee.about = {"cuts": list(starts), "fingerprint": model.program.fingerprint}
        store.commit({"done": trainee.done, "losses": trainee.losses, **trainee.about})
        return trainee

    def _starts(self, model: FleetModel) -> tuple[int, ...]:
        """The blocks at which shards begin: the model's own, else as the memory allows."""
        network = network_of(model.program)
        rooms = [Room(each.budget, self.fleet.buffer if self.fleet.double_buffer else 0.0) for each in self.devices if each.budget]
        layers = _layers(model)
        given = (0, *starts_at(network, model.cuts)) if model.cuts else None
        if not rooms:
            return given or (0,)
        measure = self._measure(model)
        return greedy_shards(layers, rooms, measure) if given is None else verify_shards(layers, given, rooms, measure)

    def _measure(self, model: FleetModel) -> Any:
        """The bytes of a shard of some blocks, compiled."""
        network = network_of(model.program)

        def measure(begin: int, end: int) -> int:
            starts = sorted({begin, end} - {0, len(network.paths)})
            cut = cut_network(network, starts)
            shard = next(each.number for each in cut.segments if each.blocks[0] == network.paths[begin])
            functions = ModelUnits(model.program, cut).of_shard(shard)
            return max(compile_unit(each, self.devices[0].device, f"{model.name}_pilot").needs for each in functions)

        return measure

    def _compiled(self, model: FleetModel, starts: tuple[int, ...]) -> Compiled:
        start = time.perf_counter()
        devices = f"{len(self.devices)} device{'s' * (len(self.devices) > 1)}"
        self._say(f"compiling {2 * len(starts) - 1} units of `{model.name}` for {devices}")
        found = _compiled_units(model.program, starts, [each.device for each in self.devices])
        self.compile_seconds += time.perf_counter() - start
        return found

    def _unit(self, function: UnitFunction, seconds: float) -> Unit:
        """A unit of the simulation: what it takes to bring its shard in, what comes with it, what goes back."""
        sizes = {key: each.size * each.dtype.itemsize for key, each in zip(function.reads, function.specs, strict=True)}
        shard = sum(size for key, size in sizes.items() if key[0] in ("piece", "state"))
        changed = sum(size for key, size in sizes.items() if key in function.writes)
        speed = self._bandwidth
        return Unit(function.shard, function.kind, seconds, shard / speed, changed / speed, (sum(sizes.values()) - shard) / speed)

    @cached_property
    def _bandwidth(self) -> float:
        return bandwidth(self.devices[0].device)

    def _resumed(self, store: HostStore, model: FleetModel, starts: tuple[int, ...]) -> Mapping[str, Any] | None:
        """Where a checkpoint says the model stands; raises `FleetError` where it is one of another program or cut."""
        position = store.resume()
        if position is None:
            return None
        if position["fingerprint"] != model.program.fingerprint or tuple(position["cuts"]) != starts:
            raise FleetError(
                f"The checkpoint of `{model.name}` in {store.folder} is of another program, or of one that was cut elsewhere.",
                ["train it as it was", "give another folder"],
            )
        return position

    def _say(self, stage: str) -> None:
        self._tell({"event": "progress", "stage": stage, "fraction": 0.0})


@lru_cache(maxsize=64)
def _units(program: Program, starts: tuple[int, ...]) -> ModelUnits:
    return ModelUnits(program, cut_network(network_of(program), starts[1:]))


def _compiled_units(program: Program, starts: tuple[int, ...], devices: Sequence[jax.Device]) -> Compiled:
    """Of each device, compiled in threads: XLA lets the interpreter go meanwhile."""
    places = range(len(_units(program, starts).functions))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [[pool.submit(_compiled_unit, program, starts, place, device) for place in places] for device in devices]
        return tuple(tuple(each.result() for each in units) for units in found)


@lru_cache(maxsize=1024)
def _compiled_unit(program: Program, starts: tuple[int, ...], place: int, device: jax.Device) -> CompiledUnit:
    """Models that are alike, but for their seeds say, have their units compiled once."""
    unit = _units(program, starts).functions[place]
    return compile_unit(unit, device, f"{unit.kind.value}_{unit.shard}")


def _attached(fleet: Fleet) -> list[jax.Device]:
    """The devices to train on: no more than models, for a model has one unit at a time."""
    devices = jax.local_devices()
    wanted = fleet.devices or len(devices)
    if wanted > len(devices):
        raise FleetError(f"The fleet wants {wanted} devices; {len(devices)} are attached.", [f"give it {len(devices)}", "attach more"])
    return devices[: min(wanted, len(fleet.models))]


def _budget(fleet: Fleet, device: jax.Device) -> int | None:
    """Bytes of a device that may be used: what was asked for, and no more than there is."""
    stats = device.memory_stats() or {}
    there = stats.get("bytes_limit")
    return min((each for each in (fleet.memory, there) if each is not None), default=None)


def _layers(model: FleetModel) -> list[Layer]:
    """The network's blocks by the bytes they need: parameters, a gradient each, and the optimiser's share."""
    program = model.program
    held = {role: sum(each.elements * itemsize(each.dtype) for each in program.arguments if each.role is role) for role in STATE}
    factor = 2 + held[Role.OPTIMIZER_STATE] / max(held[Role.PARAMETER], 1)
    blocks = network_of(program).blocks
    entering = [0, *(each.crossing for each in blocks)]
    return [
        Layer(each.path, int(each.parameter_bytes * factor), each.traffic // 2, before)
        for each, before in zip(blocks, entering, strict=False)
    ]


def _initial(model: FleetModel) -> Sequence[Any]:
    """The first state, made on the host: it may be larger than any device."""
    step = model.program.step
    host = jax.local_devices(backend="cpu")[0]
    with jax.default_device(host):
        leaves: Sequence[Any] = jax.jit(step.initialize)(jax.random.key(model.seed), step.given)
    return leaves
