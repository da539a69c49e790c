"""The state of a model and of a device in the simulation."""

from dataclasses import dataclass

from workbench.multimodel.unit_chains import Job
from workbench.multimodel.unit_schedule import ScheduledUnit


@dataclass(slots=True)
class ModelState:
    """The state of one job. Its units end before `last`; a model that stops has fewer."""

    job: Job
    available: bool
    done: int
    last: int
    reserved: bool = False  # a unit of it runs, or is loaded
    back: float = 0.0  # when what its last unit changed is on the host
    started: float = float("-inf")

    def is_idle(self, now: float) -> bool:
        return self.available and not self.reserved and self.done < self.last and self.back <= now


@dataclass(slots=True)
class DeviceState:
    """What is on one device, and what runs there. `shard` is the (model, shard) whose state it holds."""

    available: bool = True
    running: ScheduledUnit | None = None
    next: int | None = None  # the model whose unit is loaded
    load_start: float = 0.0  # when its transfer began
    ready: float = 0.0  # when its state is there
    free: float = 0.0  # when it may compute the next one
    link: float = 0.0  # when the copy engine from the host is free
    out: float = 0.0  # and the one to the host
    shard: tuple[int, int] | None = None
    place: int = 0  # index of the running unit in the list of placed units
    left: float = 1.0  # the fraction of it that was left at `pace_since`, when its pace last changed
    pace: float = 0.0  # seconds that the whole of it takes at the current number of computing devices
    pace_since: float = 0.0
