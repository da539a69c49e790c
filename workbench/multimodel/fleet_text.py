"""A fleet's run or simulation as text: the schedule with its prediction, the bound and other strategies for the same
models.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from math import isfinite

from workbench.core.text_tables import pairs_text, table_text
from workbench.multimodel import Job, Strategy, list_bound, lower_bound, strategies
from workbench.multimodel.fleet_measurement import FleetMeasurement, FleetTimes
from workbench.multimodel.unit_schedule import FleetSchedule
from workbench.units import format_bytes, format_seconds

_COLUMNS = 48


def measurement_text(measured: FleetMeasurement) -> str:
    devices = measured.schedule.devices
    title = f"{_models_text(len(measured.names))} on {_devices_text(devices)} ({measured.device_kind}), {measured.policy}"
    if not measured.schedule.placed:
        return "\n\n".join([title, _nothing_left_text(measured), losses_text(measured)])
    sections = [
        title,
        pairs_text(measurement_figures(measured)),
        f"predicted from {timing_note(measured.jobs)}\n\n{strategies_text(measured.jobs, devices)}",
        schedules_text({"predicted": measured.predicted, "measured": measured.schedule}, measured.names),
        losses_text(measured),
    ]
    return "\n\n".join(sections)


def _nothing_left_text(measured: FleetMeasurement) -> str:
    return (
        f"All models were trained in an earlier run: {measured.resumed:,} units, which their checkpoints hold.\n"
        "To continue training, set more mini-batches or epochs; to start over, choose another folder."
    )


def measurement_figures(measured: FleetMeasurement) -> list[tuple[str, str, str]]:
    """Return label, figure and note of each measurement of the whole run."""
    makespan, ran = measured.schedule.makespan, measured.ran_bound
    peak, budget = max(measured.peaks, default=0), measured.budget
    budget_note = "no budget set" if budget is None else f"{format_bytes(budget)} usable, {peak / budget:.0%}"
    rows = [
        ("makespan", format_seconds(makespan), f"predicted {format_seconds(measured.predicted.makespan)}"),
        ("lower bound of what ran", format_seconds(ran), f"the makespan is {makespan / ran:.3f} times that" if ran else ""),
        ("devices busy", f"{measured.schedule.busy:.1%}", "share of time in compute"),
        ("peak memory of a device", format_bytes(peak), budget_note),
        ("brought in", format_bytes(measured.moved), f"{measured.hidden:.0%} of that time overlapped with compute"),
        ("a decision", format_seconds(measured.decision_seconds), f"{measured.schedule.decisions:,} of them"),
        ("compiled in", format_seconds(measured.compile_seconds), "before the first unit"),
    ]
    if measured.resumed:
        rows.append(("went on after", f"{measured.resumed:,} units", "from a checkpoint; the prediction covers the rest"))
    return rows


def simulation_text(times: FleetTimes, devices: int, schedules: Mapping[str, FleetSchedule]) -> str:
    """Report of a simulation: the makespan of each policy, other strategies, and the first policy's schedule."""
    names = [job.name for job in times.jobs]
    bound = lower_bound(times.jobs, devices)
    rows = [
        (name, format_seconds(each.makespan), f"{each.makespan / bound:.3f}", f"{each.busy:.1%}", str(each.decisions or ""))
        for name, each in schedules.items()
    ]
    first_policy = next(iter(schedules))
    sections = [
        f"{_models_text(len(names))} on {_devices_text(devices)}, simulated from {_source_note(times)}",
        table_text(["policy", "makespan>", "over bound>", "devices busy>", "decisions>"], rows),
        strategies_text(times.jobs, devices),
        schedules_text({first_policy: schedules[first_policy]}, names),
        shards_text(times),
    ]
    return "\n\n".join(sections)


def _source_note(times: FleetTimes) -> str:
    if times.planned_for:
        return f"{sum(len(job.units) for job in times.jobs)} units from the cost model of {times.planned_for}"
    return f"{timing_note(times.jobs)} ({times.device_kind})"


def timing_note(jobs: Sequence[Job]) -> str:
    return f"{sum(len(job.units) for job in jobs)} units timed alone and concurrently"


def strategies_text(jobs: Sequence[Job], devices: int) -> str:
    """The lower bound and the other strategies, in seconds and as multiples of the bound."""
    bounds = list_bounds(jobs, devices)
    rows = [
        (strategy.name, format_seconds(strategy.seconds), f"{strategy.seconds / bounds[0].seconds:.3f}", strategy.note)
        for strategy in (*bounds, *strategies(jobs, devices))
    ]
    return table_text(["to train the same", "seconds>", "over bound>", "what that is~"], rows)


def list_bounds(jobs: Sequence[Job], devices: int) -> tuple[Strategy, Strategy]:
    """Lower bound of shard-unit schedules, and upper bound of list schedules, which is a multiple of it."""
    shared = devices > 1 and any(unit.slowed for job in jobs for unit in job.units)
    contention_note = ", with units slowed by devices sharing the machine's cores" if shared else ""
    multiple = f"(2 - 1/P) = {2 - 1 / devices:.3f} times the bound{contention_note}"
    bound_note = "of shard units: total work per device, or the longest model in sequence"
    return (
        Strategy("lower bound", lower_bound(jobs, devices), bound_note),
        Strategy("list schedules", list_bound(jobs, devices), f"at most, if no device idles (Graham): {multiple}"),
    )


