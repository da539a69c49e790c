"""The measurements of a fleet's run, beside what was predicted before it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from workbench.multimodel.fleet import FleetModel
from workbench.multimodel.unit_chains import Job
from workbench.multimodel.unit_schedule import FleetSchedule


@dataclass(frozen=True, slots=True)
class ModelTimes:
    """One model, partitioned before the blocks `starts`, with the compiled bytes of each shard, and its timed units.

    `cuts` are the boundaries that the model itself gave when it was partitioned, `None` where that is not known.
    """

    starts: tuple[int, ...]
    needs: tuple[int, ...]
    job: Job
    cuts: tuple[str, ...] | None = None


@dataclass(frozen=True)
class FleetTimes:
    """The models of a fleet, partitioned, with units that were timed: alone, and together where devices share cores.

    - `memory`: the requested budget, `None` for all of a device; `budget`: the resulting bytes;
    - `starts`, `needs`: for each model the blocks at which its shards begin, and the compiled bytes of each shard;
    - `planned_for`: the hardware, where the seconds are of the cost model and the bytes estimated (`fleet_forecast.plan_times`);
    - `programs`, `cuts`: for each model the fingerprint of its program and its own boundaries, as far as they are recorded (`for_models`).
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
    planned_for: str = ""

    def for_models(self, models: Sequence[FleetModel]) -> "FleetTimes":
        """The times with the program and boundaries of each model recorded, by name: a model that is changed later keeps its name. What is
        recorded already stays."""
        if self.programs:
            return self
        by_name = {each.name: each for each in models}
        timed = [by_name.get(each.name) for each in self.jobs]
        programs = tuple(each.program.fingerprint if each else "" for each in timed)
        return replace(self, programs=programs, cuts=tuple(each.cuts if each else () for each in timed))

    def of(self, model: FleetModel) -> ModelTimes | None:
        """The times of a model of this name and, as far as that is recorded, of this program."""
        index = next((i for i, each in enumerate(self.jobs[: len(self.starts)]) if each.name == model.name), None)
        if index is None:
            return None
        program = self.programs[index] if self.programs else ""
        if program not in ("", model.program.fingerprint):
            return None
        return ModelTimes(self.starts[index], self.needs[index], self.jobs[index], self.cuts[index] if program else None)


@dataclass(frozen=True)
class FleetMeasurement:
    """The measurements of a run of many models.

    - `schedule` was measured, `predicted` simulated before it from `jobs`, whose units were profiled; both in seconds;
    - `losses`: by model, one per mini-batch, those before a resumption included; `shards`: the number of each;
    - `peaks`: bytes of each device that were claimed at the peak, never above `budget`;
    - `bound`: the lower bound on the makespan from the timed units;
    - `moved`: bytes copied in; `hidden`: the share of that time in which the device computed;
    - `decision_seconds`: of one decision of the policy; `compile_seconds` of all units on all devices;
    - `resumed_units`: for each model the units that its checkpoint had done already;
    - `ended`: in words, why a model ended by itself before its last mini-batch; one stopped by a command is not among these;
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
    resumed_units: tuple[int, ...] = ()
    ended: Mapping[str, str] = field(default_factory=dict)
    failed: tuple[str, ...] = ()

    @property
    def ran_bound(self) -> float:
        """The lower bound from the measured seconds of units, early stops included: all the work shared out, or the longest model."""
        ran = [each for each in self.schedule.placed if not each.lost]
        models = [sum(each.end - each.start for each in ran if each.model == number) for number in range(len(self.names))]
        return max(sum(models) / self.schedule.devices, *models)

    @property
    def resumed(self) -> int:
        """Units that a checkpoint had done before this run."""
        return sum(self.resumed_units)
