"""Train a fleet: partition each model into shards that fit, compile their units for each device, profile them, and run them all.

Predictions are checked here too: the simulator's schedule of the profiled units stands beside the measured one.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import jax
import numpy as np

from workbench.engine.fleet.device_and_host_arrays import FleetDevice, HostStore, pinned_sharding
from workbench.engine.fleet.fleet_executor import FleetExecutor
from workbench.engine.fleet.handle_commands import Stage, handle_commands
from workbench.engine.fleet.model_checkpoint import Checkpoint, hold_folder
from workbench.engine.fleet.model_run import ModelRun, find_run
from workbench.engine.fleet.partitioned_model import PartitionedModel, compile_units, shard_starts
from workbench.engine.fleet.profile_units import profile_units
from workbench.engine.worker.failure_messages import in_user_terms
from workbench.errors import FleetError
from workbench.hardware.catalogue import is_device_kind
from workbench.multimodel import FleetEvent, FleetSchedule, Job, lower_bound, simulate
from workbench.multimodel.fleet import Fleet, FleetModel
from workbench.multimodel.fleet_forecast import count_devices
from workbench.multimodel.fleet_measurement import FleetMeasurement, FleetTimes
from workbench.multimodel.optimal_schedule import prepare_policy
from workbench.multimodel.policies import policy_named
from workbench.multimodel.simulate_fleet import FleetProgress
from workbench.multimodel.training_events import CheckpointNotice, CommandQueue, SchedulePredicted, TrainingListener
from workbench.multimodel.unit_chains import verify_names
from workbench.reports.run_events import Progress
from workbench.tracing.stage_partition.trace_network import network_of

MAX_STAND_INS = 8  # virtual devices of this machine that one device stands in for, when units are only timed


def train_fleet(fleet: Fleet, on_event: TrainingListener | None = None, commands: CommandQueue | None = None) -> FleetMeasurement:
    """Train all models of the fleet on the attached devices, and measure the run.

    With a folder it resumes from the checkpoint there, if there is one. `on_event` receives the events of `multimodel.training_events`;
    `commands` are carried out meanwhile, each answered by `CommandDone` or `CommandRefused`. Raises `FleetError`: too few devices, a budget
    smaller than one layer, data that run out, a folder that another training holds; `PipelineError` for a program that cannot be
    partitioned; `EngineError` for what a user's function raises.
    """
    stage = Stage(on_event or (lambda _: None))
    try:
        run = FleetRun(fleet, stage)
        if commands is not None:
            threading.Thread(target=handle_commands, args=(run, commands, stage), daemon=True).start()
        return run.run()
    except Exception as error:  # whatever a user's function or XLA raises
        raise in_user_terms(error, fleet, stage.name) from error


def time_fleet(fleet: Fleet, on_event: TrainingListener | None = None) -> FleetTimes:
    """Partition the models and profile their units, compiled for one device, without training: what the simulator needs. Raises what
    `train_fleet` does."""
    stage = Stage(on_event or (lambda _: None))
    try:
        run = FleetRun(fleet, stage, train=False)
    except Exception as error:
        raise in_user_terms(error, fleet, stage.name) from error
    return run.times


class FleetRun:
    """A fleet that is prepared, then run; `executor` takes changes on the way (a model that stops, a device that leaves).

    `jobs` are its models as the simulator sees them, their units profiled; with `train=False` nothing more is prepared. It holds its folder
    until it has run, or is garbage-collected.
    """

    def __init__(self, fleet: Fleet, on_event: TrainingListener | None = None, *, train: bool = True) -> None:
        self.fleet = fleet
        self._tell = on_event or (lambda _: None)
        self._entering = threading.Lock()  # held while an added model writes into the folder, and while the folder is released
        with ExitStack() as stack:
            if train and fleet.folder is not None:
                stack.enter_context(hold_folder(fleet.folder))
            self._prepare(train=train)
            self._folder_lock = stack.pop_all()

    def _prepare(self, *, train: bool) -> None:
        fleet = self.fleet
        self.devices = _open_devices(fleet, train=train)
        self.executor = FleetExecutor(self.devices, policy_named(fleet.policy), double_buffer=fleet.double_buffer, tell=self._tell)
        self.compile_seconds = 0.0
        self.cuts = self._partition_models(fleet.models, train=train)
        self._tell_stage("timing the units")
        profile = profile_units(self.cuts, fleet, self.devices)
        self.jobs = [profile.job(each) for each in self.cuts]
        if fleet.policy == "exact" and train:
            self._tell_stage("solving for the shortest schedule")
            self.executor.scheduler.policy = prepare_policy(self.executor.scheduler.policy, self.jobs, len(self.devices))
        for device in self.devices:
            device.transfer_cost = profile.host_to_device
        if train:
            for each, job in zip(self.cuts, self.jobs, strict=True):
                self.executor.membership.add(self._model_run(each, job))

    @property
    def model_runs(self) -> list[ModelRun]:
        return self.executor.model_runs

    @property
    def times(self) -> FleetTimes:
        """The partitions, and the units as they were timed."""
        kind, budget, memory_limit = self.devices[0].device.device_kind, self.devices[0].budget, self.fleet.memory
        starts, needs = tuple(each.starts for each in self.cuts), tuple(each.needs for each in self.cuts)
        return FleetTimes(tuple(self.jobs), self.shards, kind, budget, self.compile_seconds, memory_limit, starts, needs)

    @property
    def shards(self) -> tuple[int, ...]:
        """The number of shards of each model."""
        return tuple(len(each.starts) for each in self.cuts)

    def add(self, model: FleetModel) -> None:
        """Train one more model in this run, on its devices; the prediction is renewed and reported.

        Raises `FleetError` for a name that is taken, for a layer that does not fit, and once the run has ended.
        """
        verify_names([*(each.model.name for each in self.model_runs), model.name])
        self.executor.membership.verify_goes_on(model.name)
        (cut,) = self._partition_models([model])
        self._tell_stage(f"timing the units of `{model.name}`", model.name)
        alone = self.fleet.updated(folder=None, spill="host", double_buffer=False)
        with self.executor.membership.room(0, max(each.peak_bytes for each in cut.compiled[0])):
            job = profile_units([cut], alone, self.devices[:1]).job(cut)
        with self._entering:
            self.executor.membership.verify_goes_on(model.name)
            self.executor.membership.add(self._model_run(cut, job))
        self.jobs.append(job)
        self.cuts.append(cut)
        self._predict_schedule()
        self._tell_stage("training")

    def _predict_schedule(self) -> tuple[FleetSchedule, float]:
        """The predicted schedule and the lower bound of the models so far, each from its arrival or from its checkpoint."""
        arrivals = [
            FleetEvent(each.arrival_time, "model comes", number) for number, each in enumerate(self.model_runs) if each.arrival_time
        ]
        count, names = len(self.devices), [each.model.name for each in self.model_runs]
        resumed_units = [each.resumed_units for each in self.model_runs]
        jobs = [each.truncate_job(job) for each, job in zip(self.model_runs, self.jobs, strict=True)]
        buffered, progress = self.fleet.double_buffer, FleetProgress.at_start(jobs, count, resumed_units)
        predicted = simulate(jobs, count, self.executor.scheduler.policy, double_buffer=buffered, events=arrivals, progress=progress)
        bound = lower_bound(jobs, count, resumed_units)
        lengths = tuple(each.length for each in jobs)
        self._tell(SchedulePredicted(tuple(names), count, bound, predicted.placed, self.times, tuple(resumed_units), lengths))
        return predicted, bound

    def run(self) -> FleetMeasurement:
        """Predict, train and measure; then the folder is released."""
        try:
            return self._train()
        finally:
            with self._entering:
                self._folder_lock.close()

    def _train(self) -> FleetMeasurement:
        predicted, bound = self._predict_schedule()
        self._tell_stage("training")
        schedule = self.executor.run()
        if any(each.arrival_time for each in self.model_runs):
            predicted, bound = self._predict_schedule()
        moved = sum(each.moved_bytes for each in self.devices)
        moving, waited = sum(each.transfer_seconds for each in self.devices), sum(each.wait_seconds for each in self.devices)
        return FleetMeasurement(
            tuple(each.model.name for each in self.model_runs),
            self.fleet.policy,
            tuple(self.jobs),
            schedule,
            predicted,
            bound,
            {each.model.name: tuple(each.losses) for each in self.model_runs},
            self.shards,
            self.devices[0].device.device_kind,
            self.devices[0].budget,
            tuple(each.peak for each in self.devices),
            moved,
            max(0.0, 1 - waited / moving) if moving else 1.0,
            self.executor.scheduler.decision_seconds / max(self.executor.scheduler.decisions, 1),
            self.compile_seconds,
            tuple(each.resumed_units for each in self.model_runs),
            {each.model.name: each.ended for each in self.model_runs if each.ended},
            tuple(each.model.name for each in self.model_runs if each.failure),
        )

    def parameters(self, name: str) -> dict[str, np.ndarray[Any, Any]]:
        """A model's parameters by path, as they are on the host now, layers stacked again."""
        model_run = find_run(self.model_runs, name)
        network = network_of(model_run.model.program)
        found: dict[str, list[np.ndarray[Any, Any]]] = {}
        for number, ((leaf, _), _) in enumerate(network.flat.param_slices):
            found.setdefault(network.parameter_paths[leaf], []).append(np.asarray(model_run.store.get(("piece", number))))
        return {path: pieces[0] if len(pieces) == 1 else np.concatenate(pieces) for path, pieces in found.items()}

    def _partition_models(self, models: Sequence[FleetModel], *, train: bool = True) -> list[PartitionedModel]:
        """Where their shards begin, and their units on each device to train on. Unusable checkpoints are refused before anything is
        compiled for them."""
        devices = self.devices if train else self.devices[:1]
        positions = [_read_position(each, self.fleet) if train else None for each in models]
        starts = [self._find_starts(*each) for each in zip(models, positions, strict=True)]
        return [self._compile_model(model, each, devices) for model, each in zip(models, starts, strict=True)]

    def _find_starts(self, model: FleetModel, position: Mapping[str, Any] | None) -> tuple[int, ...]:
        self._tell_stage(f"cutting `{model.name}`", model.name)
        starts = shard_starts(model, self.fleet, self.devices)
        if position is not None:
            _verify_same(position, model, starts)
        return starts

    def _compile_model(self, model: FleetModel, starts: tuple[int, ...], devices: Sequence[FleetDevice]) -> PartitionedModel:
        start = time.perf_counter()
        units, facts = 2 * len(starts) - 1, f"{len(devices)} device{'s' * (len(devices) > 1)}"
        self._tell_stage(f"compiling {units} unit{'s' * (units > 1)} of `{model.name}` for {facts}", model.name)
        compiled = compile_units(model.program, starts, [each.device for each in devices])
        self.compile_seconds += time.perf_counter() - start
        return PartitionedModel(model, starts, compiled)

    def _model_run(self, cut: PartitionedModel, job: Job) -> ModelRun:
        """The model run in its initial state, or as its checkpoint has it."""
        model = cut.model
        store = HostStore(
            _model_folder(model, self.fleet), on_disk=self.fleet.spill == "disk", pinned=pinned_sharding(self.devices[0].device)
        )
        model_run = ModelRun(model, job, model.program.step.feed, store, cut.compiled, last=job.length)
        position = store.resume()
        if store.notice:
            self._tell(CheckpointNotice(model.name, store.notice))
        if position is None:
            store.put(cut.units.initial(_initialize_state(model)))
        else:
            model_run.resume(position)
        model_run.checkpoint_facts = {"cuts": list(cut.starts), "fingerprint": model.program.fingerprint}
        store.commit(model_run.position(model_run.done))
        return model_run

    def _tell_stage(self, stage: str, model: str = "") -> None:
        """Report the stage, and the model that it concerns, if any."""
        self._tell(Progress(stage, model=model))


