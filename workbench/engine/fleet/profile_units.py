"""Measure how long units take before a run, under the conditions of the run: with the executor itself, on state that is thrown away.

Virtual devices of this machine share its cores: a unit alone may be twice as fast as when every device computes. So there the models are
profiled twice, each alone on one device, then together on all of them; elsewhere devices have cores of their own, and the first is enough.
One warm-up mini-batch is not counted. Transfers are timed too, and the executor's overhead between two units.
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
"""A subfolder of the fleet's folder in which checkpoints are written while profiling; no model's name begins with a dot."""
_SECONDS_PER_MODEL, _MOST_BATCHES, _ENDLESS_BATCHES = 0.1, 40, 1_000_000  # limits for each model, and a number never reached
_LEAST_TRIMMED = 4  # with at least so many measurements the longest is dropped
UnitKey = tuple[Any, tuple[int, ...]]


@dataclass
class UnitProfile:
    """Seconds of each unit of a mini-batch, by the key of models with equal units, alone and among so many devices; and the transfer times
    around them."""

    seconds_alone: dict[UnitKey, list[float]] = field(default_factory=dict)
    seconds_together: dict[UnitKey, list[float]] = field(default_factory=dict)
    concurrent_devices: int = 1
    timings: TransferTimings = field(default_factory=TransferTimings)

    @property
    def host_to_device(self) -> tuple[float, float]:
        """Seconds of any transfer from the host, and per byte."""
        return _fit_line(self.timings.copied_in)

    def job(self, cut: PartitionedModel) -> Job:
        """The model as the simulator sees it."""
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
    """Profile all models on devices like these; without units compiled for each, the first device stands in for the other devices of this
    machine.

    The result is cached for equal models under equal conditions. Raises what a run raises: `FleetError` where the memory does not suffice
    or the data run out, and what a user's function raises.
    """
    distinct = list({each.unit_key: each for each in cuts}.values())
    others = [each for each in cuts if not any(each is one for one in distinct)]
    participants = (*distinct, *others[: max(0, len(devices) - len(distinct))])
    unit_keys, device_budgets = tuple(each.unit_key for each in participants), tuple((each.device, each.budget) for each in devices)
    settings = fleet.double_buffer, fleet.spill, fleet.folder is None
    return _profile_case(_ProfileCase(unit_keys, device_budgets, settings, len(distinct), participants, fleet, tuple(devices)))


@dataclass(frozen=True)
class _ProfileCase:
    """What a profile depends on, and the models that take part: of the `participants` the first so many are `distinct`."""

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
    found = UnitProfile()
    _warm_up(participants[: case.distinct], len(devices))
    for each in participants[: case.distinct]:
        executor, timings = _run_models([each], fleet, devices[:1])
        found.seconds_alone[each.unit_key] = _unit_seconds(executor, 0, 1)
        found.timings = _merge_timings((found.timings, *timings))
    if len(devices) > 1 and len(participants) > 1 and devices[0].device.platform == "cpu":
        found.concurrent_devices = min(len(devices), len(participants))
        executor, timings = _run_models(participants, fleet, devices[: found.concurrent_devices])
        found.seconds_together = {
            each.unit_key: _unit_seconds(executor, number, found.concurrent_devices)
            for number, each in reversed(list(enumerate(participants)))
        }
        found.timings = _merge_timings(timings)
    return found


def _warm_up(cuts: Sequence[PartitionedModel], devices: int) -> None:
    """Run each unit once on each of the first so many devices: a first execution takes longer.

    The devices do so in parallel, each with one unit at a time: the units of two models may be more than a device's memory holds.
    """

    def once(device: int) -> None:
        for cut in cuts:
            for each in cut.compiled[device]:
                zeros = [_zeros(spec) for spec in each.unit.specs]
                jax.block_until_ready(each.compiled(*jax.device_put(zeros, each.compiled.input_shardings[0][0])))

    compiled_for = min(len(cut.compiled) for cut in cuts)
    with ThreadPoolExecutor() as pool:
        for running in [pool.submit(once, device) for device in range(min(devices, compiled_for))]:
            running.result()


def _zeros(spec: jax.ShapeDtypeStruct) -> Any:
    is_key = jax.dtypes.issubdtype(spec.dtype, jax.dtypes.prng_key)
    return jnp.empty(spec.shape, spec.dtype) if is_key else np.zeros(spec.shape, spec.dtype)


def _run_models(
    participants: Sequence[PartitionedModel], fleet: Fleet, devices: Sequence[FleetDevice]
) -> tuple[FleetExecutor, list[TransferTimings]]:
    """The executor that has run these models for a while, each in turn."""
    timings = [TransferTimings() for _ in devices]
    stand_ins = [FleetDevice(i, each.device, each.budget, timings=timings[i]) for i, each in enumerate(devices)]
    folder = None if fleet.folder is None else fleet.folder / FOLDER
    executor = FleetExecutor(stand_ins, policy_named("round-robin"), double_buffer=fleet.double_buffer)
    executor.listen(_StopWhenTimed(executor, [len(each.units.functions) for each in participants]))
    try:
        for number, each in enumerate(participants):
            executor.membership.add(_make_stand_in(number, each, fleet, devices, folder))
        executor.run()
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
    if failure := next((each.failure for each in executor.model_runs if each.failure), None):
        raise failure
    return executor, timings


class _StopWhenTimed:
    """Ends all models together, so that all devices compute to the last: when each has run twice, for long enough, or often enough."""

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
        long = time.perf_counter() - self._began > _SECONDS_PER_MODEL * len(batches) or max(batches) > _MOST_BATCHES
        if not self._over and long and min(batches) > 1:
            self._over = True
            for number in range(len(self._lengths)):
                self._executor.membership.stop(str(number))


def _make_stand_in(number: int, cut: PartitionedModel, fleet: Fleet, devices: Sequence[FleetDevice], folder: Path | None) -> ModelRun:
    """A model with the same units and data, whose parameters are zeros and which does not end."""
    model, units = cut.model, cut.units.functions
    twin = FleetModel(str(number), model.program, _ENDLESS_BATCHES)
    job = Job(twin.name, tuple(Unit(each.shard, each.kind, 1.0) for each in units), _ENDLESS_BATCHES)
    store = HostStore(folder and folder / twin.name, on_disk=fleet.spill == "disk", pinned=pinned_sharding(devices[0].device))
    state = {key: spec for each in units for key, spec in zip(each.reads, each.specs, strict=True) if key[0] in ("piece", "state")}
    store.put({key: np.zeros(spec.shape, spec.dtype) for key, spec in state.items()})
    compiled = cut.compiled if len(cut.compiled) >= len(devices) else cut.compiled[:1] * len(devices)
    return ModelRun(twin, job, _FirstBatch(model), store, compiled, last=job.length)


@dataclass(frozen=True)
class _FirstBatch:
    """Repeats the first mini-batch of a model: later ones may not exist, and profiling should not consume them."""

    model: FleetModel

    def __call__(self, step: int) -> Sequence[Any]:  # noqa: ARG002
        try:
            return self.model.program.step.feed(0)
        except (StopIteration, IndexError) as error:
            raise data_ran_out_error(self.model, 0) from error
        except Exception as error:  # whatever a user's function raises
            raise data_read_error(self.model, 0, error) from error


def _unit_seconds(executor: FleetExecutor, number: int, devices: int) -> list[float]:
    """Seconds of each unit of a mini-batch while so many devices computed; the first mini-batch does not count if there are others."""
    length = len(executor.model_runs[number].job.units)
    model_units = [each for each in executor.placed if each.model == number]
    crowded = (devices - 1) - 0.5  # the other devices, of which one may have been idle half of the time
    found = []
    for index in range(length):
        turns = [each for each in model_units if each.unit % length == index]
        late = [each for each in turns if each.unit >= length] or turns[-1:]
        full = [each for each in late if _count_concurrent(each, executor.placed) > crowded] or late
        found.append(_trimmed_mean([each.end - each.start for each in full]))
    return found


def _count_concurrent(placed: ScheduledUnit, others: Iterable[ScheduledUnit]) -> float:
    """How many other units ran at the same time, on average."""
    length = placed.end - placed.start
    shared = sum(max(0.0, min(placed.end, each.end) - max(placed.start, each.start)) for each in others)
    return shared / length - 1 if length else 0.0


def _merge_timings(all_of: Iterable[TransferTimings]) -> TransferTimings:
    found = TransferTimings()
    for each in all_of:
        found.copied_in += each.copied_in
        found.copied_out += each.copied_out
        found.pauses += each.pauses
    return found


def _fit_line(samples: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """Seconds of any transfer, and per byte: a line fitted through the measured sizes; neither is below zero."""
    sizes = sorted({size for size, _ in samples})
    if not sizes:
        return 0.0, 0.0
    took = [_trimmed_mean([seconds for size, seconds in samples if size == each]) for each in sizes]
    slope, fixed = np.polyfit(sizes, took, 1) if len(sizes) > 1 else (0.0, took[0])
    if slope < 0:
        return statistics.mean(took), 0.0
    if fixed < 0:
        return 0.0, sum(took) / max(sum(sizes), 1)
    return float(fixed), float(slope)


def _trimmed_mean(seconds: Sequence[float]) -> float:
    """The mean, because means add up to a makespan; from four values on without the longest, when another process may have disturbed it."""
    return statistics.mean(sorted(seconds)[:-1] if len(seconds) >= _LEAST_TRIMMED else seconds)


def _transfer_seconds(
    function: UnitFunction, host_to_device: tuple[float, float], device_to_host: tuple[float, float]
) -> tuple[float, float, float]:
    """Seconds to load its shard, to store what it changes, and to load its boundary activations."""
    sizes = {key: each.size * each.dtype.itemsize for key, each in zip(function.reads, function.specs, strict=True)}
    shard = sum(size for key, size in sizes.items() if key[0] in ("piece", "state"))
    changed = sum(size for key, size in sizes.items() if key in function.writes)
    return (
        host_to_device[0] + shard * host_to_device[1],
        device_to_host[0] + changed * device_to_host[1],
        (sum(sizes.values()) - shard) * host_to_device[1],
    )
