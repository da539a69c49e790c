"""Shortest schedule of small fleets, by a constraint solver.

Hydra's printed formulation (TR, section 4.7.1) starts each unit on *every* device and lacks a variable that assigns it
to one; here each unit has one optional interval per device, of which exactly one is present (as in Saturn's
formulation). Job-shop scheduling is NP-complete, so there is a time limit, and the answer tells whether it is proven
optimal.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from ortools.sat.python import cp_model

from workbench.errors import FleetError
from workbench.multimodel.policies import ExactOrder, Policy, policy_named
from workbench.multimodel.simulate_fleet import simulate
from workbench.multimodel.unit_chains import Job, verify_devices, verify_names
from workbench.multimodel.unit_schedule import FleetSchedule, ScheduledUnit, lower_bound

_TICKS = 10_000  # ticks in the lower bound: the solver's times are whole numbers
MOST_UNITS = 2_000


@dataclass(frozen=True, slots=True)
class Optimum:
    """Best schedule within the time limit; `proven` if it is optimal; `bound` is the lower bound in seconds."""

    schedule: FleetSchedule
    proven: bool
    bound: float


def optimum(jobs: Sequence[Job], devices: int, limit: float = 10.0) -> Optimum:
    """Return the shortest schedule of these jobs without transfers; `limit` in seconds.

    If devices slow each other down, the solver assumes unit times as if all devices compute, and its order is then
    simulated at the real pace. The result is never longer than the schedule of `sharded-lrtf`, which is returned if the
    time does not suffice. Raises `FleetError` without devices and for more than 2,000 units.
    """
    verify_solvable(jobs, devices)
    lrtf, crowded = policy_named("sharded-lrtf"), [_without_transfers(job.with_contention(devices)) for job in jobs]
    problem = _ExactProblem(crowded, devices)
    problem.hint(lrtf)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = limit
    solver.parameters.random_seed = 0
    status = solver.solve(problem.model)
    without_transfers = [_without_transfers(job) for job in jobs]
    schedules = [simulate(without_transfers, devices, lrtf, double_buffer=False)]
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        solved = problem.schedule(solver)
        slowed = any(unit.slowed for job in jobs for unit in job.units)
        schedules.insert(0, simulate(without_transfers, devices, _order_of(solved), double_buffer=False) if slowed else solved)
    return Optimum(min(schedules, key=lambda schedule: schedule.makespan), status == cp_model.OPTIMAL, lower_bound(jobs, devices))


def verify_solvable(jobs: Sequence[Job], devices: int) -> None:
    """Raises `FleetError` if the problem is too large for the solver."""
    verify_names([job.name for job in jobs])
    verify_devices(devices)
    units = sum(job.length for job in jobs)
    if units > MOST_UNITS:
        raise FleetError(
            f"The exact optimum of {units:,} units on {devices} devices is too large to solve; the limit is {MOST_UNITS:,} units.",
            ["use `sharded-lrtf`", "train fewer mini-batches"],
        )


def prepare_policy(policy: Policy, jobs: Sequence[Job], devices: int) -> Policy:
    """Return the policy, ready to decide about these jobs: `exact` is solved first. Raises the errors of `optimum`."""
    return _order_of(optimum(jobs, devices).schedule) if isinstance(policy, ExactOrder) and not policy.starts else policy


def _order_of(schedule: FleetSchedule) -> ExactOrder:
    return ExactOrder({(placed.model, placed.unit): placed.start for placed in schedule.placed})


def _without_transfers(job: Job) -> Job:
    return replace(job, units=tuple(replace(unit, load=0.0, store=0.0, carry=0.0, pause=0.0) for unit in job.units))


class _ExactProblem:
    def __init__(self, jobs: Sequence[Job], devices: int) -> None:
        self.jobs, self.devices = jobs, devices
        self.tick = lower_bound(jobs, devices) / _TICKS
        self.model = cp_model.CpModel()
        lengths = [sum(self._ticks(job.unit(unit).seconds) for unit in range(job.length)) for job in jobs]
        least = max(-(-sum(lengths) // devices), *lengths)  # `lower_bound` in ticks: often reached, and then it proves optimality
        self.makespan = self.model.new_int_var(least, sum(lengths), "C")
        self.on_device: list[list[cp_model.IntervalVar]] = [[] for _ in range(devices)]
        self.units = [(i, unit, *self._add_unit(job, unit)) for i, job in enumerate(jobs) for unit in range(job.length)]
        for (model, _, _, end, _, _), (after, _, start, _, _, _) in pairwise(self.units):
            if model == after:
                self.model.add(start >= end)
        for intervals in self.on_device:
            self.model.add_no_overlap(intervals)
        self.model.minimize(self.makespan)

    def hint(self, policy: Policy) -> None:
        """Start the solver with this policy's schedule, so that the solution is never worse."""
        ticked = [
            replace(job, units=tuple(replace(each, seconds=float(self._ticks(each.seconds))) for each in job.units)) for job in self.jobs
        ]
        schedule = simulate(ticked, self.devices, policy, double_buffer=False)
        placed_units = {(each.model, each.unit): each for each in schedule.placed}
        self.model.add_hint(self.makespan, round(schedule.makespan))
        for model, unit, start, end, assigned, _ in self.units:
            placed = placed_units[model, unit]
            self.model.add_hint(start, round(placed.start))
            self.model.add_hint(end, round(placed.end))
            for device, is_here in enumerate(assigned):
                self.model.add_hint(is_here, device == placed.device)

    def _ticks(self, seconds: float) -> int:
        return round(seconds / self.tick) if self.tick else 0

    def _add_unit(self, job: Job, unit: int) -> tuple[cp_model.IntVar, cp_model.IntVar, list[cp_model.IntVar], float]:
        seconds = job.unit(unit).seconds
        name, length = f"{job.name} {unit}", self._ticks(seconds)
        start, end = (self.model.new_int_var(0, 2**40, f"{name} {which}") for which in ("start", "end"))
        assigned = [self.model.new_bool_var(f"{name} on {device}") for device in range(self.devices)]
        for device, is_here in enumerate(assigned):
            self.on_device[device].append(self.model.new_optional_interval_var(start, length, end, is_here, f"{name} at {device}"))
        self.model.add_exactly_one(assigned)
        self.model.add(end <= self.makespan)
        return start, end, assigned, seconds

    def schedule(self, solver: cp_model.CpSolver) -> FleetSchedule:
        """Return the solver's order and assignment in exact seconds, with each unit as early as possible."""
        placed: list[ScheduledUnit] = []
        free, ready = [0.0] * self.devices, [0.0] * (self.units[-1][0] + 1)
        for model, unit, _, _, assigned, seconds in sorted(self.units, key=lambda each: (solver.value(each[2]), each[1])):
            device = next(i for i, each in enumerate(assigned) if solver.value(each))
            start = max(free[device], ready[model])
            free[device] = ready[model] = start + seconds
            placed.append(ScheduledUnit(model, unit, device, start, start + seconds, start))
        return FleetSchedule(self.devices, tuple(placed))
