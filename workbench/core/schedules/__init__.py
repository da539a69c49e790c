"""The schedules, one file each: `SCHEDULE` and its diagram. A new one is a file here and its name in `ALL_SCHEDULES`."""

from workbench.core.schedules import (
    breadth_first,
    circular,
    dualpipe_v,
    eager_1f1b,
    gpipe,
    interleaved,
    one_f_one_b,
    v_half,
    v_min,
    zb_v,
    zero_bubble,
)
from workbench.core.schedules.schedule import PipelineShape as PipelineShape
from workbench.core.schedules.schedule import Schedule as Schedule
from workbench.errors import PipelineError, unknown_name

ALL_SCHEDULES = tuple(
    each.SCHEDULE
    for each in (
        gpipe,
        one_f_one_b,
        eager_1f1b,
        interleaved,
        circular,
        breadth_first,
        zero_bubble,
        zb_v,
        dualpipe_v,
        v_half,
        v_min,
    )
)


def schedule_named(name: str) -> Schedule:
    """The schedule of this name; raises `PipelineError` if there is none."""
    for schedule in ALL_SCHEDULES:
        if schedule.name == name:
            return schedule
    raise PipelineError(*unknown_name("schedule", name, [schedule.name for schedule in ALL_SCHEDULES]))
