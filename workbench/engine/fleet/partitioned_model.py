"""One model of a fleet, partitioned into shards that fit the devices, with its units compiled for each."""

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
    """A unit compiled for one device; `peak_bytes` is its peak memory, arguments and results included, as the compiler states it."""

    unit: UnitFunction
    compiled: jax.stages.Compiled
    peak_bytes: int

    @property
    def input_bytes(self) -> int:
        """Bytes that must be copied to the device for it."""
        return self.unit.input_bytes


def compile_unit(unit: UnitFunction, device: jax.Device, name: str) -> CompiledUnit:
    """Compile the unit for this device."""
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
    """A model, the blocks at which its shards begin, and its compiled units on each device."""

    model: FleetModel
    starts: tuple[int, ...]
    compiled: Compiled

    @property
    def units(self) -> ModelUnits:
        return units_of(self.model.program, self.starts)

    @property
    def needs(self) -> tuple[int, ...]:
        """Peak bytes of each shard: those of its larger unit."""
        units = self.compiled[0]
        return tuple(max(each.peak_bytes for each in units if each.unit.shard == shard) for shard in range(len(self.starts)))

    @property
    def unit_key(self) -> tuple[Program, tuple[int, ...]]:
        """A key that is equal for models whose units are the same."""
        return self.model.program, self.starts


def shard_starts(model: FleetModel, fleet: Fleet, devices: Sequence[FleetDevice]) -> tuple[int, ...]:
    """The blocks at which shards begin: those the model gives, else as the memory allows."""
    network = network_of(model.program)
    rooms = [Room(each.budget, fleet.buffer if fleet.double_buffer else 0.0) for each in devices if each.budget]
    layers = layers_of(model.program)
    given = (0, *starts_at(network, model.cuts)) if model.cuts else None
    if not rooms:
        return given or (0,)
    measure = _make_measure(model, devices[0].device)
    return greedy_shards(layers, rooms, measure) if given is None else verify_shards(layers, given, rooms, measure)


def _make_measure(model: FleetModel, device: jax.Device) -> Any:
    """A function that compiles a shard of some blocks and returns its bytes."""
    network = network_of(model.program)

    def measure(begin: int, end: int) -> int:
        starts = sorted({begin, end} - {0, len(network.paths)})
        partition = partition_network(network, starts)
        shard = next(each.number for each in partition.virtual_stages if each.blocks[0] == network.paths[begin])
        functions = ModelUnits(model.program, partition).of_shard(shard)
        return max(compile_unit(each, device, f"{model.name}_pilot").peak_bytes for each in functions)

    return measure


@lru_cache(maxsize=64)
def units_of(program: Program, starts: tuple[int, ...]) -> ModelUnits:
    return ModelUnits(program, partition_network(network_of(program), starts[1:]))


def compile_units(program: Program, starts: tuple[int, ...], devices: Sequence[jax.Device]) -> Compiled:
    """The units compiled for each device, in threads: XLA releases the interpreter lock meanwhile."""
    indices = range(len(units_of(program, starts).functions))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [[pool.submit(_compile_cached, program, starts, index, device) for index in indices] for device in devices]
        return tuple(tuple(each.result() for each in units) for units in found)


@lru_cache(maxsize=512)
def _compile_cached(program: Program, starts: tuple[int, ...], index: int, device: jax.Device) -> CompiledUnit:
    """Models that differ only in their seed, say, share compiled units."""
    unit = units_of(program, starts).functions[index]
    return compile_unit(unit, device, f"{unit.kind.value}_{unit.shard}")
