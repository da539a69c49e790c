"""Train a fleet: partition models into shards that fit, compile and profile their units, predict, and run them."""

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

MAX_STAND_INS = 8  # virtual devices that one device stands in for if units are only timed


def train_fleet(fleet: Fleet, on_event: TrainingListener | None = None, commands: CommandQueue | None = None) -> FleetMeasurement:
    """Train all models of the fleet on the attached devices, and measure the run.

    Resumes from a checkpoint in the fleet's folder. `on_event` receives the events of `multimodel.training_events`;
    `commands` are carried out meanwhile, each answered by `CommandDone` or `CommandRefused`.

    Raises `FleetError` for too few devices, a budget below one layer, too little data, or a folder in use;
    `PipelineError` if a program cannot be partitioned; `EngineError` for errors of a user's function.
    """
    stage = Stage(on_event or (lambda _: None))
    try:
        run = FleetRun(fleet, stage)
        if commands is not None:
            threading.Thread(target=handle_commands, args=(run, commands, stage), daemon=True).start()
        return run.run()
    except Exception as error:  # a user's function or XLA may raise anything
        raise in_user_terms(error, fleet, stage.name) from error


def time_fleet(fleet: Fleet, on_event: TrainingListener | None = None) -> FleetTimes:
    """Profile the models' units on one device without training, for the simulator; raises like `train_fleet`."""
    stage = Stage(on_event or (lambda _: None))
    try:
        run = FleetRun(fleet, stage, train=False)
    except Exception as error:
        raise in_user_terms(error, fleet, stage.name) from error
    return run.times


