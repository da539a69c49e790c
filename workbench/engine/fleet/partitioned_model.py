"""One model of a fleet, partitioned into shards that fit the devices, with compiled units for each device."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax

from workbench.core.program import Program
from workbench.engine.fleet.device_and_host_arrays import FleetDevice
from workbench.engine.fleet.shard_units import ModelUnits, UnitFunction
from workbench.multimodel.fleet import Fleet, FleetModel
from workbench.multimodel.greedy_partition import Room, greedy_shards, verify_shards
from workbench.multimodel.unit_estimates import layers_of
from workbench.tracing.stage_partition.partition_network import partition_network, starts_at
from workbench.tracing.stage_partition.trace_network import network_of

# Compile a shard unit for one device of a fleet.


@dataclass(frozen=True)
class CompiledUnit:
    """A unit compiled for one device; `peak_bytes`: the compiler's peak memory, including arguments and results."""

    unit: UnitFunction
    compiled: jax.stages.Compiled
    peak_bytes: int

    @property
    def input_bytes(self) -> int:
        return self.unit.input_bytes


def compile_unit(unit: UnitFunction, device: jax.Device, name: str) -> CompiledUnit:
    sharding = jax.sharding.SingleDeviceSharding(device)

    def call(*arrays: Any) -> tuple[Any, ...]:
        return unit.call(*arrays)

    call.__name__ = name
    jitted = jax.jit(call, in_shardings=sharding, out_shardings=sharding, donate_argnums=unit.donated, keep_unused=True)
    compiled = jitted.lower(*unit.specs).compile()
    stats = compiled.memory_analysis()
    peak_bytes = (
        unit.input_bytes
        if stats is None
        else (stats.argument_size_in_bytes + stats.temp_size_in_bytes + stats.output_size_in_bytes - stats.alias_size_in_bytes)
    )
    return CompiledUnit(unit, compiled, max(unit.input_bytes, peak_bytes))


Compiled = tuple[tuple[CompiledUnit, ...], ...]
"""For each device the compiled units of the mini-batch."""


@dataclass(frozen=True)
class PartitionedModel:
    """A model, the first blocks of its shards, and its compiled units on each device."""

    model: FleetModel
    starts: tuple[int, ...]
    compiled: Compiled

    @property
    def units(self) -> ModelUnits:
        return units_of(self.model.program, self.starts)

    @property
    def needs(self) -> tuple[int, ...]:
        """Peak bytes of each shard, that is, of its larger unit."""
        units = self.compiled[0]
        return tuple(max(unit.peak_bytes for unit in units if unit.unit.shard == shard) for shard in range(len(self.starts)))

    @property
    def unit_key(self) -> tuple[Program, tuple[int, ...]]:
        return self.model.program, self.starts


def shard_starts(model: FleetModel, fleet: Fleet, devices: Sequence[FleetDevice]) -> tuple[int, ...]:
    """Return the first blocks of shards: specified by the model, else determined by memory."""
    network = network_of(model.program)
    rooms = [Room(device.budget, fleet.buffer if fleet.double_buffer else 0.0) for device in devices if device.budget]
    layers = layers_of(model.program)
    cut_starts = (0, *starts_at(network, model.cuts)) if model.cuts else None
    if not rooms:
        return cut_starts or (0,)
    measure = _make_measure(model, devices[0].device)
    return greedy_shards(layers, rooms, measure) if cut_starts is None else verify_shards(layers, cut_starts, rooms, measure)


def _make_measure(model: FleetModel, device: jax.Device) -> Any:
    network = network_of(model.program)

    def measure(begin: int, end: int) -> int:
        starts = sorted({begin, end} - {0, len(network.paths)})
        partition = partition_network(network, starts)
        shard = next(stage.number for stage in partition.virtual_stages if stage.blocks[0] == network.paths[begin])
        functions = ModelUnits(model.program, partition).of_shard(shard)
        return max(compile_unit(function, device, f"{model.name}_pilot").peak_bytes for function in functions)

    return measure


@lru_cache(maxsize=64)
def units_of(program: Program, starts: tuple[int, ...]) -> ModelUnits:
    return ModelUnits(program, partition_network(network_of(program), starts[1:]))


def compile_units(program: Program, starts: tuple[int, ...], devices: Sequence[jax.Device]) -> Compiled:
    """Compile the units for each device in threads, as XLA releases the interpreter lock."""
    indices = range(len(units_of(program, starts).functions))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        futures = [[pool.submit(_compile_cached, program, starts, index, device) for index in indices] for device in devices]
        return tuple(tuple(future.result() for future in units) for units in futures)


@lru_cache(maxsize=512)
def _compile_cached(program: Program, starts: tuple[int, ...], index: int, device: jax.Device) -> CompiledUnit:
    unit = units_of(program, starts).functions[index]
    return compile_unit(unit, device, f"{unit.kind.value}_{unit.shard}")
