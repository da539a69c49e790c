"""Measure unit times under the conditions of a run: with the executor itself, on state that is thrown away.

Virtual devices of this machine share its cores, so a unit alone may be twice as fast as when every device computes.
There, models are profiled twice, each alone on one device, then together on all of them; devices with separate cores
only need the first. One warm-up mini-batch is not counted. Transfers and the executor's overhead between units are
timed too.
"""

import shutil
import statistics
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from workbench.engine.fleet.device_and_host_arrays import FleetDevice, HostStore, TransferTimings, pinned_sharding
from workbench.engine.fleet.fleet_executor import FleetExecutor
from workbench.engine.fleet.model_run import ModelRun, data_ran_out_error, data_read_error
from workbench.engine.fleet.partitioned_model import PartitionedModel
from workbench.engine.fleet.shard_units import UnitFunction
from workbench.multimodel import Job, ScheduledUnit, Unit, policy_named
from workbench.multimodel.fleet import Fleet, FleetModel
from workbench.multimodel.training_events import TrainingEvent, UnitDone

FOLDER = ".rehearsal"
"""Subfolder of the fleet's folder for checkpoints written during profiling; no model's name begins with a dot."""
_SECONDS_PER_MODEL, _MOST_BATCHES, _ENDLESS_BATCHES = 0.1, 40, 1_000_000  # limits for each model, and an unreachable number
_LEAST_TRIMMED = 4  # with at least this many measurements the longest is dropped
UnitKey = tuple[Any, tuple[int, ...]]


@dataclass
class UnitProfile:
    """Unit seconds alone and among `concurrent_devices`, by key of models with equal units, and transfer timings."""

    seconds_alone: dict[UnitKey, list[float]] = field(default_factory=dict)
    seconds_together: dict[UnitKey, list[float]] = field(default_factory=dict)
    concurrent_devices: int = 1
    timings: TransferTimings = field(default_factory=TransferTimings)

    @property
    def host_to_device(self) -> tuple[float, float]:
        """Seconds per transfer from the host, and per byte."""
        return _fit_line(self.timings.copied_in)

    def job(self, cut: PartitionedModel) -> Job:
        model = cut.model
        host_to_device, device_to_host = self.host_to_device, _fit_line(self.timings.copied_out)
        pause = _trimmed_mean(self.timings.pauses) if self.timings.pauses else 0.0
        units = []
        for index, function in enumerate(cut.units.functions):
            seconds_alone = self.seconds_alone[cut.unit_key][index]
            crowded = self.seconds_together.get(cut.unit_key, self.seconds_alone[cut.unit_key])[index]
            slowed = max(0.0, crowded - seconds_alone) / (self.concurrent_devices - 1) if self.concurrent_devices > 1 else 0.0
            load, store, carry = _transfer_seconds(function, host_to_device, device_to_host)
            units.append(Unit(function.shard, function.kind, seconds_alone, load, store, carry, slowed, pause))
        return Job(model.name, tuple(units), model.mini_batches, model.epochs)


def profile_units(cuts: Sequence[PartitionedModel], fleet: Fleet, devices: Sequence[FleetDevice]) -> UnitProfile:
    """Profile all models on devices like these.

    Without compiled units for each device, the first one stands in for others of this machine. The result is cached for
    equal models under equal conditions. Raises the errors of a run: `FleetError` if memory or data does not suffice,
    and errors of a user's function.
    """
    distinct = list({cut.unit_key: cut for cut in cuts}.values())
    others = [cut for cut in cuts if not any(cut is other for other in distinct)]
    participants = (*distinct, *others[: max(0, len(devices) - len(distinct))])
    unit_keys, device_budgets = tuple(cut.unit_key for cut in participants), tuple((device.device, device.budget) for device in devices)
    settings = fleet.double_buffer, fleet.spill, fleet.folder is None
    return _profile_case(_ProfileCase(unit_keys, device_budgets, settings, len(distinct), participants, fleet, tuple(devices)))


@dataclass(frozen=True)
class _ProfileCase:
    """Cache key of a profile, and the participating models, of which the first `distinct` have different units."""

    unit_keys: tuple[UnitKey, ...]
    device_budgets: tuple[tuple[jax.Device, int | None], ...]
    settings: tuple[object, ...]
    distinct: int
    participants: tuple[PartitionedModel, ...] = field(compare=False)
    fleet: Fleet = field(compare=False)
    devices: tuple[FleetDevice, ...] = field(compare=False)


