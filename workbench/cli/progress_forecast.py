"""The expected time of a fleet's run, for its lines of progress."""

from workbench.multimodel import FleetSchedule, ScheduledUnit, policy_named
from workbench.multimodel.fleet import Fleet
from workbench.multimodel.fleet_measurement import FleetTimes
from workbench.multimodel.running_forecast import predict_rest
from workbench.multimodel.training_events import SchedulePredicted, TrainingEvent, UnitDone
from workbench.units import format_seconds

MOST_LEFT = 5_000  # the most units that are simulated for a line of progress


class ShortForecast:
    """Follows the events of a training, and forecasts its end."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._times: FleetTimes | None = None
        self._predicted = FleetSchedule(1, ())
        self._last: dict[str, int] = {}
        self._ran: list[ScheduledUnit] = []

    def hear(self, event: TrainingEvent) -> None:
        match event:
            case SchedulePredicted(times=times):
                self._times = times
                self._predicted = FleetSchedule(event.devices, event.predicted)
                self._last = {each.name: self._last.get(each.name, each.length) for each in times.jobs}
            case UnitDone():
                self._ran.append(event.placed)
                self._last[event.model] = event.of

    @property
    def text(self) -> str:
        """The forecast; empty where it would take long. A solver's order is not known here, so the default policy is used instead."""
        if self._times is None or len(self._predicted.placed) - len(self._ran) > MOST_LEFT:
            return ""
        policy = policy_named("sharded-lrtf" if self._fleet.policy == "exact" else self._fleet.policy)
        last = [self._last[each.name] for each in self._times.jobs]
        rest = predict_rest(self._predicted, self._times.jobs, self._ran, last, policy, double_buffer=self._fleet.double_buffer)
        return f", {format_seconds(rest.makespan)} in all as now expected"