def _model_folder(model: FleetModel, fleet: Fleet) -> Path | None:
    return None if fleet.folder is None else fleet.folder / model.name


def _read_position(model: FleetModel, fleet: Fleet) -> Mapping[str, Any] | None:
    """The model's position by its checkpoint; raises `FleetError` for one that is damaged, or of another program."""
    folder = _model_folder(model, fleet)
    position = Checkpoint(folder).peek_position() if folder is not None and folder.exists() else None
    if position is not None:
        _verify_same(position, model)
    return position


def _verify_same(position: Mapping[str, Any], model: FleetModel, starts: tuple[int, ...] | None = None) -> None:
    """Raises `FleetError` for the checkpoint of another program, or of one whose shards begin elsewhere."""
    if position["fingerprint"] != model.program.fingerprint or starts not in (None, tuple(position["cuts"])):
        raise FleetError(
            f"The checkpoint of `{model.name}` is of another program or another partition.",
            ["train the original program", "give another folder"],
        )


def _open_devices(fleet: Fleet, *, train: bool) -> list[FleetDevice]:
    """The devices to train on; without training, the first virtual device of this machine stands in for as many as are planned."""
    first = jax.local_devices()[0]
    _verify_hardware(fleet, first.device_kind)
    if train:
        found = _find_attached_devices(fleet)
    else:
        found = [first] * (min(count_devices(fleet), MAX_STAND_INS) if first.platform == "cpu" else 1)
    return [FleetDevice(i, each, _find_budget(fleet, each)) for i, each in enumerate(found)]


