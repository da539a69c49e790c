"""Compute the effect of a drop while the chip is still being dragged."""

import logging

from workbench.errors import WorkbenchError
from workbench.session.plan_history import Session
from workbench.widgets.board.gesture_edits import edit_of
from workbench.widgets.board.key_figures import figures
from workbench.widgets.find.find_panel import FindPanel
from workbench.widgets.gestures.gesture import Message
from workbench.widgets.gestures.gesture_codec import read_gesture
from workbench.widgets.gestures.panel_gestures import FindGesture
from workbench.widgets.gestures.view_gestures import CompileGesture
from workbench.widgets.run.board_jobs import Jobs

FORESEEN_WITHIN = 0.1  # seconds that a report may take to be computed in advance
_log = logging.getLogger(__name__)


def foresee(message: Message, session: Session, jobs: Jobs, find: FindPanel) -> None:
    """Compute silently, and only where that is fast, as the user may do something else. Errors are reported when it is done. A process that
    compiles or searches starts while the pointer is over the button."""
    if message.get("verb") == CompileGesture.verb:
        jobs.expect_compilation(session.plan)
        return
    if message.get("verb") == FindGesture.verb:
        find.expect(session.plan)
        return
    if session.seconds > FORESEEN_WITHIN:
        return
    try:
        figures(session.foresee(edit_of(read_gesture(message), session.plan, session.report)))
    except WorkbenchError:
        pass
    except Exception:  # noqa: BLE001 - no gesture was made yet
        _log.exception("What %r would do is not known", dict(message))
