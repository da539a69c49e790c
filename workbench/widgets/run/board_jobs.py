"""Jobs of one board: at most one run and one compilation, in the runner's processes."""

import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal

from workbench.errors import WorkbenchError
from workbench.plan.plan import Plan
from workbench.reports.report import Report
from workbench.reports.run_events import Failed, RunEvent, StepDone
from workbench.session.plan_history import Session
from workbench.widgets.board.comparison_state import ComparisonState
from workbench.widgets.gestures.gesture import Handlers, handlers_of, on, whole_number
from workbench.widgets.gestures.view_gestures import CancelCompilationGesture, CancelGesture, CompileGesture, RunGesture
from workbench.widgets.run.job_progress import MOST_STEPS, CompileProgress, RunProgress
from workbench.widgets.run.run_panel import compile_state, run_state
from workbench.widgets.run.runner_protocol import RunHandle, Runner
from workbench.widgets.shared_states import Defer
from workbench.widgets.tabs.table_blocks import axis_colours

Ended = Literal["", "run", "compilation"]
Changed = Callable[[Ended], None]

_EVERY_SECONDS = 0.1  # how often a run in progress is shown


class Jobs:
    """Starts, cancels and follows a run and a compilation.

    `defer(work)` moves work to the host's event loop, where `changed(ended)` is called; `ended` names a job that has
    ended.
    """

    def __init__(self, runner: Runner | None, defer: Defer, changed: Changed) -> None:
        self._runner, self._defer, self._changed = runner, defer, changed
        self.live, self.compiling = RunProgress(), CompileProgress()
        self._pending: deque[Callable[[], None]] = deque()
        self._shown = 0.0
        self._run: RunHandle | None = None
        self._compilation: RunHandle | None = None

    def run(self, report: Report, steps: str, colours: dict[str, int]) -> None:
        """Run a plan for the number of steps that the user typed."""
        if self.live.running or self._runner is None:
            return
        try:
            count = whole_number(steps, "number of steps", most=MOST_STEPS)
        except WorkbenchError as error:
            self._show_run(self.live.refuse(report, str(error)))
            return
        self._show_run(self.live.begin(report, count, colours, time.monotonic()))
        try:
            self._run = self._runner.start(report.plan, count, lambda event: self._hear(lambda: self._receive_run_event(event)))
        except WorkbenchError as error:
            self._receive_run_event(Failed.of(error))

    def refuses(self, plan: Plan) -> str:
        """Return why a plan cannot be compiled, as far as known without trying; empty if it may be."""
        return "This board cannot compile." if self._runner is None else self._runner.refuses(plan)

    def expect_compilation(self, plan: Plan) -> None:
        """Start the compilation process for a likely request. Its errors are reported with the request."""
        if self._runner is not None and not self.compiling.running:
            with suppress(WorkbenchError):
                self._runner.expect(plan)

    def show(self) -> None:
        self._changed("")

    def show_finished(self, run: RunProgress) -> None:
        """Add a run that another board of the same session has finished."""
        self.live = self.live.with_finished(run)
        self._changed("run")

    def compile(self, report: Report, *, unasked: bool = False) -> None:
        """Compile a plan; `unasked` at low priority and without messages. A request adopts an automatic compilation."""
        if self._runner is None or self.compiling.running:
            self.compiling = replace(self.compiling, unasked=self.compiling.unasked and unasked)
            return
        self.compiling = self.compiling.begin(report, time.monotonic(), unasked=unasked)
        self._changed("")
        try:
            self._compilation = self._runner.compile(
                report.plan, lambda event: self._hear(lambda: self._receive_compile_event(event)), behind=unasked
            )
        except WorkbenchError as error:
            self._receive_compile_event(Failed.of(error))

    def cancel_run(self) -> None:
        if self._run is not None and self.live.running:
            self._run.cancel()

    def cancel_compilation(self) -> None:
        if self._compilation is not None and self.compiling.running:
            self._compilation.cancel()

    def state(self, plan: Plan, comparison_state: ComparisonState | None, *, runs: bool = True) -> dict[str, Any]:
        compiling = compile_state(self.compiling, comparison_state, plan)
        return {**run_state(self.live, plan, can_run=self._runner is not None), "runs": runs, "compile": compiling}

    def _hear(self, work: Callable[[], None]) -> None:
        """Handle events in order, although a host such as a busy Bokeh document may call back in another order."""
        self._pending.append(work)
        self._defer(self._take)

    def _take(self) -> None:
        self._pending.popleft()()

    def _receive_run_event(self, event: RunEvent) -> None:
        if not self.live.running:
            return
        self.live = self.live.after(event, time.monotonic())
        if isinstance(event, StepDone) and time.monotonic() - self._shown < _EVERY_SECONDS:
            return
        self._show_run(self.live)

    def _show_run(self, live: RunProgress) -> None:
        self.live, self._shown = live, time.monotonic()
        self._changed("" if live.running else "run")

    def _receive_compile_event(self, event: RunEvent) -> None:
        if self.compiling.running:
            self.compiling = self.compiling.after(event, time.monotonic())
            self._changed("" if self.compiling.running else "compilation")


# The board's handlers for run and compilation gestures.


def job_handlers(session: Session, jobs: Jobs) -> Handlers:
    """Return gesture handlers, which use the prediction of the present plan."""
    return handlers_of(
        on(RunGesture, lambda gesture: jobs.run(session.report.prediction, gesture.steps, axis_colours(session))),
        on(CancelGesture, lambda _: jobs.cancel_run()),
        on(CompileGesture, lambda _: jobs.compile(session.report.prediction)),
        on(CancelCompilationGesture, lambda _: jobs.cancel_compilation()),
    )