def _find_attached_devices(fleet: Fleet) -> list[jax.Device]:
    """The devices to train on: as many as the fleet names, else one per model up to the number attached."""
    devices = jax.local_devices()
    wanted, attached = count_devices(fleet, len(devices)), len(devices)
    if wanted > attached:
        raise FleetError(f"The fleet needs {wanted} devices; {attached} are attached.", [f"use {attached}", "attach more"])
    return devices[:wanted]


def _verify_hardware(fleet: Fleet, attached: str) -> None:
    """Raises `FleetError` for a fleet that is planned for other devices than the attached ones."""
    if fleet.hardware is not None and not is_device_kind(fleet.hardware, attached):
        raise FleetError(
            f"The fleet is planned for {fleet.hardware}; the devices here are `{attached}`.",
            ["omit the hardware to run on these", "run it on that hardware", "`workbench fleet simulate` plans it without"],
        )


def _find_budget(fleet: Fleet, device: jax.Device) -> int | None:
    """Bytes of a device that may be used: the requested budget, limited by the device's memory."""
    stats = device.memory_stats() or {}
    bytes_limit = stats.get("bytes_limit")
    return min((each for each in (fleet.memory, bytes_limit) if each is not None), default=None)


def _initialize_state(model: FleetModel) -> Sequence[Any]:
    """The initial state, made on the host: it may be larger than any device."""
    step = model.program.step
    host = jax.local_devices(backend="cpu")[0]
    with jax.default_device(host):
        leaves: Sequence[Any] = jax.jit(step.initialize)(jax.random.key(model.seed), step.given)
    return leaves
