"""Effects of possible drops, computed during the drag: shown over each zone, and reused for the drop."""

import logging
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from workbench.errors import WorkbenchError
from workbench.session.plan_history import Session
from workbench.widgets.board.drop_legality import rule_without_effect
from workbench.widgets.board.figure_changes import figure_states
from workbench.widgets.board.gesture_edits import changes_nothing, edit_of
from workbench.widgets.board.key_figures import figures
from workbench.widgets.board.tier_marks import Figure
from workbench.widgets.find.find_tab import FindPanel
from workbench.widgets.gestures.gesture import Gesture, Message
from workbench.widgets.gestures.gesture_codec import read_gesture
from workbench.widgets.gestures.panel_gestures import FindGesture
from workbench.widgets.gestures.tensor_gestures import PreviewGesture
from workbench.widgets.gestures.view_gestures import CompileGesture
from workbench.widgets.run.board_jobs import Jobs
from workbench.widgets.shared_states import Defer

PREVIEWED_WITHIN = 0.5  # limit in CPU seconds of a report computed for every zone; beyond it only for the zone under the pointer
PREVIEWED = ("predicted", "memory", "sent")
"""Key figures of a preview, in order; bytes sent are shown only without a step time."""
_log = logging.getLogger(__name__)


class DropPreviews:
    """Previews of a drop on each zone, computed one at a time so that a gesture waits for at most one.

    `known()` returns the present figures; `later(work)` queues work behind gestures; `changed()` is called after each
    zone.
    """

    def __init__(self, session: Session, known: Callable[[], tuple[Figure, ...]], later: Defer, changed: Callable[[], None]) -> None:
        self._session, self._known, self._later, self._changed = session, known, later, changed
        self._key, self._plan = "", session.plan
        self._waiting: dict[str, Gesture] = {}  # by zone, in order
        self._is_running, self._seconds = False, 0.0  # of the last preview
        self._zones: dict[str, dict[str, Any]] = {}

    def begin(self, gesture: PreviewGesture) -> None:
        """Compute previews of a dragged chip, first of the zone under the pointer; those of the same chip and plan are kept."""
        if gesture.key != self._key or self._session.plan is not self._plan:
            self._zones = {}
        self._key, self._plan = gesture.key, self._session.plan
        targets = sorted(gesture.targets, key=lambda target: target != gesture.target)
        self._waiting = {target: gesture.drop_on(target) for target in targets if target not in self._zones}
        if self._seconds <= PREVIEWED_WITHIN or gesture.target in self._waiting:
            self._run()

    def forget(self) -> None:
        """Drop all previews: another gesture was made."""
        self._key, self._zones = "", {}
        self._waiting.clear()

    def state(self) -> dict[str, Any] | None:
        return {"key": self._key, "zones": dict(self._zones)} if self._key and self._session.plan is self._plan else None

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
            _log.exception("The effect of %r is unknown", gesture)
            return _note("")
        return _changes(figure_states(now, self._known()))


def _note(text: str, tone: str = "") -> dict[str, Any]:
    return {"note": text, "tone": tone, "changes": []}


def _changes(states: Iterable[dict[str, Any]]) -> dict[str, Any]:
    shown = {state["key"]: state for state in states}
    keys = [key for key in PREVIEWED if key in shown][:2]
    changes = [{"label": _LABELS[key], **shown[key]["delta"]} for key in keys if shown[key]["delta"]]
    return {"note": "" if changes else "no change", "tone": changes[0]["tone"] if changes else "", "changes": changes}


_LABELS = {"predicted": "step", "memory": "memory", "sent": "sent"}


def expect(message: Message, session: Session, jobs: Jobs, find: FindPanel, previews: DropPreviews) -> None:
    """Begin the previews of a drag, or start the worker of a likely job; ignores a message that cannot be read."""
    match message.get("verb"):
        case CompileGesture.verb:
            jobs.expect_compilation(session.plan)
        case FindGesture.verb:
            find.finder.expect(session.plan)
        case PreviewGesture.verb:
            with suppress(WorkbenchError):
                gesture = read_gesture(message)
                assert isinstance(gesture, PreviewGesture)
                previews.begin(gesture)
