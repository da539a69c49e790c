"""The forecast of a fleet: at once where that is fast, else in a thread while the board says so."""

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from workbench.errors import WorkbenchError
from workbench.multimodel import ALL_POLICIES, simulate
from workbench.multimodel.fleet import Fleet
from workbench.multimodel.fleet_forecast import FleetForecast, forecast
from workbench.multimodel.fleet_measurement import FleetTimes

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