class FleetRun:
    """A fleet that is prepared, then run; `executor` takes changes during the run (a model stops, a device leaves).

    `jobs`: its models with profiled units, as input of the simulator; with `train=False` nothing else is prepared. The
    folder is locked until the run ends or the object is garbage-collected.
    """

    def __init__(self, fleet: Fleet, on_event: TrainingListener | None = None, *, train: bool = True) -> None:
        self.fleet = fleet
        self._tell = on_event or (lambda _: None)
        self._entering = threading.Lock()  # held while an added model writes to the folder, and while the folder is released
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
        self.jobs = [profile.job(cut) for cut in self.cuts]
        if fleet.policy == "exact" and train:
            self._tell_stage("solving for the shortest schedule")
            self.executor.scheduler.policy = prepare_policy(self.executor.scheduler.policy, self.jobs, len(self.devices))
        for device in self.devices:
            device.transfer_cost = profile.host_to_device
        if train:
            for cut, job in zip(self.cuts, self.jobs, strict=True):
                self.executor.membership.add(self._model_run(cut, job))

    @property
    def model_runs(self) -> list[ModelRun]:
        return self.executor.model_runs

    @property
    def times(self) -> FleetTimes:
        kind, budget, memory_limit = self.devices[0].device.device_kind, self.devices[0].budget, self.fleet.memory
        starts, needs = tuple(cut.starts for cut in self.cuts), tuple(cut.needs for cut in self.cuts)
        return FleetTimes(tuple(self.jobs), self.shards, kind, budget, self.compile_seconds, memory_limit, starts, needs)

    @property
    def shards(self) -> tuple[int, ...]:
        return tuple(len(cut.starts) for cut in self.cuts)

    def add(self, model: FleetModel) -> None:
        """Train one more model in this run; the prediction is updated and reported.

        Raises `FleetError` for a duplicate name, a layer that does not fit, and once the run has ended.
        """
        verify_names([*(run.model.name for run in self.model_runs), model.name])
        self.executor.membership.verify_running(model.name)
        (cut,) = self._partition_models([model])
        self._tell_stage(f"timing the units of `{model.name}`", model.name)
        alone = self.fleet.updated(folder=None, spill="host", double_buffer=False)
        with self.executor.membership.room(0, max(unit.peak_bytes for unit in cut.compiled[0])):
            job = profile_units([cut], alone, self.devices[:1]).job(cut)
        with self._entering:
            self.executor.membership.verify_running(model.name)
            self.executor.membership.add(self._model_run(cut, job))
        self.jobs.append(job)
        self.cuts.append(cut)
        self._predict_schedule()
        self._tell_stage("training")

    def _predict_schedule(self) -> tuple[FleetSchedule, float]:
        """Predict schedule and lower bound of all current models, each from its arrival or its checkpoint."""
        arrivals = [FleetEvent(run.arrival_time, "model comes", number) for number, run in enumerate(self.model_runs) if run.arrival_time]
        count, names = len(self.devices), [run.model.name for run in self.model_runs]
        resumed_units = [run.resumed_units for run in self.model_runs]
        jobs = [run.truncate_job(job) for run, job in zip(self.model_runs, self.jobs, strict=True)]
        buffered, progress = self.fleet.double_buffer, FleetProgress.at_start(jobs, count, resumed_units)
        predicted = simulate(jobs, count, self.executor.scheduler.policy, double_buffer=buffered, events=arrivals, progress=progress)
        bound = lower_bound(jobs, count, resumed_units)
        lengths = tuple(job.length for job in jobs)
        self._tell(SchedulePredicted(tuple(names), count, bound, predicted.placed, self.times, tuple(resumed_units), lengths))
        return predicted, bound

    def run(self) -> FleetMeasurement:
        """Predict, train and measure, and release the folder."""
        try:
            return self._train()
        finally:
            with self._entering:
                self._folder_lock.close()

    def _train(self) -> FleetMeasurement:
        predicted, bound = self._predict_schedule()
        self._tell_stage("training")
        schedule = self.executor.run()
        if any(run.arrival_time for run in self.model_runs):
            predicted, bound = self._predict_schedule()
        moved = sum(device.moved_bytes for device in self.devices)
        moving, waited = sum(device.transfer_seconds for device in self.devices), sum(device.wait_seconds for device in self.devices)
        return FleetMeasurement(
            tuple(run.model.name for run in self.model_runs),
            self.fleet.policy,
            tuple(self.jobs),
            schedule,
            predicted,
            bound,
            {run.model.name: tuple(run.losses) for run in self.model_runs},
            self.shards,
            self.devices[0].device.device_kind,
            self.devices[0].budget,
            tuple(device.peak for device in self.devices),
            moved,
            max(0.0, 1 - waited / moving) if moving else 1.0,
            self.executor.scheduler.decision_seconds / max(self.executor.scheduler.decisions, 1),
            self.compile_seconds,
            tuple(run.resumed_units for run in self.model_runs),
            {run.model.name: run.ended for run in self.model_runs if run.ended},
            tuple(run.model.name for run in self.model_runs if run.failure),
        )

    def parameters(self, name: str) -> dict[str, np.ndarray[Any, Any]]:
        """Return a model's current parameters on the host by path, with layers stacked."""
        model_run = find_run(self.model_runs, name)
        network = network_of(model_run.model.program)
        pieces_by_path: dict[str, list[np.ndarray[Any, Any]]] = {}
        for number, ((leaf, _), _) in enumerate(network.flat.param_slices):
            pieces_by_path.setdefault(network.parameter_paths[leaf], []).append(np.asarray(model_run.store.get(("piece", number))))
        return {path: pieces[0] if len(pieces) == 1 else np.concatenate(pieces) for path, pieces in pieces_by_path.items()}

    def _partition_models(self, models: Sequence[FleetModel], *, train: bool = True) -> list[PartitionedModel]:
        """Partition models and compile their units; unusable checkpoints are refused before compiling."""
        devices = self.devices if train else self.devices[:1]
        positions = [_read_position(model, self.fleet) if train else None for model in models]
        starts = [self._find_starts(model, position) for model, position in zip(models, positions, strict=True)]
        return [self._compile_model(model, first_blocks, devices) for model, first_blocks in zip(models, starts, strict=True)]

    def _find_starts(self, model: FleetModel, position: Mapping[str, Any] | None) -> tuple[int, ...]:
        self._tell_stage(f"cutting `{model.name}`", model.name)
        starts = shard_starts(model, self.fleet, self.devices)
        if position is not None:
            _verify_same(position, model, starts)
        return starts

    def _compile_model(self, model: FleetModel, starts: tuple[int, ...], devices: Sequence[FleetDevice]) -> PartitionedModel:
        start = time.perf_counter()
        units, device_count = 2 * len(starts) - 1, f"{len(devices)} device{'s' * (len(devices) > 1)}"
        self._tell_stage(f"compiling {units} unit{'s' * (units > 1)} of `{model.name}` for {device_count}", model.name)
        compiled = compile_units(model.program, starts, [device.device for device in devices])
        self.compile_seconds += time.perf_counter() - start
        return PartitionedModel(model, starts, compiled)

    def _model_run(self, cut: PartitionedModel, job: Job) -> ModelRun:
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
        self._tell(Progress(stage, model=model))


