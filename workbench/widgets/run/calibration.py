"""Calibration of the attached devices for a board, offered for plans without hardware and measured in the background."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from workbench.errors import WorkbenchError
from workbench.hardware.hardware import Hardware
from workbench.reports.measurement import Measurement
from workbench.reports.run_events import CalibrationDone, Cancelled, Failed, Progress, RunEvent, Waiting
from workbench.session.plan_history import Session
from workbench.widgets.gestures.gesture import Handlers, handlers_of, on
from workbench.widgets.gestures.view_gestures import CalibrateGesture, CancelCalibrationGesture
from workbench.widgets.run.runner_protocol import RunHandle, Runner
from workbench.widgets.shared_states import Defer

LABEL, CANCEL = "Use the attached devices", "Cancel"
OFFER = "Choose hardware to see the step time and whether the plan fits."


class Calibration:
    """Starts and follows a calibration, then predicts times for the devices where a plan names none.

    `defer(work)` moves work to the host's event loop, where `changed()` is called on news.
    """

    def __init__(self, session: Session, runner: Runner | None, defer: Defer, changed: Callable[[], None]) -> None:
        self._session, self._runner, self._defer, self._changed = session, runner, defer, changed
        self._stage, self._problem = "", ""
        self._handle: RunHandle | None = None

    def handlers(self) -> Handlers:
        return handlers_of(on(CalibrateGesture, lambda _: self.start()), on(CancelCalibrationGesture, lambda _: self.cancel()))

    def use_kept(self) -> None:
        if self._session.report.hardware is None and (hardware := self.kept()) is not None:
            self._use(hardware)

    def learn(self, measured: Measurement | None) -> None:
        if measured and measured.hardware:
            self._use(measured.hardware)

    def _use(self, hardware: Hardware) -> None:
        if self._session.plan.hardware is None:
            self._session.use_hardware(hardware)
        self._changed()

    @property
    def is_offered(self) -> bool:
        return self._runner is not None

    @property
    def stage(self) -> str:
        return self._stage

    @property
    def problem(self) -> str:
        """Why the last measurement failed; empty if it did not."""
        return self._problem

    def kept(self) -> Hardware | None:
        """Return the hardware of an earlier calibration, if there is one."""
        return self._runner.calibrated(self._session.plan) if self._runner is not None else None

    def start(self) -> None:
        """Measure the devices, unless a measurement is running."""
        if self._runner is None or self._stage:
            return
        if (hardware := self.kept()) is not None:
            self._use(hardware)
            return
        self._problem = ""
        self._show("starting")
        try:
            self._handle = self._runner.calibrate(self._session.plan, lambda event: self._defer(lambda: self._receive(event)))
        except WorkbenchError as error:
            self._receive(Failed.of(error))

    def cancel(self) -> None:
        if self._handle is not None and self._stage:
            with suppress(WorkbenchError):
                self._handle.cancel()

    def state(self) -> dict[str, Any] | None:
        """Return the JSON shown beside the hardware picker; `None` for a plan with hardware."""
        used = self._session.report.hardware
        if self._runner is None or self._session.plan.hardware is not None:
            return None
        if self._stage:
            return _state(f"Measuring the attached devices: {self._stage} …", CANCEL)
        if used is not None:
            return _state(f"Predicted for the attached devices, {used}. Choose other hardware to compare.", None)
        return _state(self._problem or OFFER, LABEL)

    def _receive(self, event: RunEvent) -> None:
        match event:
            case Waiting(ahead=ahead):
                self._show(f"behind {ahead} other{'s' * (ahead != 1)}")
            case Progress(stage=stage):
                self._show(stage)
            case CalibrationDone(hardware=hardware):
                self._stage = ""
                self._use(hardware)
            case Failed(text=text):
                self._problem = f"The measurement failed: {text}"
                self._show("")
            case Cancelled():
                self._show("")

    def _show(self, stage: str) -> None:
        self._stage = stage
        self._changed()


def _state(text: str, button: str | None) -> dict[str, Any]:
    return {"text": text, "button": button, "busy": button == CANCEL}
