"""The forecast of a fleet: at once where that is fast, else in a thread while the board says so."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from workbench.errors import WorkbenchError
from workbench.multimodel import ALL_POLICIES, FleetSchedule, ScheduledUnit, simulate
from workbench.multimodel.fleet import Fleet
from workbench.multimodel.fleet_forecast import FleetForecast, forecast
from workbench.multimodel.fleet_measurement import FleetTimes
from workbench.multimodel.running_forecast import predict_rest
from workbench.widgets.fleet.training_progress import TrainingProgress

AT_ONCE = 6_000  # the most units that are simulated while the user waits; more are simulated in a thread
MOST_COMPARED = 15_000  # the most units for which the other policies are simulated too


class LiveForecast:
    """The prediction that is `seen`, or the `problem` of a fleet that does not fit.

    `before` is the makespan before the user's last change, `makespans` are those of the policies so far. `arrived(whole)` is called,
    holding the `lock`, when a thread has a prediction, or just the other policies'.
    """

    def __init__(self, lock: AbstractContextManager[object], arrived: Callable[[bool], None]) -> None:
        self._lock, self._arrived = lock, arrived
        self.seen: FleetForecast | None = None
        self.problem: WorkbenchError | None = None
        self.before: float | None = None
        self.makespans: dict[str, float] = {}
        self._wanted: FleetForecast | None = None  # simulated in a thread, and not done yet
        self._simulating = False

    @property
    def waits(self) -> bool:
        return self._wanted is not None

    def predict(self, fleet: Fleet, timed: Sequence[FleetTimes], attached: int | None = None, *, patient: bool = False) -> None:
        """Raises `FleetError` for a fleet that does not fit, unless it is `patient`: then that is its `problem`."""
        try:
            found = _feasible(forecast(fleet, timed, attached))
        except WorkbenchError as error:
            if not patient:
                raise
            self.seen, self.problem, self.makespans, self._wanted = None, error, {}, None
            return
        self.problem = None
        if found.units > AT_ONCE or fleet.policy == "exact":  # a solver takes its time
            self._wanted = found
            if not self._simulating:
                self._simulating = True
                threading.Thread(target=self._simulate, daemon=True).start()
        else:
            self._see(found)

    def _simulate(self) -> None:
        """Simulate the last request, in a thread; requests before that are dropped."""
        while True:
            with self._lock:
                found = self._wanted
                if found is None:
                    self._simulating = False
                    return
            _ = found.schedule
            with self._lock:
                if self._wanted is found:
                    self._see(found)
                    self._arrived(True)

    def _see(self, found: FleetForecast) -> None:
        asked = self.seen is not None and self.seen.fleet != found.fleet  # only the user's changes count, not new times of the same units
        self.before = self.seen.schedule.makespan if self.seen and asked else None
        self.seen, self._wanted = found, None
        self.makespans = {found.fleet.policy: found.schedule.makespan}
        if found.units * len(ALL_POLICIES) <= AT_ONCE:
            self.makespans |= _others(found)
        elif found.units <= MOST_COMPARED:
            threading.Thread(target=self._compare, args=(found,), daemon=True).start()

    def _compare(self, found: FleetForecast) -> None:
        """Simulate the other policies, where that takes a moment."""
        others = _others(found)
        with self._lock:
            if self.seen is found:
                self.makespans |= others
                self._arrived(False)


def _feasible(found: FleetForecast) -> FleetForecast:
    """Raises `FleetError` where a solver is asked for more than it can do."""
    if found.fleet.policy == "exact":
        from workbench.multimodel.optimal_schedule import verify_within_reach  # the solver is a large import, and needed for this alone

        verify_within_reach(found.jobs, found.devices)
    return found


def _others(found: FleetForecast) -> dict[str, float]:
    """The makespans of all policies but the chosen one; a solver is not run unless the user chooses it."""
    others = (each for each in ALL_POLICIES if each.name != found.fleet.policy)
    return {each.name: simulate(found.jobs, found.devices, each, double_buffer=found.fleet.double_buffer).makespan for each in others}


# The expected rest of a run, simulated again now and then in a thread: simulating takes a moment, and units come fast.

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
