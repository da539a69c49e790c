"""The board's handlers for gestures of runs and compilations."""

from workbench.session.plan_history import Session
from workbench.widgets.board.board_state import axis_colours
from workbench.widgets.gestures.gesture_handlers import Handlers, on
from workbench.widgets.gestures.running import CancelCompilationGesture, CancelGesture, CompileGesture, RunGesture
from workbench.widgets.run.board_jobs import Jobs


def job_handlers(session: Session, jobs: Jobs) -> Handlers:
    """Each handler uses the present plan, with its prediction."""
    return dict(
        [
            on(RunGesture, lambda gesture: jobs.run(session.report.prediction, gesture.steps, axis_colours(session.plan))),
            on(CancelGesture, lambda _: jobs.cancel_run()),
            on(CompileGesture, lambda _: jobs.compile(session.report.prediction)),
            on(CancelCompilationGesture, lambda _: jobs.cancel_compilation()),
        ]
    )
