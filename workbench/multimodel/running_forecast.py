"""Update the prediction of a run under way: units as long as they turned out to be, from the current progress of the models."""

from collections.abc import Sequence
from dataclasses import replace

from workbench.multimodel.policies import Policy
from workbench.multimodel.simulate_fleet import FleetProgress, simulate
from workbench.multimodel.unit_chains import Job
from workbench.multimodel.unit_schedule import FleetSchedule, ScheduledUnit


def predict_rest(
    predicted: FleetSchedule,
    jobs: Sequence[Job],
    ran: Sequence[ScheduledUnit],
    last: Sequence[int],
    policy: Policy,
    *,
    double_buffer: bool = True,
    away: frozenset[int] = frozenset(),
) -> FleetSchedule:
    """The expected schedule of a run, in seconds from its start: what `ran`, and the rest as simulated.

    `predicted` was simulated from `jobs` before the run; `ran` are the units that are done. Each model ends before its unit `last`, and
    devices that are `away` take nothing.

    >>> from workbench.multimodel import chain, policy_named
    >>> jobs, lrtf = [chain("a", (1.0, 1.0, 1.0, 1.0))], policy_named("sharded-lrtf")
    >>> ran = [ScheduledUnit(0, 0, 0, 0.0, 1.5, 0.0), ScheduledUnit(0, 1, 0, 1.5, 3.0, 1.5)]  # half as long again as was predicted
    >>> predict_rest(simulate(jobs, 1, lrtf), jobs, ran, [4], lrtf).makespan
    6.0
    """
    devices = predicted.devices
    first: dict[int, int] = {}  # a checkpoint may have supplied some
    for each in predicted.placed:
        first[each.model] = min(first.get(each.model, each.unit), each.unit)
    done = [first.get(number, end) for number, end in enumerate(last)]  # units that an earlier run has done are not predicted
    back, free = [0.0] * len(jobs), [0.0] * devices
    for each in ran:
        free[each.device] = max(free[each.device], each.end)
        if not each.lost:
            done[each.model], back[each.model] = max(done[each.model], each.unit + 1), max(back[each.model], each.end)
    progress_now = FleetProgress(tuple(done), tuple(last), tuple(back), tuple(free), away)
    rest = simulate(_revise_jobs(predicted, jobs, ran), devices, policy, double_buffer=double_buffer, progress=progress_now)
    return replace(rest, placed=rest.placed or tuple(ran))


def _revise_jobs(predicted: FleetSchedule, jobs: Sequence[Job], ran: Sequence[ScheduledUnit]) -> list[Job]:
    """Scale each unit by how much longer or shorter similar units of the same model took than predicted, else those of any model."""
    foreseen = {(each.model, each.unit): each.end - each.start for each in predicted.placed if not each.lost}
    sums: dict[tuple[int, int], tuple[float, float]] = {}
    for each in ran:
        if not each.lost and (each.model, each.unit) in foreseen:
            key = each.model, each.unit % len(jobs[each.model].units)
            measured, foreseen_seconds = sums.get(key, (0.0, 0.0))
            sums[key] = measured + each.end - each.start, foreseen_seconds + foreseen[each.model, each.unit]
    found = []
    for number, job in enumerate(jobs):
        whole = _sum_ratio([each for (model, _), each in sums.items() if model == number]) or _sum_ratio(list(sums.values())) or 1.0
        ratios = [_sum_ratio([sums[number, index]]) or whole if (number, index) in sums else whole for index in range(len(job.units))]
        units = (replace(unit, seconds=unit.seconds * by, slowed=unit.slowed * by) for unit, by in zip(job.units, ratios, strict=True))
        found.append(replace(job, units=tuple(units)))
    return found


def _sum_ratio(sums: Sequence[tuple[float, float]]) -> float:
    measured, foreseen_seconds = sum(each for each, _ in sums), sum(each for _, each in sums)
    return measured / foreseen_seconds if foreseen_seconds else 0.0
