"""A schedule of shard units on devices: simulated, solved exactly, or measured in a run."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from workbench.multimodel.unit_chains import Job


@dataclass(frozen=True, slots=True)
class ScheduledUnit:
    """One unit on one device, seconds from the start. `unit` counts from the model's first mini-batch.

    `load`: when the transfer of its state to the device began; `lost`: its device left before it finished, so it is
    repeated.
    """

    model: int
    unit: int
    device: int
    start: float
    end: float
    load: float
    lost: bool = False


@dataclass(frozen=True)
class FleetSchedule:
    """A schedule: all units in order of their start.

    **Invariants** (tested for every policy; violations are listed by `faults`)

    - The units of a model run in sequence; a device runs one unit at a time.
    """

    devices: int
    placed: tuple[ScheduledUnit, ...]
    decisions: int = 0  # number of policy decisions

    @cached_property
    def makespan(self) -> float:
        return max((unit.end for unit in self.placed), default=0.0)

    @cached_property
    def busy(self) -> float:
        """Fraction of device time in which units compute."""
        total = self.makespan * self.devices
        return sum(unit.end - unit.start for unit in self.placed) / total if total else 0.0

    def finish_time(self, model: int) -> float:
        return max((unit.end for unit in self.placed if unit.model == model), default=0.0)

    def faults(self) -> list[str]:
        """Describe each violation of the invariants; empty for a valid schedule."""
        violations = []
        for device in range(self.devices):
            violations += _list_overlaps(f"device {device}", [unit for unit in self.placed if unit.device == device])
        for model in sorted({unit.model for unit in self.placed}):
            units = sorted((unit for unit in self.placed if unit.model == model and not unit.lost), key=lambda unit: unit.unit)
            violations += [f"model {model} skips unit {i}" for i, unit in enumerate(units) if unit.unit != i][:1]
            violations += _list_overlaps(f"model {model}", units)
            violations += [f"model {model} runs unit {b.unit} before {a.unit}" for a, b in pairwise(units) if b.start < a.start]
        return violations


def _list_overlaps(whose: str, placed: list[ScheduledUnit]) -> list[str]:
    by_start = sorted(placed, key=lambda unit: unit.start)
    return [f"{whose} runs two units at {b.start:g}" for a, b in pairwise(by_start) if b.start < a.end - 1e-9]


# Lower and upper bounds on a schedule (Hydra TR, section 4; partly derived here).


def lower_bound(jobs: Sequence[Job], devices: int, done: Sequence[int] = ()) -> float:
    """Lower bound on the makespan, `max(sum R_i / P, max R_i)`: total work per device, or the longest model.

    If devices slow each other down, the work is counted as if all compute (a unit of `s` seconds among `k` devices uses
    `s / k` of each second of all devices, which is least with all of them), and the longest model as if it were alone.
    Units that are `done` do not count.

    >>> from workbench.multimodel.unit_chains import chain
    >>> lower_bound([chain("a", (1.0,) * 4), chain("b", (1.0,) * 4), chain("c", (1.0,) * 8)], devices=2)
    8.0
    """
    remaining = list(zip(jobs, done or [0] * len(jobs), strict=True))
    return max(
        sum(job.device_seconds(devices, begin) for job, begin in remaining) / devices, *(job.remaining(begin) for job, begin in remaining)
    )


def list_bound(jobs: Sequence[Job], devices: int) -> float:
    """Upper bound of list schedules: `(2 - 1/P)` times the lower bound, for units at their slowest (Graham 1966)."""
    return (2 - 1 / devices) * lower_bound([job.with_contention(devices) for job in jobs], devices)


def pack_models(lengths: Sequence[float], devices: int) -> float:
    """Seconds of whole models, longest first onto the first free device: at most 4/3 of the optimum (Graham 1969)."""
    loads = [0.0] * devices
    for length in sorted(lengths, reverse=True):
        loads[loads.index(min(loads))] += length
    return max(loads)


# Other strategies for the same models and their durations (Hydra TR, section 4; partly derived here).


@dataclass(frozen=True, slots=True)
class Strategy:
    """Another way to train the same models: total seconds without transfers; `note` states its assumptions."""

    name: str
    seconds: float
    note: str


def strategies(jobs: Sequence[Job], devices: int, micro_batches: int | None = None) -> tuple[Strategy, ...]:
    """Durations of sequential, model parallel, task parallel and pipelined training; four micro-batches per device.

    >>> from workbench.multimodel.unit_chains import chain
    >>> three = [chain(name, (1.0,) * 4) for name in "abc"]
    >>> [(each.name, each.seconds) for each in strategies(three, devices=2, micro_batches=8)]
    [('one at a time', 12.0), ('model parallel', 12.0), ('task parallel', 8.0), ('pipelined', 6.75)]
    """
    micro_batch_count = micro_batches or 4 * devices
    total = sum(job.seconds for job in jobs)
    contended = [job.with_contention(devices).seconds for job in jobs]
    return (
        Strategy("one at a time", total, "each model alone on one device"),
        Strategy("model parallel", total, "each model over all devices, one device computes at a time"),
        Strategy("task parallel", pack_models(contended, devices), "each whole model on one device, if it fits"),
        Strategy(
            "pipelined",
            sum(contended) * (micro_batch_count + devices - 1) / (micro_batch_count * devices),
            f"each model over all devices, {micro_batch_count} micro-batches, balanced",
        ),
    )
