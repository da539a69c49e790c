"""A board over a session: answers gestures, and publishes what is to be seen. It knows no notebook and no web page."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Literal

from workbench.edits import Edit, PlaceDim, ResizeAxis
from workbench.errors import WorkbenchError
from workbench.measurement import Measurement
from workbench.plan import Plan
from workbench.report import Report
from workbench.session import Session
from workbench.widgets.figures import Figure, figures
from workbench.widgets.gestures import Gesture, edit_of, whole_number, zone_of
from workbench.widgets.live import ENDINGS, MOST_STEPS, Live, live_state
from workbench.widgets.runner import Event, Handle, Runner
from workbench.widgets.state import Refusal, axis_colours, board_state
from workbench.widgets.tables import table_state

Part = Literal["board", "table", "live"]
Publish = Callable[[Part, dict[str, Any]], None]
Defer = Callable[[Callable[[], None]], None]

_log = logging.getLogger(__name__)
_EVERY_SECONDS = 0.1  # how often a run in progress is painted


def at_once(work: Callable[[], None]) -> None:
    """Defer nothing."""
    work()


class Board:
    """One view on one session.

    `publish(part, state)` shows a part; `defer(work)` carries work from the runner's thread onto the host's own loop.
    A gesture is answered with a new `board` state that names it; a refused edit is part of that state and changes nothing else.
    """

    def __init__(self, session: Session, publish: Publish, *, runner: Runner | None = None, defer: Defer = at_once) -> None:
        self.session = session
        self._publish, self._runner, self._defer = publish, runner, defer
        self._tab, self._search = "tensors", ""
        self._refusal: Refusal | None = None
        self._answer: dict[str, Any] = {"view": "", "seq": 0}
        self._live, self._painted = Live(), 0.0
        self._handle: Handle | None = None
        self._now: tuple[Figure, ...] = self._figures()
        self._before: tuple[Figure, ...] = ()
        self._lock, self._answering = threading.RLock(), False
        self._stop_listening = session.listen(self._moved)
        self._show("board", "table", "live")

    @property
    def measurement(self) -> Measurement | None:
        """What the last finished run measured."""
        return self._live.measurement

    def answer(self, gesture: Gesture) -> None:
        """Do what a hand asked for, or say why not."""
        with self._lock:
            self._refusal, self._answering = None, True
            self._answer = {"view": str(gesture.get("view", ""))[:40], "seq": gesture.get("seq", 0)}
            try:
                self._obey(gesture)
            except WorkbenchError as error:
                self._refusal = Refusal(error, zone_of(gesture))
            except Exception as error:  # noqa: BLE001 - the page must answer, whatever broke
                _log.exception("The gesture %r failed", dict(gesture))
                self._refusal = Refusal(WorkbenchError(f"The workbench itself failed: {type(error).__name__}: {error}"), zone_of(gesture))
            self._answering = False
            self._show("board")

    def close(self) -> None:
        """Stop listening, and the run if there is one: nobody watches any more."""
        self._stop_listening()
        self._cancel()

    def state(self) -> dict[str, Any]:
        """The present `board` state."""
        shown = board_state(self.session, now=self._now, before=self._before, refusal=self._refusal, tab=self._tab)
        return {**shown, "answer": self._answer}

    def _obey(self, gesture: Gesture) -> None:
        verb = gesture.get("verb")
        if verb == "undo":
            self.session.undo()
        elif verb == "redo":
            self.session.redo()
        elif verb == "open":
            self._open(str(gesture.get("tab", "tensors")), str(gesture.get("search", ""))[:200])
        elif verb == "run":
            self._run(str(gesture.get("steps", "")))
        elif verb == "cancel":
            self._cancel()
        elif verb != "dismiss":
            self._apply(edit_of(gesture, self.session.plan, self.session.report))

    def _apply(self, edit: Edit) -> None:
        """An edit that changes nothing leaves no trace in the history."""
        plan = self.session.plan
        placed = isinstance(edit, PlaceDim) and edit.axes == plan.layout.rule(edit.dim)
        sized = isinstance(edit, ResizeAxis) and (edit.axis, edit.size) in plan.mesh.axes
        if not placed and not sized:
            self.session.apply(edit)

    def _open(self, tab: str, search: str) -> None:
        self._tab, self._search = tab, search
        self._show("table")

    def _run(self, steps: str) -> None:
        if self._live.running or self._runner is None:
            return
        try:
            count = whole_number(steps, "number of steps", most=MOST_STEPS)
        except WorkbenchError as error:
            self._paint(Live(phase="error", steps=self._live.steps, message=str(error)))
            return
        report = self.session.report
        self._paint(Live("running", count, stage="starting", report=report, colours=tuple(axis_colours(report.plan).items())))
        self._handle = self._start(report.plan, count)

    def _start(self, plan: Plan, steps: int) -> Handle | None:
        assert self._runner is not None
        try:
            return self._runner.start(plan, steps, lambda event: self._defer(lambda: self._heard(event)))
        except WorkbenchError as error:
            self._heard({"event": "error", "message": str(error)})
            return None

    def _cancel(self) -> None:
        if self._handle is not None and self._live.running:
            self._handle.cancel()

    def _heard(self, event: Event) -> None:
        """An event of the run. Steps come faster than eyes: they are painted ten times a second, endings at once."""
        with self._lock:
            if not self._live.running:
                return
            self._live = self._live.after(event)
            ended = self._live.phase in ENDINGS
            if not ended and time.monotonic() - self._painted < _EVERY_SECONDS:
                return
            self._paint(self._live)
            if ended:
                self._handle = None
                self._learn(self._live.measurement)

    def _learn(self, measured: Measurement | None) -> None:
        """A run calibrates the devices first: from then on step times are predicted for them."""
        self._now = self._figures()
        if measured and measured.hardware:
            self.session.use_hardware(measured.hardware)
        else:
            self._show("board")

    def _paint(self, live: Live) -> None:
        self._live, self._painted = live, time.monotonic()
        self._show("live")

    def _figures(self) -> tuple[Figure, ...]:
        stale = self._live.plan != self.session.plan
        return figures(self.session.report, self._live.measurement, stale=stale)

    def _moved(self, _plan: Plan, _report: Report) -> None:
        with self._lock:
            self._before, self._now = self._now, self._figures()
            self._show("table")
            if not self._answering:  # the answer shows the board once, at its end
                self._show("board")

    def _show(self, *parts: Part) -> None:
        for part in parts:
            if part == "board":
                self._publish("board", self.state())
            elif part == "table":
                colours = axis_colours(self.session.plan)
                self._publish("table", table_state(self.session.report, self._tab, self._search, colours))
            else:
                self._publish("live", live_state(self._live, can_run=self._runner is not None))
