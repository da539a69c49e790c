"""The view state of one board: tab, selection, folding, and the last question. It changes no plan."""

from dataclasses import replace
from typing import Any

from workbench.reports.pipeline import PipelineReport
from workbench.reports.report import Report
from workbench.session.plan_history import Session
from workbench.widgets.gestures import view_gestures as gestures
from workbench.widgets.gestures.gesture import Handlers, Message, handlers_of, on
from workbench.widgets.pipeline.stage_edits import preview_boundary
from workbench.widgets.tabs.board_tabs import section_of
from workbench.widgets.tabs.propagation_tab import Replay
from workbench.widgets.tabs.shown_stage import Views


class Sight:
    """The view state.

    `selected` is the path that every view marks, empty for none; `trial` is a pipeline being dragged, kept for one
    gesture; `asked` are the pictures whose other forms were requested since the tab was opened; `opened` maps each view
    to its last open section.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self.tab, self.search, self.selected, self.question = "overview", "", "", ""
        self.opened: dict[str, str] = {}
        self.toggled: frozenset[str] = frozenset()
        self.asked: frozenset[str] = frozenset()
        self.views, self.replay = Views(), Replay()
        self.trial: PipelineReport | None = None

    def handlers(self) -> Handlers:
        """Gesture handlers; the tables change after each."""
        return handlers_of(
            on(gestures.TabGesture, self._open),
            on(gestures.SelectGesture, lambda gesture: self._set(selected="" if gesture.path == self.selected else gesture.path)),
            on(gestures.FoldGesture, lambda gesture: self._set(toggled=self.toggled ^ {gesture.key})),
            on(gestures.WhyGesture, lambda gesture: self._set(question=gesture.of)),
            on(gestures.StepGesture, lambda gesture: self._set(replay=replace(self.replay, step=gesture.step))),
            on(
                gestures.WeighGesture,
                lambda gesture: self._set(replay=replace(self.replay, weighed=self.replay.weighed | {gesture.conflict})),
            ),
            on(gestures.FewestGesture, lambda _: self._set(replay=replace(self.replay, fewest=self._session.plan))),
            on(gestures.ExpandGesture, lambda gesture: self._set(views=self.views.toggle_scope(gesture.scope, self._report))),
            on(gestures.MomentGesture, lambda gesture: self._set(views=self.views.at(gesture.place, self._report))),
            on(gestures.ShowStageGesture, lambda gesture: self._set(views=self.views.of_stage(gesture.stage, self._report))),
            on(
                gestures.TryBoundaryGesture,
                lambda gesture: self._set(trial=preview_boundary(gesture, self._session.plan, self._session.report)),
            ),
            on(gestures.PictureGesture, lambda gesture: self._set(asked=self.asked | {gesture.name})),
        )

    def is_asked(self, name: str) -> bool:
        return name in self.asked

    @property
    def _report(self) -> Report:
        return self._session.report.prediction

    def _set(self, **changed: Any) -> None:
        vars(self).update(changed)

    def _open(self, gesture: gestures.TabGesture) -> None:
        section = section_of(gesture.tab)  # of an old link, another tab than the one that it names
        if section.key != self.tab:
            self.asked = frozenset()
        self.tab, self.search = section.key, gesture.search
        self.opened[section.view] = section.key


# The last answered gesture of each view. A host may lose a message: the page then asks again, and nothing is done twice.


class Answers:
    """Identifies the gesture that a state answers: `last`, and `revision`, which counts repeated sends of one state."""

    def __init__(self) -> None:
        self.last: dict[str, Any] = {"view": "", "seq": 0}
        self.revision = 0
        self._done: dict[str, int] = {}  # the last gesture of each view

    def begin(self, message: Message) -> bool:
        """Record a gesture; `False` if only the present state is to be sent again."""
        self.last = {"view": str(message.get("view", ""))[:40], "seq": message.get("seq", 0)}
        view, number = self.last["view"], self.last["seq"]
        if message.get("verb") == gestures.RefreshGesture.verb or (message.get("again") and self._done.get(view) == number):
            self.revision += 1
            return False
        self._done[view] = number
        return True
