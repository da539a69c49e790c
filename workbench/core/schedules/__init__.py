"""Pipeline schedules, each with its picture. Add a new one to `ALL_SCHEDULES`."""

from workbench.core.schedules.round_robin_schedules import BREADTH_FIRST, CIRCULAR, EAGER_1F1B, GPIPE, INTERLEAVED, ONE_F_ONE_B, ZERO_BUBBLE
from workbench.core.schedules.schedule import PipelineShape as PipelineShape
from workbench.core.schedules.schedule import Schedule as Schedule
from workbench.core.schedules.v_schedules import DUALPIPE_V, V_HALF, V_MIN, ZB_V
from workbench.errors import PipelineError, unknown_name

ALL_SCHEDULES = (*(GPIPE, ONE_F_ONE_B, EAGER_1F1B, INTERLEAVED, CIRCULAR, BREADTH_FIRST, ZERO_BUBBLE), *(ZB_V, DUALPIPE_V, V_HALF, V_MIN))


def schedule_named(name: str) -> Schedule:
    """Return the schedule of this name. Raises `PipelineError` if it is unknown."""
    for schedule in ALL_SCHEDULES:
        if schedule.name == name:
            return schedule
    raise PipelineError(*unknown_name("schedule", name, [schedule.name for schedule in ALL_SCHEDULES]))
