"""The expected rest of a run, simulated again now and then in a thread: simulating takes a moment, and units come fast."""

import threading
import time
from collections.abc import Callable

from workbench.multimodel import FleetSchedule, ScheduledUnit
from workbench.multimodel.fleet_forecast import FleetForecast
from workbench.multimodel.running_forecast import predict_rest
from workbench.widgets.fleet.training_progress import TrainingProgress

MOST_LEFT = 10_000  # the most units that are simulated meanwhile; with more, the prediction stays
_EVERY, _SHARE = 1.0, 5  # seconds between two simulations, and the least ratio of that to the time of one


class Expectation:
    """The expected rest. `rest` is the schedule of what is left, `None` where nothing is known of it; `changed()` is called when there is a
    new one."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self.rest: FleetSchedule | None = None
        self._changed = changed
        self._next = 0.0
        self._running = False

    def forget(self) -> None:
        """A run has begun, or ended."""
        self.rest, self._next = None, 0.0

    def follow(self, seen: FleetForecast, live: TrainingProgress) -> None:
        """Simulate the rest of a run of what was `seen` again, if it is time to. The caller holds the lock of `live`."""
        fleet = live.fleet
        known = [each.name for each in seen.jobs] == list(live.models) and seen.devices == live.devices
        left = sum(max(0, each.of - each.done) for each in live.models.values())
        if not (live.running and live.measured and known and fleet) or self._running or time.monotonic() < self._next or left > MOST_LEFT:
            return
        self._running = True
        ran = [ScheduledUnit(row[0], row[1], row[2], row[3], row[4], row[3]) for row in live.measured]
        last = [each.of if each.done < each.of else 0 for each in live.models.values()]  # an earlier run may have done all of it
        away = frozenset(live.away)
        threading.Thread(target=self._work, args=(seen, live, ran, last, away), daemon=True).start()

    def _work(self, seen: FleetForecast, live: TrainingProgress, ran: list[ScheduledUnit], last: list[int], away: frozenset[int]) -> None:
        begun = time.monotonic()
        try:
            options = {"double_buffer": seen.fleet.double_buffer}
            found = predict_rest(seen.schedule, seen.jobs, ran, last, seen.policy, away=away, **options)
        finally:
            self._running = False
            self._next = time.monotonic() + max(_EVERY, _SHARE * (time.monotonic() - begun))
        if live.running:
            self.rest = found
            self._changed()
