"""The view state of one board: its tab, what is selected, folded and opened, and the last question. It changes no plan."""

from workbench.reports.pipeline import PipelineReport
from workbench.session.plan_history import Session
from workbench.widgets.gestures.gesture_handlers import Handlers, on
from workbench.widgets.gestures.view_changes import (
    ExpandGesture,
    FewestGesture,
    FoldGesture,
    MomentGesture,
    PictureGesture,
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
from workbench.widgets.tabs.propagation import Replay


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
