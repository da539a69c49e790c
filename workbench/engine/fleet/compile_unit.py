"""Compile a shard unit for one device of a fleet."""

from dataclasses import dataclass
from typing import Any

import jax

from workbench.engine.fleet.shard_units import UnitFunction


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
