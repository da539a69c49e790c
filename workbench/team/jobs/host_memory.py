"""Whether a run fits the memory of the machine that it would run on, where its devices are the processor's."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.core.memory_groups import machine_memory
from workbench.team.jobs.spec import JobError, JobSpec
from workbench.units import format_bytes

RESERVE, LEAST_RESERVE = 1 / 6, 2 << 30
"""Of the memory, and bytes at least, for the server itself and its rooms."""

_SUREST = ("compiled", "partitioned", "planned")
_ACCELERATORS = ("nvidia[0-9]*", "accel[0-9]*", "kfd")


@dataclass(frozen=True, slots=True)
class JobMemory:
    """Bytes of one host in all, and those that jobs may use."""

    total: int
    usable: int

    def within(self, limit: int | None) -> "JobMemory":
        """The same, of which jobs may use no more than this."""
        return JobMemory(self.total, min(self.usable, limit)) if limit else self

    def share(self, processes: int) -> int:
        """Bytes of each of so many processes."""
        return self.usable // processes


def own_memory(environment: Mapping[str, str] = os.environ, devices: Path = Path("/dev")) -> JobMemory | None:
    """That of this machine; none where jobs run on accelerators, which have their own."""
    has_accelerators = any(any(devices.glob(each)) for each in _ACCELERATORS)
    if has_accelerators and environment.get("JAX_PLATFORMS", "") != "cpu":
        return None
    total = machine_memory()
    return JobMemory(total, max(total - max(round(total * RESERVE), LEAST_RESERVE), 0))


def surest_peak(figures: Mapping[str, Mapping[str, Any]]) -> float | None:
    """Bytes at the peak of a device, as the surest tier that knows them says."""
    found = (figures.get(tier, {}).get("peak_bytes") for tier in _SUREST)
    return next((each for each in found if each), None)


def verify_fits(spec: JobSpec, peak: float | None, memory: JobMemory | None, hosts: int) -> int:
    """The bytes that the devices of a run need on each of so many hosts, 0 where nothing is known of them.

    Raises `JobError` where that is more than there is; what is not known is not refused.
    """
    if spec.kind != "run" or not peak or memory is None:
        return 0
    devices = -(-spec.devices // hosts)
    if devices * peak <= memory.usable:
        return round(devices * peak)
    where = "this server" if hosts == 1 else f"each of {hosts} hosts"
    raise JobError(
        f"The run needs {devices} x {format_bytes(peak)} = {format_bytes(devices * peak)} of memory on {where}, which has "
        f"{format_bytes(memory.total)}; jobs may use {format_bytes(memory.usable)} of that.",
        ["choose fewer devices", "choose a smaller batch or a layout that needs less memory", "choose another engine"],
    )
