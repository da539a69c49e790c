"""A board over a fleet: handles gestures, forecasts, and follows runs, independent of notebook and web page."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from workbench.core.public_error_text import describe_error
from workbench.documents import resolve_fleet
from workbench.errors import FleetError, WorkbenchError
from workbench.multimodel import policy_named
from workbench.multimodel.fleet import Fleet, FleetModel
from workbench.multimodel.fleet_forecast import MOST_PLANNED, FleetForecast, count_devices
from workbench.multimodel.fleet_measurement import FleetMeasurement, FleetTimes
from workbench.multimodel.training_events import RemoveDevice, ReturnDevice, StopModel
from workbench.units import format_seconds
from workbench.widgets.board.board_host import Part
from workbench.widgets.board.view_state import Answers
from workbench.widgets.fleet.fleet_jobs import FleetRunner, FleetWork, News
from workbench.widgets.fleet.fleet_run_panel import run_state, timing_state
from workbench.widgets.fleet.forecast_state import (
    budget_of,
    columns_of,
    command_text,
    controls_state,
    doubt_text,
    figures_state,
    models_state,
    next_budget,
    ran_state,
    refusal_state,
    stale_text,
    timeline_state,
    ways_state,
)
from workbench.widgets.fleet.live_forecast import Expectation, LiveForecast
from workbench.widgets.gestures import panel_gestures as controls
from workbench.widgets.gestures.gesture import Handlers, Message, handlers_of, on, whole_number
from workbench.widgets.gestures.gesture_codec import FLEET_GESTURES, find_gesture
from workbench.widgets.gestures.view_gestures import CancelGesture, PictureGesture, RefreshGesture, RunGesture

PARTS: tuple[Part, ...] = ("board", "table", "live")
SHOWN: dict[News, tuple[Part, ...]] = {
    "unit": ("live",),
    "timing": ("board",),
    "run": PARTS,
    "times": PARTS,
    "fleet": PARTS,
    "expected": ("board", "live"),
}
Watcher = Callable[[Part, dict[str, Any]], None]

_log = logging.getLogger(__name__)


class FleetView:
    """The view of one fleet, shared by any number of viewers; a run continues when they leave.

    Each gesture is answered with a new `board` state that identifies it. A refusal is part of that state and changes
    nothing else. `title` is the display name, `path` the fleet's file for display; `allow` are modules whose programs
    the file may name when it is read again.
    """

    def __init__(
        self,
        fleet: Fleet,
        runner: FleetRunner | None = None,
        times: FleetTimes | None = None,
        title: str = "",
        path: str = "",
        allow: tuple[str, ...] = (),
    ) -> None:
        self.fleet, self._title, self._path, self._allow = fleet, title or fleet.name, path, allow
        self._watchers: list[Watcher] = []
        self._lock = threading.RLock()
        self._work = FleetWork(runner, self._receive_news)
        self._work.timed = (times.for_models(fleet.models),) if times else ()
        self._answers, self._handlers = Answers(), self._make_handlers()
        self._refusal: dict[str, Any] | None = None
        self._asked: dict[str, str] = {}
        self._pictures: set[str] = set()  # pictures whose hidden forms were requested
        self._forecast = LiveForecast(self._lock, self._show_forecast)
        self._expectation = Expectation(lambda: self._receive_news("expected"))
        self.parts: dict[Part, dict[str, Any]] = {}
        self._predict(fleet, patient=True)
        self._show(*PARTS)

    @property
    def measurement(self) -> FleetMeasurement | None:
        return self._work.live.measurement

    @property
    def times(self) -> FleetTimes | None:
        return self._work.timed[0] if self._work.timed else None

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        """Call `watcher(part, state)` with every state from now on; the result unsubscribes."""
        with self._lock:
            self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher) if watcher in self._watchers else None

    def look(self) -> None:
        """Time the units for a viewer unless the fleet names hardware, because a forecast needs times."""
        if self.fleet.hardware is None and not self._work.timed and self._work.timing.phase == "idle":
            self._work.time(self.fleet)

    def close(self) -> None:
        self._work.cancel()
        self._work.cancel_timing()

    def answer(self, message: Message) -> None:
        """Handle a gesture and publish the answer, which gives the reason if the gesture is refused."""
        with self._lock:
            if not self._answers.begin(message):
                self._show(*PARTS)
                return
            self._refusal, self._asked = None, {}
            try:
                self._do(message)
            except WorkbenchError as error:
                self._refuse(error, message)
            except Exception as error:  # noqa: BLE001 - the page must answer, whatever failed
                _log.exception("The gesture %r failed", dict(message))
                self._refuse(WorkbenchError(f"The workbench itself failed: {describe_error(error)}"), message)
            self._show("board")

    def _do(self, message: Message) -> None:
        gesture = find_gesture(message, FLEET_GESTURES)
        if gesture is not None:
            self._handlers[type(gesture)](gesture)

    def _refuse(self, error: WorkbenchError, message: Message) -> None:
        zone = str(message.get("verb", ""))
        self._refusal = refusal_state(error, zone)
        if zone in (controls.MemoryGesture.verb, controls.DevicesGesture.verb, controls.FleetHardwareGesture.verb):
            self._asked = {zone: str(message.get("value", ""))[:40]}

    def _make_handlers(self) -> Handlers:
        return handlers_of(
            on(controls.PolicyGesture, lambda gesture: self._change(policy=policy_named(gesture.value).name)),
            on(controls.MemoryGesture, lambda gesture: self._change(memory=budget_of(gesture.value))),
            on(controls.BudgetGesture, lambda gesture: self._change(memory=next_budget(self.fleet, self.seen, gesture.value))),
            on(controls.DevicesGesture, lambda gesture: self._change(devices=_number(gesture.value, "number of devices"))),
            on(controls.FleetHardwareGesture, lambda gesture: self._change(hardware=gesture.value.strip() or None)),
            on(RunGesture, lambda _: self._run()),
            on(CancelGesture, lambda _: self._work.cancel()),
            on(controls.TimeUnitsGesture, lambda _: self._work.time(self.fleet)),
            on(controls.CancelTimingGesture, lambda _: self._work.cancel_timing()),
            on(controls.StopModelGesture, lambda gesture: self._work.send(StopModel(gesture.value))),
            on(controls.RereadGesture, lambda _: self._take(resolve_fleet(self._path, self._allow).models)),
            on(controls.LeaveGesture, lambda gesture: self._work.send(RemoveDevice(_number(gesture.value, "device", least=0)))),
            on(controls.ReturnGesture, lambda gesture: self._work.send(ReturnDevice(_number(gesture.value, "device", least=0)))),
            on(PictureGesture, lambda gesture: self._want(gesture.name)),
            on(RefreshGesture, lambda _: None),  # needs only an answer
        )

    def _want(self, name: str) -> None:
        self._pictures.add(name)
        self._show("table")

    def _run(self) -> None:
        """Start a run. Raises `FleetError` if nothing is left to train, before a worker compiles everything."""
        if self._mine() and self._work.done_already:
            ways_out = ["give more mini-batches or epochs", "choose another folder to train them again"]
            raise FleetError("All models are already trained.", ways_out)
        self._work.train(self.fleet)

    def _change(self, **changes: Any) -> None:
        if self._work.live.running:
            raise FleetError("The models are training.", ["cancel the run first"])
        fleet = self.fleet.updated(**changes)
        if fleet != self.fleet or self._forecast.problem:
            self._predict(fleet)
            self._show("table", "live")

    def add(self, *models: FleetModel) -> None:
        """Add models, which join a run in progress. Raises `FleetError` if one does not fit."""
        with self._lock:
            self._take(self.fleet.updated(models=(*self.fleet.models, *models)).models)
            self._show("board")

    def _take(self, models: tuple[FleetModel, ...]) -> None:
        """Replace the models; during a run, new ones join and removed ones stop."""
        before, after = {model.name for model in self.fleet.models}, {model.name for model in models}
        new = tuple(model for model in models if model.name not in before)
        running = self._work.live.running
        commands = self._work.add_model_commands(new) if running else []  # before any change, since one may be refused
        self._predict(self.fleet.updated(models=(*self.fleet.models, *new) if running else models))
        if running:
            self._work.join(new, commands)
            for name in sorted(before - after):
                self._work.send(StopModel(name))
        self._show("table", "live")

    def _predict(self, fleet: Fleet, *, patient: bool = False) -> None:
        """Forecast a fleet and use it; raises `FleetError` if it does not fit, unless `patient`."""
        self._forecast.predict(fleet, self._work.timed, self._work.attached, patient=patient)
        self.fleet = fleet
        self._pictures.clear()

    def _show_forecast(self, whole: bool) -> None:
        self._show(*(PARTS if whole else ("board",)))

    @property
    def seen(self) -> FleetForecast | None:
        """The forecast of the fleet; `None` if it does not fit."""
        return self._forecast.seen

    def _receive_news(self, news: News) -> None:
        with self._lock:
            if news == "times":
                self._predict(self.fleet, patient=True)
            elif news == "fleet":
                self._follow(self._work.live.fleet)
            elif news == "run":
                self._expectation.forget()
            elif news == "unit" and self.seen and self._mine():
                with self._work.lock:
                    self._expectation.follow(self.seen, self._work.live)
            self._show(*SHOWN[news])

    def _follow(self, ran: Fleet | None) -> None:
        """Adopt the fleet of a run without the models that failed to join, unless the present fleet differs otherwise."""
        if ran and self.fleet.updated(models=ran.models) == ran:
            self._predict(ran, patient=True)

    def _show(self, *parts: Part) -> None:
        make = {"board": self._board, "table": self._table, "live": self._live}
        for part in parts:
            self.parts[part] = make[part]()
            for watcher in list(self._watchers):
                watcher(part, self.parts[part])

    def _mine(self) -> bool:
        return self._work.live.fleet == self.fleet

    @property
    def measured(self) -> FleetMeasurement | None:
        """The measurement of the last run, if it was of this fleet and ran any units."""
        last_run = self.measurement if self._mine() else None
        return last_run if last_run and last_run.schedule.placed else None

    def _board(self) -> dict[str, Any]:
        measured, devices = self.measured, count_devices(self.fleet, self._work.attached)
        seen, forecast, rest = self.seen, self._forecast, self._expectation.rest
        return {
            "kind": "fleet",
            "name": self._title,
            "path": self._path,
            "devices": f"on {devices} device{'s' * (devices != 1)}" + (f" of {self.fleet.hardware}" if self.fleet.hardware else ""),
            "controls": controls_state(self.fleet, devices, self._asked, forecast.makespans),
            "locked": self._work.live.running,
            "waits": forecast.waits,
            "refusal": self._refusal,
            "problem": refusal_state(forecast.problem, "problem") if forecast.problem else None,
            "doubt": doubt_text(seen) if seen else "",
            "timing": timing_state(self._work.timing, can_time=self._can_time),
            "figures": figures_state(seen, forecast.before, measured, rest.makespan if rest else None) if seen else [],
            "columns": [column.replace("_", " ").capitalize() for column in columns_of(self.fleet)],
            "models": models_state(self.fleet, seen),
            "ways": ways_state(seen, measured) if seen else [],
            "command": command_text(self.fleet, self._path) if self._path else "",
            "said": self._announcement(),
            "answer": self._answers.last,
            "told": self._answers.revision,
        }

    @property
    def _can_time(self) -> bool:
        work, stale = self._work, self.seen is None or self.seen.source != "timed"
        return work.can_run and not work.timing.running and not work.live.running and stale

    def _announcement(self) -> str:
        if self._refusal:
            return str(self._refusal["message"])
        return f"Makespan {format_seconds(self.seen.schedule.makespan)}." if self.seen else ""

    def _table(self) -> dict[str, Any]:
        ran = self._work.live if self._mine() else None
        timeline = timeline_state(self.seen, self.measured, ran, self._pictures.__contains__) if self.seen else None
        return {"timeline": timeline, "seq": self._answers.last["seq"], "told": self._answers.revision}

    def _live(self) -> dict[str, Any]:
        with self._work.lock:
            live = self._work.live
            ran = ran_state(self.seen, live, self._expectation.rest) if self.seen and self._mine() else None
            stale = "" if self._mine() or live.fleet is None else stale_text(live.fleet, live.devices or count_devices(live.fleet))
            return {
                **run_state(live, can_run=self._work.can_run, now=time.monotonic()),
                "ran": ran,
                "stale": stale,
                "told": self._answers.revision,
            }


def _number(typed: str, what: str, least: int = 1) -> int:
    return whole_number(typed, what, least=least, most=MOST_PLANNED)
