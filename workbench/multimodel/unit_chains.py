"""Models to train together, as chains of shard units (Hydra: Nagrecha and Kumar 2022, section 4.4)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

from workbench.errors import FleetError

MOST_DEVICES = 4_096  # the simulation visits every device at every step


class Pass(StrEnum):
    """Pass of a unit over its shard; `forward_loss` combines last forward and first backward pass."""

    FORWARD = "forward"
    FORWARD_LOSS = "forward_loss"
    BACKWARD = "backward"


@dataclass(frozen=True, slots=True)
class Unit:
    """One pass of one shard over one mini-batch (Hydra's shard unit). All times in seconds, on one device.

    - `seconds`: compute time; of a backward unit including the recomputation of its shard from the saved input;
    - `load`: time to copy the shard's parameters and optimizer state to the device; `store`: to copy the changes back;
    - `carry`: time to copy the boundary activations or gradients at its start to the device; the preceding unit stored
      as much;
    - `slowed`: additional seconds for each other computing device, if devices share cores;
    - `pause`: overhead between the preceding unit on the device and its start once its state is loaded.
    """

    shard: int
    kind: Pass
    seconds: float
    load: float = 0.0
    store: float = 0.0
    carry: float = 0.0
    slowed: float = 0.0
    pause: float = 0.0

    def seconds_among(self, devices: int) -> float:
        """Compute time while this number of devices compute, this one included.

        >>> Unit(0, Pass.FORWARD, 2.0, slowed=0.5).seconds_among(devices=3)
        3.0
        """
        return self.seconds + self.slowed * (devices - 1)

    @property
    def least_time(self) -> float:
        """The smallest of its times, to detect negative ones."""
        return min(self.seconds, self.load, self.store, self.carry, self.slowed, self.pause)


@dataclass(frozen=True)
class Job:
    """One model: the units of a mini-batch in order, and the number of mini-batches.

    **Invariants**

    - Names are unique in a fleet (`verify_names`).
    - There is at least one unit, mini-batch and epoch; no time is negative.
    """

    name: str
    units: tuple[Unit, ...]
    mini_batches: int = 1
    epochs: int = 1

    def __post_init__(self) -> None:
        if not self.units or self.mini_batches < 1 or self.epochs < 1:
            summary = f"{len(self.units)} units, {self.mini_batches} mini-batches, {self.epochs} epochs"
            raise FleetError(f"Model `{self.name}` has {summary}.", ["each must be at least 1"])
        if any(shard_unit.least_time < 0 for shard_unit in self.units):
            raise FleetError(f"A unit of model `{self.name}` has a negative duration.", ["measure it again"])

    @cached_property
    def mini_batch_seconds(self) -> float:
        return sum(each.seconds for each in self.units)

    @property
    def length(self) -> int:
        return len(self.units) * self.mini_batches * self.epochs

    @property
    def seconds(self) -> float:
        """Total compute time, R_i in the bounds."""
        return self.mini_batch_seconds * self.mini_batches * self.epochs

    def with_contention(self, devices: int) -> "Job":
        """Return the job with unit times as if this number of devices always compute."""
        return replace(
            self, units=tuple(replace(shard_unit, seconds=shard_unit.seconds_among(devices), slowed=0.0) for shard_unit in self.units)
        )

    def device_seconds(self, devices: int, done: int = 0) -> float:
        """Least device time of the remaining units: alone, with all devices reserved for it, or while all compute."""
        least = (replace(each, seconds=min(each.seconds * devices, each.seconds_among(devices))) for each in self.units)
        return replace(self, units=tuple(least)).remaining(done)

    def unit(self, index: int) -> Unit:
        return self.units[index % len(self.units)]

    def remaining(self, done: int) -> float:
        """Remaining compute seconds after `done` units: `((e - 1) b + c_e - 1) t + c_m` of Hydra's Algorithm 2.

        >>> chain = tuple(Unit(0, Pass.FORWARD, 1.5) for _ in range(2))
        >>> Job("a", chain, mini_batches=10, epochs=2).remaining(done=6 * 2 + 1)
        40.5
        """
        batches, offset = divmod(done, len(self.units))
        left = self.mini_batches * self.epochs - batches
        return (left - 1) * self.mini_batch_seconds + sum(shard_unit.seconds for shard_unit in self.units[offset:]) if left > 0 else 0.0

    def with_unit_seconds(self, index: int, seconds: float) -> "Job":
        """Replace the time of one unit of the mini-batch: measured times feed the policy."""
        units = tuple(replace(shard_unit, seconds=seconds) if i == index else shard_unit for i, shard_unit in enumerate(self.units))
        return replace(self, units=units)


def chain(name: str, seconds: tuple[float, ...], mini_batches: int = 1, epochs: int = 1) -> Job:
    """Return a job of forward units with these times and no transfers.

    >>> chain("a", (2.0, 2.0)).seconds
    4.0
    """
    return Job(name, tuple(Unit(i, Pass.FORWARD, duration) for i, duration in enumerate(seconds)), mini_batches, epochs)


def verify_names(names: Sequence[str]) -> None:
    """Raises `FleetError` without models or for duplicate names."""
    if not names:
        raise FleetError("The fleet has no models.", ["list at least one"])
    counts = Counter(names)
    if (twice := next((name for name in names if counts[name] > 1), None)) is not None:
        raise FleetError(f"{counts[twice]} models are named `{twice}`.", [f"name the second one `{twice}_2`, for example"])


def verify_devices(devices: int) -> None:
    """Raises `FleetError` without devices, or for more than a simulation supports."""
    if devices < 1:
        raise FleetError(f"There are {devices} devices to train on.", ["at least one is required"])
    if devices > MOST_DEVICES:
        raise FleetError(
            f"{devices:,} devices are {devices / MOST_DEVICES:,.0f} times the limit of a fleet simulation, {MOST_DEVICES:,}.",
            ["use at most one device per model: each model runs one unit at a time", f"give {MOST_DEVICES:,}"],
        )