@lru_cache(maxsize=16)
def _profile_case(case: _ProfileCase) -> UnitProfile:
    participants, fleet, devices = case.participants, case.fleet, case.devices
    profile = UnitProfile()
    _warm_up(participants[: case.distinct], len(devices))
    for cut in participants[: case.distinct]:
        executor, timings = _run_models([cut], fleet, devices[:1])
        profile.seconds_alone[cut.unit_key] = _unit_seconds(executor, 0, 1)
        profile.timings = _merge_timings((profile.timings, *timings))
    if len(devices) > 1 and len(participants) > 1 and devices[0].device.platform == "cpu":
        profile.concurrent_devices = min(len(devices), len(participants))
        executor, timings = _run_models(participants, fleet, devices[: profile.concurrent_devices])
        profile.seconds_together = {
            cut.unit_key: _unit_seconds(executor, number, profile.concurrent_devices)
            for number, cut in reversed(list(enumerate(participants)))
        }
        profile.timings = _merge_timings(timings)
    return profile


def _warm_up(cuts: Sequence[PartitionedModel], devices: int) -> None:
    """Run each unit once per device, as first executions are slow; one at a time, to fit into memory."""

    def once(device: int) -> None:
        for cut in cuts:
            for compiled_unit in cut.compiled[device]:
                zeros = [_zeros(spec) for spec in compiled_unit.unit.specs]
                jax.block_until_ready(compiled_unit.compiled(*jax.device_put(zeros, compiled_unit.compiled.input_shardings[0][0])))

    compiled_for = min(len(cut.compiled) for cut in cuts)
    with ThreadPoolExecutor() as pool:
        for future in [pool.submit(once, device) for device in range(min(devices, compiled_for))]:
            future.result()


def _zeros(spec: jax.ShapeDtypeStruct) -> Any:
    is_key = jax.dtypes.issubdtype(spec.dtype, jax.dtypes.prng_key)
    return jnp.empty(spec.shape, spec.dtype) if is_key else np.zeros(spec.shape, spec.dtype)


def _run_models(
    participants: Sequence[PartitionedModel], fleet: Fleet, devices: Sequence[FleetDevice]
) -> tuple[FleetExecutor, list[TransferTimings]]:
    timings = [TransferTimings() for _ in devices]
    stand_ins = [FleetDevice(i, device.device, device.budget, timings=timings[i]) for i, device in enumerate(devices)]
    folder = None if fleet.folder is None else fleet.folder / FOLDER
    executor = FleetExecutor(stand_ins, policy_named("round-robin"), double_buffer=fleet.double_buffer)
    executor.listen(_StopWhenTimed(executor, [len(cut.units.functions) for cut in participants]))
    try:
        for number, cut in enumerate(participants):
            executor.membership.add(_make_stand_in(number, cut, fleet, devices, folder))
        executor.run()
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
    if failure := next((run.failure for run in executor.model_runs if run.failure), None):
        raise failure
    return executor, timings


