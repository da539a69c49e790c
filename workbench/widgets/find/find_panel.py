"""The search panel of a board: its gestures, its tab, and the publication of progress."""

from collections.abc import Callable

from workbench.reports.report import Report
from workbench.session.plan_history import Session
from workbench.widgets.board.background_queries import BackgroundQueries
from workbench.widgets.board.board_host import Part
from workbench.widgets.find.find_tab import find_blocks
from workbench.widgets.find.finder import Finder
from workbench.widgets.gestures import panel_gestures as gestures
from workbench.widgets.gestures.gesture import Handlers, on
from workbench.widgets.run.runner_protocol import Runner
from workbench.widgets.shared_states import Defer
from workbench.widgets.tabs.table_blocks import Block


class FindPanel:
    """The search of one board. `show(part)` publishes a part of the board; `is_seen()` tells whether the tab is open."""

    def __init__(
        self, session: Session, runner: Runner | None, defer: Defer, show: Callable[[Part], None], is_seen: Callable[[], bool]
    ) -> None:
        self._session, self._show, self._is_seen = session, show, is_seen
        self.finder = Finder(runner, defer, self._show_news)
        self._shown_badge = ""

    def handlers(self) -> Handlers:
        session, finder = self._session, self.finder
        return dict(
            [
                on(gestures.FindGesture, lambda gesture: finder.find(gesture, session.plan)),
                on(gestures.StopFindingGesture, lambda _: finder.stop()),
                on(gestures.ChooseFoundGesture, lambda gesture: finder.choose(gesture.plan)),
                on(gestures.TakeFoundGesture, self._take),
                on(gestures.ExplainFoundGesture, lambda gesture: finder.explain(gesture.plan, gesture.than)),
                on(gestures.VerifyFoundGesture, lambda gesture: finder.verify(gesture.plan)),
                on(gestures.StopVerifyingGesture, lambda _: finder.stop_verifying()),
                on(gestures.PinChoiceGesture, lambda gesture: finder.pin(gesture.decision, session.plan)),
                on(gestures.RelaxGesture, lambda gesture: finder.relax(gesture.place, session.plan)),
            ]
        )

    def blocks(self, report: Report, background: BackgroundQueries | None) -> list[Block]:
        return find_blocks(self.finder, report, background)

    def _take(self, gesture: gestures.TakeFoundGesture) -> None:
        edit = self.finder.take(gesture.plan, self._session.plan)
        if edit is not None:
            self._session.apply(edit)

    def _show_news(self) -> None:
        if self._is_seen():
            self._show("table")
        if self.finder.badge != self._shown_badge:
            self._shown_badge = self.finder.badge
            self._show("board")