def schedules_text(schedules: Mapping[str, FleetSchedule], names: Sequence[str]) -> str:
    """Schedules one below the other on the same time scale, followed by a legend of the letters."""
    longest = max((schedule.makespan for schedule in schedules.values()), default=0.0) or 1.0
    parts = []
    for name, each in schedules.items():
        columns = max(1, round(_COLUMNS * each.makespan / longest))
        parts.append(f"{name}, 0 to {format_seconds(each.makespan)}\n\n{schedule_text(each, names, columns)}")
    if legend := legend_text(names):
        parts.append(legend)
    return "\n\n".join(parts)


def losses_text(measured: FleetMeasurement) -> str:
    rows = []
    for number, (name, shards) in enumerate(zip(measured.names, measured.shards, strict=True)):
        losses = measured.losses[name]
        ends = [f"{losses[0]:.4g}", f"{losses[-1]:.4g}"] if losses else ["", ""]
        rows.append((name, str(shards), str(len(losses)), *ends, _finish_text(measured, number), _remark_text(measured, name)))
    columns = ["model~", "shards>", "mini-batches>", "first loss>", "last loss>", "finished>", "remark~"]
    if not any(row[-1] for row in rows):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    return table_text(columns, rows)


def _finish_text(measured: FleetMeasurement, number: int) -> str:
    if measured.names[number] in measured.failed:
        return "never"
    ran = any(unit.model == number for unit in measured.schedule.placed)
    return format_seconds(measured.schedule.finish_time(number)) if ran else "before"


def _remark_text(measured: FleetMeasurement, name: str) -> str:
    losses = measured.losses[name]
    wrong = [at for at, loss in enumerate(losses) if not isfinite(loss)][:1]
    on = " on" if wrong and not isfinite(losses[-1]) else ""
    remarks = [f"loss {losses[at]:g} {'from' if on else 'at'} mini-batch {at + 1}{on}" for at in wrong]
    return "; ".join([*remarks, *([measured.ended[name]] if name in measured.ended else [])])


def shards_text(times: FleetTimes) -> str:
    rows = [
        (job.name, str(shards), f"{job.length:,}", format_seconds(job.mini_batch_seconds), format_seconds(job.seconds))
        for job, shards in zip(times.jobs, times.shards, strict=True)
    ]
    return table_text(["model~", "shards>", "units>", "a mini-batch>", "in all>"], rows)


def _models_text(count: int) -> str:
    return f"{count} model{'s' * (count != 1)}"


def _devices_text(count: int) -> str:
    return f"{count} device{'s' * (count != 1)}"


# A schedule as text, for terminals and screen readers.

_MOST_NAMED = 12  # models in a legend


def schedule_text(schedule: FleetSchedule, names: Sequence[str], width: int = 72) -> str:
    """One row per device, one column per time slice: a letter per model, `.` for idle, `x` for a lost unit.

    >>> from workbench.multimodel import ALL_POLICIES, chain, simulate
    >>> jobs = [chain(name, (1.0,) * 4) for name in "abc"]
    >>> print(schedule_text(simulate(jobs, 2, ALL_POLICIES[0], double_buffer=False), "abc", width=6))
    0 | a c c c b b
    1 | b b a a a c
    """
    marks = _choose_letters(names)
    step = schedule.makespan / width or 1.0
    rows = []
    for device in range(schedule.devices):
        units = sorted((unit for unit in schedule.placed if unit.device == device), key=lambda unit: unit.start)
        starts = [unit.start for unit in units]
        cells = []
        for column in range(width):
            time = (column + 0.5) * step
            index = bisect_right(starts, time) - 1
            running = units[index] if index >= 0 and time < units[index].end else None
            cells.append("." if running is None else "x" if running.lost else marks[running.model])
        rows.append(f"{device:>{len(str(schedule.devices - 1))}} | {' '.join(cells)}")
    return "\n".join(rows)


def legend_text(names: Sequence[str]) -> str:
    """A legend line of the letters, for at most 12 models; empty if each model has its own initial.

    >>> legend_text(["fit-8", "fit-16"])
    'a fit-8 · b fit-16'
    """
    marks = _choose_letters(names)
    if marks == [model_name[:1] for model_name in names]:
        return ""
    legend = [f"{mark} {name}" for mark, name in zip(marks, names, strict=True)][:_MOST_NAMED]
    remaining = len(names) - len(legend)
    return " · ".join([*legend, *([f"and so on for {remaining:,} more in their order"] if remaining else [])])


def _choose_letters(names: Sequence[str]) -> list[str]:
    """Return one letter per model: the initials if they are distinct, else letters and digits in order."""
    firsts = [name[:1] for name in names]
    if len(set(firsts)) == len(firsts):
        return firsts
    letters = "abcdefghijklmnopqrstuvwyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    return [letters[i % len(letters)] for i in range(len(names))]
