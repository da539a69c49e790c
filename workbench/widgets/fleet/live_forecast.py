"""The forecast of a fleet: computed at once if fast, else in a thread."""

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
    """The forecast `seen`, or the `problem` of a fleet that does not fit.

    `before` is the makespan before the last change, `makespans` those of all simulated policies. `arrived(whole)` is
    called with the `lock` held; `whole` is false for other policies' makespans only.
    """

    def __init__(self, lock: AbstractContextManager[object], arrived: Callable[[bool], None]) -> None:
        self._lock, self._arrived = lock, arrived
        self.seen: FleetForecast | None = None
        self.problem: WorkbenchError | None = None
        self.before: float | None = None
        self.makespans: dict[str, float] = {}
        self._wanted: FleetForecast | None = None  # being simulated in a thread
        self._simulating = False

    @property
    def waits(self) -> bool:
        return self._wanted is not None

    def predict(self, fleet: Fleet, timed: Sequence[FleetTimes], attached: int | None = None, *, patient: bool = False) -> None:
        """Forecast a fleet; raises `FleetError` if it does not fit, unless `patient`."""
        try:
            prediction = _feasible(forecast(fleet, timed, attached))
        except WorkbenchError as error:
            if not patient:
                raise
            self.seen, self.problem, self.makespans, self._wanted = None, error, {}, None
            return
        self.problem = None
        if prediction.units > AT_ONCE or fleet.policy == "exact":  # a solver is slow
            self._wanted = prediction
            if not self._simulating:
                self._simulating = True
                threading.Thread(target=self._simulate, daemon=True).start()
        else:
            self._see(prediction)

    def _simulate(self) -> None:
        while True:
            with self._lock:
                prediction = self._wanted
                if prediction is None:
                    self._simulating = False
                    return
            _ = prediction.schedule
            with self._lock:
                if self._wanted is prediction:
                    self._see(prediction)
                    self._arrived(True)

    def _see(self, found: FleetForecast) -> None:
        is_edited = (
            self.seen is not None and self.seen.fleet != found.fleet
        )  # only the user's changes count, not new times of the same units
        self.before = self.seen.schedule.makespan if self.seen and is_edited else None
        self.seen, self._wanted = found, None
        self.makespans = {found.fleet.policy: found.schedule.makespan}
        if found.units * len(ALL_POLICIES) <= AT_ONCE:
            self.makespans |= _others(found)
        elif found.units <= MOST_COMPARED:
            threading.Thread(target=self._compare, args=(found,), daemon=True).start()

    def _compare(self, found: FleetForecast) -> None:
        others = _others(found)
        with self._lock:
            if self.seen is found:
                self.makespans |= others
                self._arrived(False)


def _feasible(found: FleetForecast) -> FleetForecast:
    if found.fleet.policy == "exact":
        from workbench.multimodel.optimal_schedule import verify_solvable  # the solver is a large import, and needed for this alone

        verify_solvable(found.jobs, found.devices)
    return found


def _others(found: FleetForecast) -> dict[str, float]:
    """Return the makespans of the other policies; a solver runs only if the user chooses it."""
    others = (policy for policy in ALL_POLICIES if policy.name != found.fleet.policy)
    return {policy.name: simulate(found.jobs, found.devices, policy, double_buffer=found.fleet.double_buffer).makespan for policy in others}


# The expected rest of a run, simulated periodically in a thread, because units finish faster than a simulation.

MOST_LEFT = 10_000  # the most units that are simulated meanwhile; with more, the prediction stays
_EVERY, _SHARE = 1.0, 5  # seconds between two simulations, and the least ratio of that to the time of one


class Expectation:
    """The expected rest of a run. `rest` is its schedule, `None` if unknown; `changed()` is called when it changes."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self.rest: FleetSchedule | None = None
        self._changed = changed
        self._next = 0.0
        self._running = False

    def forget(self) -> None:
        self.rest, self._next = None, 0.0

    def follow(self, seen: FleetForecast, live: TrainingProgress) -> None:
        """Simulate the rest of a run of `seen` again if it is due. The caller holds the lock of `live`."""
        fleet = live.fleet
        is_same = [entry.name for entry in seen.jobs] == list(live.models) and seen.devices == live.devices
        remaining = sum(max(0, entry.of - entry.done) for entry in live.models.values())
        if (
            not (live.running and live.measured and is_same and fleet)
            or self._running
            or time.monotonic() < self._next
            or remaining > MOST_LEFT
        ):
            return
        self._running = True
        ran = [ScheduledUnit(row[0], row[1], row[2], row[3], row[4], row[3]) for row in live.measured]
        last = [entry.of if entry.done < entry.of else 0 for entry in live.models.values()]  # an earlier run may have done all of it
        away = frozenset(live.away)
        threading.Thread(target=self._work, args=(seen, live, ran, last, away), daemon=True).start()

    def _work(self, seen: FleetForecast, live: TrainingProgress, ran: list[ScheduledUnit], last: list[int], away: frozenset[int]) -> None:
        begun = time.monotonic()
        try:
            options = {"double_buffer": seen.fleet.double_buffer}
            rest = predict_rest(seen.schedule, seen.jobs, ran, last, seen.policy, away=away, **options)
        finally:
            self._running = False
            self._next = time.monotonic() + max(_EVERY, _SHARE * (time.monotonic() - begun))
        if live.running:
            self.rest = rest
            self._changed()
