"""Models to be trained together, as chains of shard units (Hydra: Nagrecha and Kumar 2022, section 4.4)."""

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

from workbench.errors import FleetError


class Pass(StrEnum):
    """What a unit does with its shard; the last forward and the first backward of a mini-batch may be one, `forward_loss`."""

    FORWARD = "forward"
    FORWARD_LOSS = "forward_loss"
    BACKWARD = "backward"


@dataclass(frozen=True, slots=True)
class Unit:
    """One pass of one shard over one mini-batch (H4). All times in seconds, on one device.

    - `seconds`: it computes; a backward unit recomputes its shard from the saved input (H6), which is counted here;
    - `load`: the shard's parameters and optimiser state from the host to the device, `store` what it changed back to the host;
    - `carry`: the boundary activations or gradients it starts from, host to device; the unit before it stored as much.
    """

    shard: int
    kind: Pass
    seconds: float
    load: float = 0.0
    store: float = 0.0
    carry: float = 0.0


@dataclass(frozen=True)
class Job:
    """One model: the units of a mini-batch in order, and how many mini-batches there are.

    **Invariants**

    - Names tell jobs of one fleet apart (`verify_jobs`).
    - There is a unit, a mini-batch and an epoch; no time is negative.
    """

    name: str
    units: tuple[Unit, ...]
    mini_batches: int = 1
    epochs: int = 1

    def __post_init__(self) -> None:
        if not self.units or self.mini_batches < 1 or self.epochs < 1:
            told = f"{len(self.units)} units, {self.mini_batches} mini-batches, {self.epochs} epochs"
            raise FleetError(f"Model `{self.name}` has {told}.", ["each must be 1 at least"])
        if any(min(each.seconds, each.load, each.store, each.carry) < 0 for each in self.units):
            raise FleetError(f"A unit of model `{self.name}` lasts less than no time.", ["measure it again"])

    @cached_property
    def mini_batch_seconds(self) -> float:
        return sum(each.seconds for each in self.units)

    @property
    def length(self) -> int:
        """Units in all."""
        return len(self.units) * self.mini_batches * self.epochs

    @property
    def seconds(self) -> float:
        """Compute time in all, R_i of the bounds."""
        return self.mini_batch_seconds * self.mini_batches * self.epochs

    def unit(self, index: int) -> Unit:
        """The unit at a place of the whole chain."""
        return self.units[index % len(self.units)]

    def remaining(self, done: int) -> float:
        """Seconds still to compute after `done` units: `((e - 1) b + c_e - 1) t + c_m` of Algorithm 2.

        >>> chain = tuple(Unit(0, Pass.FORWARD, 1.5) for _ in range(2))
        >>> Job("a", chain, mini_batches=10, epochs=2).remaining(done=6 * 2 + 1)
        40.5
        """
        batches, into = divmod(done, len(self.units))
        left = self.mini_batches * self.epochs - batches
        return (left - 1) * self.mini_batch_seconds + sum(each.seconds for each in self.units[into:]) if left > 0 else 0.0

    def measured(self, place: int, seconds: float) -> "Job":
        """The job with another time for one unit of the mini-batch: what was measured feeds the policy."""
        units = tuple(replace(each, seconds=seconds) if i == place else each for i, each in enumerate(self.units))
        return replace(self, units=units)


def chain(name: str, seconds: tuple[float, ...], mini_batches: int = 1, epochs: int = 1) -> Job:
    """A job of forward units with these times and nothing to transfer.

    >>> chain("a", (2.0, 2.0)).seconds
    4.0
    """
    return Job(name, tuple(Unit(i, Pass.FORWARD, each) for i, each in enumerate(seconds)), mini_batches, epochs)


def verify_jobs(jobs: tuple[Job, ...]) -> None:
    """Raises `FleetError` where there is none, or two have one name."""
    if not jobs:
        raise FleetError("There is no model to train.", ["list one at least"])
    names = [each.name for each in jobs]
    for name in names:
        if names.count(name) > 1:
            raise FleetError(f"{names.count(name)} models are named `{name}`.", [f"name the second one `{name}_2`, say"])
