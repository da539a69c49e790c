"""A schedule as text, for a terminal and a screen reader."""

from bisect import bisect_right
from collections.abc import Sequence

from workbench.multimodel.unit_schedule import FleetSchedule

_MOST_NAMED = 12  # models of a legend


def schedule_text(schedule: FleetSchedule, names: Sequence[str], width: int = 72) -> str:
    """One row per device, one column per time slice: a distinct letter for each model, `.` where nothing computes.

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
        units = sorted((each for each in schedule.placed if each.device == device), key=lambda each: each.start)
        starts = [each.start for each in units]
        cells = []
        for column in range(width):
            at = (column + 0.5) * step
            index = bisect_right(starts, at) - 1
            running = units[index] if index >= 0 and at < units[index].end else None
            cells.append("." if running is None else "x" if running.lost else marks[running.model])
        rows.append(f"{device:>{len(str(schedule.devices - 1))}} | {' '.join(cells)}")
    return "\n".join(rows)


def legend_text(names: Sequence[str]) -> str:
    """A legend line of the letters, for a few models at least; empty where each has its own first letter.

    >>> legend_text(["fit-8", "fit-16"])
    'a fit-8 · b fit-16'
    """
    marks = _choose_letters(names)
    if marks == [each[:1] for each in names]:
        return ""
    legend = [f"{mark} {name}" for mark, name in zip(marks, names, strict=True)][:_MOST_NAMED]
    remaining = len(names) - len(legend)
    return " · ".join([*legend, *([f"and so on for {remaining:,} more in their order"] if remaining else [])])


def _choose_letters(names: Sequence[str]) -> list[str]:
    """A letter per model: its first one if no other has it, else letters and digits in order."""
    firsts = [name[:1] for name in names]
    if len(set(firsts)) == len(firsts):
        return firsts
    letters = "abcdefghijklmnopqrstuvwyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    return [letters[i % len(letters)] for i in range(len(names))]
