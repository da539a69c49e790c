"""What a drop would do, computed while the chip is still being dragged: shown over each zone, and kept for the drop."""

import logging
import time
from collections.abc import Callable, Iterable
from typing import Any

from workbench.errors import WorkbenchError
from workbench.session.plan_history import Session
from workbench.widgets.board.drop_legality import rule_without_effect
from workbench.widgets.board.figure_changes import figure_states
from workbench.widgets.board.gesture_edits import changes_nothing, edit_of
from workbench.widgets.board.key_figures import figures
from workbench.widgets.board.tier_marks import Figure
from workbench.widgets.find.find_panel import FindPanel
from workbench.widgets.gestures.gesture import Gesture, Message
from workbench.widgets.gestures.gesture_codec import read_gesture
from workbench.widgets.gestures.panel_gestures import FindGesture
from workbench.widgets.gestures.tensor_gestures import PreviewGesture
from workbench.widgets.gestures.view_gestures import CompileGesture
from workbench.widgets.run.board_jobs import Jobs
from workbench.widgets.shared_states import Defer

FORESEEN_WITHIN = 0.1  # seconds that a report may take to be computed in advance
PREVIEWED_WITHIN = 0.5  # CPU seconds that a report may take to be computed for every zone; else for that under the pointer alone
PREVIEWED = ("predicted", "memory", "sent")
"""Key figures of a preview, in order; bytes sent only where no step time is known."""
_log = logging.getLogger(__name__)


class DropPreviews:
    """The change that a drop on each zone would make, one zone after another, so that a gesture waits for one of them at most.

    `known()` are the figures of the present plan, of every tier; `later(work)` moves work behind the gestures that wait; `changed()` is
    called after each zone.
    """

    def __init__(self, session: Session, known: Callable[[], tuple[Figure, ...]], later: Defer, changed: Callable[[], None]) -> None:
        self._session, self._known, self._later, self._changed = session, known, later, changed
        self._key, self._plan = "", session.plan
        self._waiting: dict[str, Gesture] = {}  # by zone, the next one first
        self._is_running, self._seconds = False, 0.0  # of the last preview
        self._zones: dict[str, dict[str, Any]] = {}

    def begin(self, gesture: PreviewGesture) -> None:
        """A chip is in hand; what is known of it since it was in hand before stands."""
        if gesture.key != self._key or self._session.plan is not self._plan:
            self._zones = {}
        self._key, self._plan = gesture.key, self._session.plan
        self._waiting = {target: gesture.drop_on(target) for target in gesture.targets if target not in self._zones}
        if self._seconds <= PREVIEWED_WITHIN:
            self._run()

    def hurry(self, message: Message) -> bool:
        """Compute this zone next: the pointer is over it. Whether its preview is known or on its way."""
        target = str(message.get("target", ""))
        if target in self._waiting:
            self._waiting = {target: self._waiting.pop(target), **self._waiting}
            self._run()
            return True
        return bool(self._key) and target in self._zones

    def forget(self) -> None:
        """The chip was let go."""
        self._key, self._zones = "", {}
        self._waiting.clear()

    def state(self) -> dict[str, Any] | None:
        """JSON; `None` while no chip is in hand."""
        return {"key": self._key, "zones": dict(self._zones)} if self._key else None

    def _run(self) -> None:
        if self._waiting and not self._is_running:
            self._is_running = True
            self._later(self._compute_next)

    def _compute_next(self) -> None:
        self._is_running = False
        if self._session.plan is not self._plan:
            self.forget()
        if not self._waiting:
            return
        target, begun = next(iter(self._waiting)), time.thread_time()
        self._zones[target] = self._preview(self._waiting.pop(target))
        self._seconds = time.thread_time() - begun
        self._changed()
        if self._seconds <= PREVIEWED_WITHIN:
            self._run()

    def _preview(self, gesture: Gesture) -> dict[str, Any]:
        session = self._session
        try:
            edit = edit_of(gesture, session.plan, session.report)
            if changes_nothing(edit, session.plan):
                return _note("no change")
            if (why := rule_without_effect(session.plan, edit)) is not None:
                return _note(why.subject, "none")
            now = figures(session.foresee(edit))
        except WorkbenchError as error:
            return _note(error.message.partition(". ")[0], "bad")
        except Exception:  # noqa: BLE001 - a preview that fails is no reason to lose the drop
            _log.exception("What %r would do is not known", gesture)
            return _note("")
        return _changes(figure_states(now, self._known()))


def _note(text: str, tone: str = "") -> dict[str, Any]:
    return {"note": text, "tone": tone, "changes": []}


def _changes(states: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The changes of step time and memory; the first that there is gives the zone its tone."""
    shown = {state["key"]: state for state in states}
    keys = [key for key in PREVIEWED if key in shown][:2]
    changes = [{"label": _LABELS[key], **shown[key]["delta"]} for key in keys if shown[key]["delta"]]
    return {"note": "" if changes else "no change", "tone": changes[0]["tone"] if changes else "", "changes": changes}


_LABELS = {"predicted": "step", "memory": "memory", "sent": "sent"}


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
        _log.exception("The effect of %r is not known", dict(message))