def _model_folder(model: FleetModel, fleet: Fleet) -> Path | None:
    return None if fleet.folder is None else fleet.folder / model.name


def _read_position(model: FleetModel, fleet: Fleet) -> Mapping[str, Any] | None:
    folder = _model_folder(model, fleet)
    position = Checkpoint(folder).peek_position() if folder is not None and folder.exists() else None
    if position is not None:
        _verify_same(position, model)
    return position


def _verify_same(position: Mapping[str, Any], model: FleetModel, starts: tuple[int, ...] | None = None) -> None:
    if position["fingerprint"] != model.program.fingerprint or starts not in (None, tuple(position["cuts"])):
        raise FleetError(
            f"The checkpoint of `{model.name}` belongs to another program or partition.",
            ["train the original program", "give another folder"],
        )


def _open_devices(fleet: Fleet, *, train: bool) -> list[FleetDevice]:
    """Return the devices to train on; without training, one virtual device stands in for all planned ones."""
    first = jax.local_devices()[0]
    _verify_hardware(fleet, first.device_kind)
    if train:
        devices = _find_attached_devices(fleet)
    else:
        devices = [first] * (min(count_devices(fleet), MAX_STAND_INS) if first.platform == "cpu" else 1)
    return [FleetDevice(i, device, _find_budget(fleet, device)) for i, device in enumerate(devices)]


def _find_attached_devices(fleet: Fleet) -> list[jax.Device]:
    devices = jax.local_devices()
    needed, attached = count_devices(fleet, len(devices)), len(devices)
    if needed > attached:
        raise FleetError(f"The fleet needs {needed} devices; {attached} are attached.", [f"use {attached}", "attach more"])
    return devices[:needed]


def _verify_hardware(fleet: Fleet, attached: str) -> None:
    if fleet.hardware is not None and not is_device_kind(fleet.hardware, attached):
        raise FleetError(
            f"The fleet is planned for {fleet.hardware}; the devices here are `{attached}`.",
            ["omit the hardware to run on these", "run it on that hardware", "`workbench fleet simulate` plans it without"],
        )


def _find_budget(fleet: Fleet, device: jax.Device) -> int | None:
    stats = device.memory_stats() or {}
    bytes_limit = stats.get("bytes_limit")
    return min((limit for limit in (fleet.memory, bytes_limit) if limit is not None), default=None)


def _initialize_state(model: FleetModel) -> Sequence[Any]:
    """Create the initial state on the host, since it may be larger than any device."""
    step = model.program.step
    host = jax.local_devices(backend="cpu")[0]
    with jax.default_device(host):
        leaves: Sequence[Any] = jax.jit(step.initialize)(jax.random.key(model.seed), step.given)
    return leaves
