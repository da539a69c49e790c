"""One model of a fleet while it trains: its units on each device, its state on the host, and how far it is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from workbench.engine.fleet_devices import CompiledUnit
from workbench.engine.fleet_store import HostStore
from workbench.errors import FleetError
from workbench.multimodel import Job
from workbench.multimodel.fleet import FleetModel

Feed = Callable[[int], Sequence[Any]]


@dataclass
class Trainee:
    """Where one model stands. `begun` units were given to a device, `done` are back on the host; it is idle when these are equal."""

    model: FleetModel
    job: Job
    feed: Feed
    store: HostStore
    units: tuple[tuple[CompiledUnit, ...], ...]  # of each device, in the order of the mini-batch
    begun: int = 0
    done: int = 0
    last: int = 0
    started: float = float("-inf")
    losses: list[float] = field(default_factory=list)
    batch: tuple[int, dict[int, Any]] = (-1, {})
    about: dict[str, Any] = field(default_factory=dict)  # what a checkpoint is of

    @property
    def idle(self) -> bool:
        return self.begun == self.done < self.last

    def leaf(self, step: int, number: int) -> Any:
        """A leaf of mini-batch `step`; raises `FleetError` where the data run out."""
        if self.batch[0] != step:
            try:
                leaves = self.feed(step)
            except (StopIteration, IndexError) as error:
                batches = self.model.mini_batches * self.model.epochs
                raise FleetError(
                    f"The data of model `{self.model.name}` run out at mini-batch {step + 1} of {batches}.",
                    ["give it fewer mini-batches or epochs", "let the data begin again"],
                ) from error
            self.batch = (step, dict(enumerate(leaves)))
        return self.batch[1][number]
