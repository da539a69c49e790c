"""The view state of one board: its tab, what is selected, folded and opened, and the last question. It changes no plan."""

from typing import Any

from workbench.reports.pipeline import PipelineReport
from workbench.session.plan_history import Session
from workbench.widgets.gestures.gesture import Handlers, Message, on
from workbench.widgets.gestures.view_gestures import (
    ExpandGesture,
    FewestGesture,
    FoldGesture,
    MomentGesture,
    PictureGesture,
    RefreshGesture,
    SelectGesture,
    ShowStageGesture,
    StepGesture,
    TabGesture,
    TryBoundaryGesture,
    WeighGesture,
    WhyGesture,
)
from workbench.widgets.pipeline.stage_edits import preview_boundary
from workbench.widgets.tabs.picture_tabs import Views
from workbench.widgets.tabs.propagation_tab import Replay


class Sight:
    """The view state. `selected` is the path that every view marks; empty for none. `trial` is a pipeline being dragged, of the last
    gesture alone. `asked` are the names of the pictures whose other forms were asked for since the tab was opened."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.tab, self.search, self.selected, self.question = "tensors", "", "", ""
        self.toggled: frozenset[str] = frozenset()
        self.asked: frozenset[str] = frozenset()
        self.views, self.replay = Views(), Replay()
        self.trial: PipelineReport | None = None

    def handlers(self) -> Handlers:
        """Its handlers; the tables change after each."""
        return dict(
            [
                on(TabGesture, self._open),
                on(SelectGesture, self._select),
                on(FoldGesture, self._fold),
                on(WhyGesture, self._ask),
                on(StepGesture, lambda gesture: self._replay(self.replay.at(gesture.step))),
                on(WeighGesture, lambda gesture: self._replay(self.replay.weighing(gesture.conflict))),
                on(FewestGesture, lambda _: self._replay(self.replay.seeking(self._session.plan))),
                on(ExpandGesture, lambda gesture: self._view(self.views.toggle_scope(gesture.scope, self._session.report.prediction))),
                on(MomentGesture, lambda gesture: self._view(self.views.at(gesture.place, self._session.report.prediction))),
                on(ShowStageGesture, lambda gesture: self._view(self.views.of_stage(gesture.stage, self._session.report.prediction))),
                on(TryBoundaryGesture, self._try_boundary),
                on(PictureGesture, self._ask_for_picture),
            ]
        )

    def is_asked(self, name: str) -> bool:
        """Whether the text of this picture is wanted, and the SVG behind its charts."""
        return name in self.asked

    def _ask_for_picture(self, gesture: PictureGesture) -> None:
        self.asked |= {gesture.name}

    def _open(self, gesture: TabGesture) -> None:
        if gesture.tab != self.tab:
            self.asked = frozenset()
        self.tab, self.search = gesture.tab, gesture.search

    def _select(self, gesture: SelectGesture) -> None:
        """Select a path; selecting it again deselects it."""
        self.selected = "" if gesture.path == self.selected else gesture.path

    def _fold(self, gesture: FoldGesture) -> None:
        self.toggled ^= {gesture.key}

    def _ask(self, gesture: WhyGesture) -> None:
        self.question = gesture.of

    def _replay(self, replay: Replay) -> None:
        self.replay = replay

    def _view(self, views: Views) -> None:
        self.views = views

    def _try_boundary(self, gesture: TryBoundaryGesture) -> None:
        self.trial = preview_boundary(gesture, self._session.plan, self._session.report)


# Which gesture of which view was answered last. A host may lose a message: the page then asks again, and nothing is done twice.


class Answers:
    """Identifies the gesture that a state answers: `last`, and `revision`, which counts how often the same state was sent again."""

    def __init__(self) -> None:
        self.last: dict[str, Any] = {"view": "", "seq": 0}
        self.revision = 0
        self._done: dict[str, int] = {}  # the last gesture of each view

    def begin(self, message: Message) -> bool:
        """Begin to answer this gesture; whether there is something to do for it, or the present state is only to be sent again."""
        self.last = {"view": str(message.get("view", ""))[:40], "seq": message.get("seq", 0)}
        view, number = self.last["view"], self.last["seq"]
        if message.get("verb") == RefreshGesture.verb or (message.get("again") and self._done.get(view) == number):
            self.revision += 1
            return False
        self._done[view] = number
        return True