class _StopWhenTimed:
    """Ends all models together, once each has run twice and for long or often enough, so that all devices are busy."""

    def __init__(self, executor: FleetExecutor, lengths: Sequence[int]) -> None:
        self._executor, self._lengths = executor, lengths
        self._done = [0] * len(lengths)
        self._began = time.perf_counter()
        self._over = False

    def __call__(self, event: TrainingEvent) -> None:
        if not isinstance(event, UnitDone):
            return
        self._done[event.placed.model] = event.done
        batches = [done // length for done, length in zip(self._done, self._lengths, strict=True)]
        is_long_enough = time.perf_counter() - self._began > _SECONDS_PER_MODEL * len(batches) or max(batches) > _MOST_BATCHES
        if not self._over and is_long_enough and min(batches) > 1:
            self._over = True
            for number in range(len(self._lengths)):
                self._executor.membership.stop(str(number))


def _make_stand_in(number: int, cut: PartitionedModel, fleet: Fleet, devices: Sequence[FleetDevice], folder: Path | None) -> ModelRun:
    """Return an endless model with the same units and data, but with zeros as parameters."""
    model, units = cut.model, cut.units.functions
    twin = FleetModel(str(number), model.program, _ENDLESS_BATCHES)
    job = Job(twin.name, tuple(Unit(unit.shard, unit.kind, 1.0) for unit in units), _ENDLESS_BATCHES)
    store = HostStore(folder and folder / twin.name, on_disk=fleet.spill == "disk", pinned=pinned_sharding(devices[0].device))
    state = {key: spec for unit in units for key, spec in zip(unit.reads, unit.specs, strict=True) if key[0] in ("piece", "state")}
    store.put({key: np.zeros(spec.shape, spec.dtype) for key, spec in state.items()})
    compiled = cut.compiled if len(cut.compiled) >= len(devices) else cut.compiled[:1] * len(devices)
    return ModelRun(twin, job, _FirstBatch(model), store, compiled, last=job.length)


@dataclass(frozen=True)
class _FirstBatch:
    """Repeats the first mini-batch of a model: later ones may not exist, and profiling must not consume them."""

    model: FleetModel

    def __call__(self, step: int) -> Sequence[Any]:  # noqa: ARG002
        try:
            return self.model.program.step.feed(0)
        except (StopIteration, IndexError) as error:
            raise data_ran_out_error(self.model, 0) from error
        except Exception as error:  # a user's function may raise anything
            raise data_read_error(self.model, 0, error) from error


def _unit_seconds(executor: FleetExecutor, number: int, devices: int) -> list[float]:
    """Seconds of each unit while `devices` devices computed; the first mini-batch only counts if there is no other."""
    length = len(executor.model_runs[number].job.units)
    model_units = [unit for unit in executor.placed if unit.model == number]
    crowded = (devices - 1) - 0.5  # other devices, of which one may have been idle half of the time
    result = []
    for index in range(length):
        turns = [unit for unit in model_units if unit.unit % length == index]
        counted = [unit for unit in turns if unit.unit >= length] or turns[-1:]
        full = [unit for unit in counted if _count_concurrent(unit, executor.placed) > crowded] or counted
        result.append(_trimmed_mean([unit.end - unit.start for unit in full]))
    return result


def _count_concurrent(placed: ScheduledUnit, others: Iterable[ScheduledUnit]) -> float:
    length = placed.end - placed.start
    shared = sum(max(0.0, min(placed.end, other.end) - max(placed.start, other.start)) for other in others)
    return shared / length - 1 if length else 0.0


def _merge_timings(all_of: Iterable[TransferTimings]) -> TransferTimings:
    merged = TransferTimings()
    for timings in all_of:
        merged.copied_in += timings.copied_in
        merged.copied_out += timings.copied_out
        merged.pauses += timings.pauses
    return merged


def _fit_line(samples: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """Return seconds per transfer and per byte by a linear fit over measured sizes; neither is negative."""
    sizes = sorted({size for size, _ in samples})
    if not sizes:
        return 0.0, 0.0
    means = [_trimmed_mean([seconds for size, seconds in samples if size == sample_size]) for sample_size in sizes]
    slope, fixed = np.polyfit(sizes, means, 1) if len(sizes) > 1 else (0.0, means[0])
    if slope < 0:
        return statistics.mean(means), 0.0
    if fixed < 0:
        return 0.0, sum(means) / max(sum(sizes), 1)
    return float(fixed), float(slope)


def _trimmed_mean(seconds: Sequence[float]) -> float:
    """Mean, as means add up to a makespan; from four values on without the longest, which may be disturbed."""
    return statistics.mean(sorted(seconds)[:-1] if len(seconds) >= _LEAST_TRIMMED else seconds)


def _transfer_seconds(
    function: UnitFunction, host_to_device: tuple[float, float], device_to_host: tuple[float, float]
) -> tuple[float, float, float]:
    """Return the seconds to load the shard, to store its changes, and to load the boundary activations."""
    sizes = {key: spec.size * spec.dtype.itemsize for key, spec in zip(function.reads, function.specs, strict=True)}
    shard = sum(size for key, size in sizes.items() if key[0] in ("piece", "state"))
    changed = sum(size for key, size in sizes.items() if key in function.writes)
    return (
        host_to_device[0] + shard * host_to_device[1],
        device_to_host[0] + changed * device_to_host[1],
        (sum(sizes.values()) - shard) * host_to_device[1],
    )
