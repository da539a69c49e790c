"""Measurements of a fleet's run, together with the prediction made before it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from workbench.multimodel.fleet import FleetModel
from workbench.multimodel.unit_chains import Job
from workbench.multimodel.unit_schedule import FleetSchedule


@dataclass(frozen=True, slots=True)
class ModelTimes:
    """Compiled bytes of each shard and timed units of one model, partitioned before the blocks `starts`.

    `cuts`: boundaries that the model specified at that time; `None` if unknown.
    """

    starts: tuple[int, ...]
    needs: tuple[int, ...]
    job: Job
    cuts: tuple[str, ...] | None = None


@dataclass(frozen=True)
class FleetTimes:
    """The partitioned models of a fleet with timed units: alone, and together where devices share cores.

    - `memory`: the requested budget, `None` for all of a device; `budget`: the resulting bytes;
    - `starts`, `needs`: for each model the first blocks of its shards and the compiled bytes of each shard;
    - `planned_for`: the hardware, if the seconds come from the cost model and the bytes are estimated
      (`fleet_forecast.plan_times`);
    - `programs`, `cuts`: for each model the fingerprint of its program and its specified boundaries, if recorded
      (`for_models`).
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
        """Record each model's program and boundaries once, because a model that is edited later keeps its name."""
        if self.programs:
            return self
        by_name = {model.name: model for model in models}
        timed = [by_name.get(job.name) for job in self.jobs]
        programs = tuple(model.program.fingerprint if model else "" for model in timed)
        return replace(self, programs=programs, cuts=tuple(model.cuts if model else () for model in timed))

    def of(self, model: FleetModel) -> ModelTimes | None:
        """Return the times of the model with this name and, if recorded, this program."""
        index = next((i for i, job in enumerate(self.jobs[: len(self.starts)]) if job.name == model.name), None)
        if index is None:
            return None
        program = self.programs[index] if self.programs else ""
        if program not in ("", model.program.fingerprint):
            return None
        return ModelTimes(self.starts[index], self.needs[index], self.jobs[index], self.cuts[index] if program else None)


@dataclass(frozen=True)
class FleetMeasurement:
    """Measurements of a run of many models.

    - `schedule` was measured; `predicted` was simulated before it from the profiled units of `jobs`; both in seconds;
    - `losses`: for each model one per mini-batch, including those before a resumption; `shards`: number of shards of
      each model;
    - `peaks`: peak bytes claimed on each device, never above `budget`;
    - `bound`: lower bound on the makespan from the timed units;
    - `moved`: bytes copied in; `hidden`: fraction of that time in which the device computed;
    - `decision_seconds`: time of one decision of the policy; `compile_seconds`: of all units on all devices;
    - `resumed_units`: for each model the units that its checkpoint had already done;
    - `ended`: the reason why a model ended by itself before its last mini-batch; models stopped by a command are not
      included;
    - `failed`: models among these whose data raised an error.
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
        """Lower bound from measured unit times, early stops included."""
        ran = [unit for unit in self.schedule.placed if not unit.lost]
        models = [sum(unit.end - unit.start for unit in ran if unit.model == number) for number in range(len(self.names))]
        return max(sum(models) / self.schedule.devices, *models)

    @property
    def resumed(self) -> int:
        return sum(self.resumed_units)
