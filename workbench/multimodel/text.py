"""A schedule as text, for a terminal and a screen reader."""

from collections.abc import Sequence

from workbench.multimodel.schedule import Schedule


def schedule_text(schedule: Schedule, names: Sequence[str], width: int = 72) -> str:
    """One row a device, one column a slice of time: the first letters that tell the models apart, `.` where nothing computes.

    >>> from workbench.multimodel import ALL_POLICIES, chain, simulate
    >>> jobs = [chain(name, (1.0,) * 4) for name in "abc"]
    >>> print(schedule_text(simulate(jobs, 2, ALL_POLICIES[0], double_buffer=False), "abc", width=6))
    0 | a c c c b b
    1 | b b a a a c
    """
    marks = _marks(names)
    step = schedule.makespan / width or 1.0
    rows = []
    for device in range(schedule.devices):
        turns = [each for each in schedule.placed if each.device == device]
        cells = []
        for column in range(width):
            at = (column + 0.5) * step
            running = next((each for each in turns if each.start <= at < each.end), None)
            cells.append("." if running is None else "x" if running.lost else marks[running.model])
        rows.append(f"{device:>{len(str(schedule.devices - 1))}} | {' '.join(cells)}")
    return "\n".join(rows)


def _marks(names: Sequence[str]) -> list[str]:
    """A letter a model: its first one if no other has it, else letters and figures in order."""
    firsts = [name[:1] for name in names]
    if len(set(firsts)) == len(firsts):
        return firsts
    letters = "abcdefghijklmnopqrstuvwyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    return [letters[i % len(letters)] for i in range(len(names))]
