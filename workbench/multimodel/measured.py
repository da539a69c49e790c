"""What a fleet's run measured, beside what was predicted before it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from workbench.multimodel.fleet import FleetModel
from workbench.multimodel.jobs import Job
from workbench.multimodel.schedule import FleetSchedule


@dataclass(frozen=True, slots=True)
class ModelTimes:
    """One model, cut before the blocks `starts`, with the bytes that each shard needs, compiled, and its timed units.

    `cuts` are the model's own when it was cut, `None` where that is not known.
    """

    starts: tuple[int, ...]
    needs: tuple[int, ...]
    job: Job
    cuts: tuple[str, ...] | None = None


@dataclass(frozen=True)
class FleetTimes:
    """The models of a fleet, cut, with units that were timed: alone, and together where devices share cores.

    - `memory`: the budget that was asked for, `None` for all of a device; `budget`: the bytes that came of it;
    - `starts`, `needs`: of each model the blocks at which its shards begin, and the bytes that each of these needs, compiled;
    - `programs`, `cuts`: of each model the fingerprint of its program and its own cuts, as far as that is told (`for_models`).
    """

    jobs: tuple[Job, ...]
    shards: tuple[int, ...]
    device_kind: str
    budget: int | None
    compile_seconds: float = 0.0
    memory: int | None = None
    starts: tuple[tuple[int, ...], ...] = ()
    needs: tuple[tuple[int, ...], ...] = ()
    programs: tuple[str, ...] = ()
    cuts: tuple[tuple[str, ...], ...] = ()

    def for_models(self, models: Sequence[FleetModel]) -> "FleetTimes":
        """With what was timed, by name: a model that is changed later keeps its name. What is told already stays."""
        if self.programs:
            return self
        by_name = {each.name: each for each in models}
        timed = [by_name.get(each.name) for each in self.jobs]
        programs = tuple(each.program.fingerprint if each else "" for each in timed)
        return replace(self, programs=programs, cuts=tuple(each.cuts if each else () for each in timed))

    def of(self, model: FleetModel) -> ModelTimes | None:
        """What is known of a model of this name and, as far as that is told, of this program."""
        index = next((i for i, each in enumerate(self.jobs[: len(self.starts)]) if each.name == model.name), None)
        if index is None:
            return None
        program = self.programs[index] if self.programs else ""
        if program not in ("", model.program.fingerprint):
            return None
        return ModelTimes(self.starts[index], self.needs[index], self.jobs[index], self.cuts[index] if program else None)


@dataclass(frozen=True)
class FleetMeasurement:
    """A run of many models.

    - `schedule` was measured, `predicted` simulated before it from `jobs`, whose units were rehearsed; both in seconds;
    - `losses`: by model, one a mini-batch, those before a resumption included; `shards`: into how many each was cut;
    - `peaks`: bytes of each device that were spoken for at the worst moment, never above `budget`;
    - `bound`: the lower bound on the makespan from the timed units;
    - `moved`: bytes brought in; `hidden`: the share of that time in which the device computed;
    - `decision_seconds`: of one decision of the policy; `compile_seconds` of all units on all devices;
    - `spared`: of each model the units that a checkpoint held already;
    - `ended`: in words, why a model ended of itself before its last mini-batch; one that a hand has stopped is not among these;
    - `failed`: models among these whose data raised.
    """

    names: tuple[str, ...]
    policy: str
    jobs: tuple[Job, ...]
    schedule: FleetSchedule
    predicted: FleetSchedule
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
    spared: tuple[int, ...] = ()
    ended: Mapping[str, str] = field(default_factory=dict)
    failed: tuple[str, ...] = ()

    @property
    def ran_bound(self) -> float:
        """The lower bound from the seconds that units really took, early stops included: all the work shared out, or the longest model."""
        ran = [each for each in self.schedule.placed if not each.lost]
        models = [sum(each.end - each.start for each in ran if each.model == number) for number in range(len(self.names))]
        return max(sum(models) / self.schedule.devices, *models)

    @property
    def resumed(self) -> int:
        """Units that a checkpoint spared this run."""
        return sum(self.spared)
