"""A schedule of shard units on devices: predicted by the simulator, found by the exact solver, or measured in a run."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise


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
