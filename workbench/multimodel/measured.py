"""What a fleet's run measured, beside what was predicted before it."""

from dataclasses import dataclass

from workbench.multimodel.jobs import Job
from workbench.multimodel.schedule import Schedule


@dataclass(frozen=True)
class FleetTimes:
    """The models of a fleet, cut, with units that were timed one by one on one device; `budget` in bytes."""

    jobs: tuple[Job, ...]
    shards: tuple[int, ...]
    device_kind: str
    budget: int | None
    compile_seconds: float = 0.0


@dataclass(frozen=True)
class FleetMeasurement:
    """A run of many models.

    - `schedule` was measured, `predicted` simulated before it from `jobs`, whose units were timed one by one; both in seconds;
    - `losses`: by model, one a mini-batch, those before a resumption included; `shards`: into how many each was cut;
    - `peaks`: bytes of each device that were spoken for at the worst moment, never above `budget`;
    - `bound`: the lower bound on the makespan from the timed units;
    - `moved`: bytes brought in; `hidden`: the share of that time in which the device computed;
    - `decision_seconds`: of one decision of the policy; `compile_seconds` of all units on all devices.
    """

    names: tuple[str, ...]
    policy: str
    jobs: tuple[Job, ...]
    schedule: Schedule
    predicted: Schedule
    bound: float
    losses: dict[str, tuple[float, ...]]
    shards: tuple[int, ...]
    device_kind: str
    budget: int | None
    peaks: tuple[int, ...] = ()
    moved: int = 0
    hidden: float = 1.0
    decision_seconds: float = 0.0
    compile_seconds: float = 0.0

    @property
    def ran_bound(self) -> float:
        """The lower bound from the seconds that units really took, early stops included: all the work shared out, or the longest model."""
        ran = [each for each in self.schedule.placed if not each.lost]
        models = [sum(each.end - each.start for each in ran if each.model == number) for number in range(len(self.names))]
        return max(sum(models) / self.schedule.devices, *models)

    @property
    def resumed(self) -> int:
        """Units that a checkpoint spared this run."""
        firsts = [min((each.unit for each in self.schedule.placed if each.model == i), default=0) for i in range(len(self.names))]
        return sum(firsts)
