"""A schedule of shard units on devices: predicted by the simulator, found by the exact solver, or measured in a run."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from workbench.multimodel.unit_chains import Job


@dataclass(frozen=True, slots=True)
class ScheduledUnit:
    """One unit on one device, seconds from the start. `unit` counts from the model's first mini-batch on.

    `load` is when the transfer of its state to the device began; `lost` means that its device left before it was done, so it is repeated.
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

    **Invariants** (held by tests on every policy, and by `faults`)

    - The units of a model run one after the other, in order; a device runs one unit at a time.
    """

    devices: int
    placed: tuple[ScheduledUnit, ...]
    decisions: int = 0  # how often the policy was asked

    @cached_property
    def makespan(self) -> float:
        return max((each.end for each in self.placed), default=0.0)

    @cached_property
    def busy(self) -> float:
        """The share of device time in which units compute."""
        total = self.makespan * self.devices
        return sum(each.end - each.start for each in self.placed) / total if total else 0.0

    def finish_time(self, model: int) -> float:
        """When the last unit of a model ends, in seconds."""
        return max((each.end for each in self.placed if each.model == model), default=0.0)

    def faults(self) -> list[str]:
        """Violations of the invariants, in words; empty for a valid schedule."""
        found = []
        for device in range(self.devices):
            found += _list_overlaps(f"device {device}", [each for each in self.placed if each.device == device])
        for model in sorted({each.model for each in self.placed}):
            units = sorted((each for each in self.placed if each.model == model and not each.lost), key=lambda each: each.unit)
            found += [f"model {model} skips unit {i}" for i, each in enumerate(units) if each.unit != i][:1]
            found += _list_overlaps(f"model {model}", units)
            found += [f"model {model} runs unit {b.unit} before {a.unit}" for a, b in pairwise(units) if b.start < a.start]
        return found


def _list_overlaps(whose: str, placed: list[ScheduledUnit]) -> list[str]:
    in_order = sorted(placed, key=lambda each: each.start)
    return [f"{whose} runs two units at {b.start:g}" for a, b in pairwise(in_order) if b.start < a.end - 1e-9]


# Lower and upper bounds on a schedule (Hydra TR, section 4; partly derived here).


def lower_bound(jobs: Sequence[Job], devices: int, done: Sequence[int] = ()) -> float:
    """`max(sum R_i / P, max R_i)`: all the work shared out, or the longest model, whose units run one after the other.

    On devices that slow each other down the work is counted as if all compute (a unit of `s` seconds among `k` devices takes up `s / k` of
    each second of all of them, which is least with all of them), and the longest model as if it were alone. Units that are `done` do not
    count.

    >>> from workbench.multimodel.unit_chains import chain
    >>> lower_bound([chain("a", (1.0,) * 4), chain("b", (1.0,) * 4), chain("c", (1.0,) * 8)], devices=2)
    8.0
    """
    left = list(zip(jobs, done or [0] * len(jobs), strict=True))
    return max(sum(job.device_seconds(devices, begin) for job, begin in left) / devices, *(job.remaining(begin) for job, begin in left))


def list_bound(jobs: Sequence[Job], devices: int) -> float:
    """Upper bound of any list schedule, one that leaves no device idle while a unit is eligible (Graham 1966): `(2 - 1/P)` times the lower
    bound, for units at their slowest."""
    return (2 - 1 / devices) * lower_bound([each.with_contention(devices) for each in jobs], devices)


def pack_models(lengths: Sequence[float], devices: int) -> float:
    """Seconds of whole models on devices, the longest first, onto the first free device: at most 4/3 of the optimum (Graham 1969)."""
    loads = [0.0] * devices
    for length in sorted(lengths, reverse=True):
        loads[loads.index(min(loads))] += length
    return max(loads)


# Other ways to train the same models, and how long each would take (Hydra TR, section 4; partly derived here).


@dataclass(frozen=True, slots=True)
class Strategy:
    """Another way to train the same models: seconds in all, transfers not counted; `note` states its assumptions."""

    name: str
    seconds: float
    note: str


def strategies(jobs: Sequence[Job], devices: int, micro_batches: int | None = None) -> tuple[Strategy, ...]:
    """One model at a time, model parallel, task parallel, pipelined; GPipe's rule of thumb is four micro-batches per device.

    >>> from workbench.multimodel.unit_chains import chain
    >>> three = [chain(name, (1.0,) * 4) for name in "abc"]
    >>> [(each.name, each.seconds) for each in strategies(three, devices=2, micro_batches=8)]
    [('one at a time', 12.0), ('model parallel', 12.0), ('task parallel', 8.0), ('pipelined', 6.75)]
    """
    micro = micro_batches or 4 * devices
    whole = sum(each.seconds for each in jobs)
    together = [each.with_contention(devices).seconds for each in jobs]
    return (
        Strategy("one at a time", whole, "each model alone on one device"),
        Strategy("model parallel", whole, "each model over all devices, one device computes at a time"),
        Strategy("task parallel", pack_models(together, devices), "each whole model on one device, if it fits"),
        Strategy(
            "pipelined",
            sum(together) * (micro + devices - 1) / (micro * devices),
            f"each model over all devices, {micro} micro-batches, balanced",
        ),
    )
