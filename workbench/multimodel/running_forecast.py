"""Update the prediction of a running fleet from the measured unit times and the models' progress."""

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
    """Return the expected schedule of a run, in seconds from its start: the units that `ran`, and the rest simulated.

    `predicted` was simulated from `jobs` before the run; `ran` are the finished units. Each model ends before its unit
    `last`; devices that are `away` get no units.

    >>> from workbench.multimodel import chain, policy_named
    >>> jobs, lrtf = [chain("a", (1.0, 1.0, 1.0, 1.0))], policy_named("sharded-lrtf")
    >>> ran = [ScheduledUnit(0, 0, 0, 0.0, 1.5, 0.0), ScheduledUnit(0, 1, 0, 1.5, 3.0, 1.5)]  # half as long again as was predicted
    >>> predict_rest(simulate(jobs, 1, lrtf), jobs, ran, [4], lrtf).makespan
    6.0
    """
    devices = predicted.devices
    first: dict[int, int] = {}  # not 0 for a model resumed from a checkpoint
    for each in predicted.placed:
        first[each.model] = min(first.get(each.model, each.unit), each.unit)
    done = [first.get(number, end) for number, end in enumerate(last)]  # units of an earlier run are not predicted
    host_times, free_times = [0.0] * len(jobs), [0.0] * devices
    for each in ran:
        free_times[each.device] = max(free_times[each.device], each.end)
        if not each.lost:
            done[each.model], host_times[each.model] = max(done[each.model], each.unit + 1), max(host_times[each.model], each.end)
    progress_now = FleetProgress(tuple(done), tuple(last), tuple(host_times), tuple(free_times), away)
    rest = simulate(_revise_jobs(predicted, jobs, ran), devices, policy, double_buffer=double_buffer, progress=progress_now)
    return replace(rest, placed=rest.placed or tuple(ran))


def _revise_jobs(predicted: FleetSchedule, jobs: Sequence[Job], ran: Sequence[ScheduledUnit]) -> list[Job]:
    """Scale each unit by measured over predicted time of similar units of its model, else of all models."""
    predicted_seconds = {(each.model, each.unit): each.end - each.start for each in predicted.placed if not each.lost}
    sums: dict[tuple[int, int], tuple[float, float]] = {}
    for each in ran:
        if not each.lost and (each.model, each.unit) in predicted_seconds:
            key = each.model, each.unit % len(jobs[each.model].units)
            measured, foreseen_seconds = sums.get(key, (0.0, 0.0))
            sums[key] = measured + each.end - each.start, foreseen_seconds + predicted_seconds[each.model, each.unit]
    revised = []
    for number, job in enumerate(jobs):
        overall = _sum_ratio([each for (model, _), each in sums.items() if model == number]) or _sum_ratio(list(sums.values())) or 1.0
        ratios = [_sum_ratio([sums[number, index]]) or overall if (number, index) in sums else overall for index in range(len(job.units))]
        units = (replace(unit, seconds=unit.seconds * by, slowed=unit.slowed * by) for unit, by in zip(job.units, ratios, strict=True))
        revised.append(replace(job, units=tuple(units)))
    return revised


def _sum_ratio(sums: Sequence[tuple[float, float]]) -> float:
    measured, foreseen_seconds = sum(value for value, _ in sums), sum(value for _, value in sums)
    return measured / foreseen_seconds if foreseen_seconds else 0.0
