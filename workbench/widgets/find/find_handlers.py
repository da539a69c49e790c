"""The board's handlers for gestures of the search."""

from workbench.session.plan_history import Session
from workbench.widgets.find.finder import Finder
from workbench.widgets.gestures.finding import (
    ChooseFoundGesture,
    ExplainFoundGesture,
    FindGesture,
    RelaxGesture,
    StopFindingGesture,
    TakeFoundGesture,
)
from workbench.widgets.gestures.gesture_handlers import Handlers, on


def find_handlers(session: Session, finder: Finder) -> Handlers:
    """Each searches from, or changes, the present plan; they raise `WorkbenchError` for what was mistyped or is not there any more."""
    return dict(
        [
            on(FindGesture, lambda gesture: finder.find(gesture, session.plan)),
            on(StopFindingGesture, lambda _: finder.stop()),
            on(ChooseFoundGesture, lambda gesture: finder.choose(gesture.plan)),
            on(TakeFoundGesture, lambda gesture: session.apply(finder.edit_of(finder.candidate(gesture.plan)))),
            on(ExplainFoundGesture, lambda gesture: finder.explain(gesture.plan, gesture.than)),
            on(RelaxGesture, lambda gesture: finder.relax(gesture.place, session.plan)),
        ]
    )
