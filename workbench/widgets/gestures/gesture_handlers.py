"""Tables by kind of gesture: a handler for each. The functions here only make the type checker match handlers with gestures."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from workbench.plan.edits import Edit
from workbench.plan.plan import Plan
from workbench.reports.report import Report
from workbench.widgets.gestures.gesture import Gesture

Kind = type[Gesture]
Handler = Callable[[Any], object]
Handlers = Mapping[Kind, Handler]
EditMaker = Callable[[Any, Plan, Report], Edit]
_G = TypeVar("_G", bound=Gesture)


def on(kind: type[_G], handler: Callable[[_G], object]) -> tuple[Kind, Handler]:
    """An entry of a table of handlers."""
    return kind, handler


def means(kind: type[_G], make: Callable[[_G, Plan, Report], Edit]) -> tuple[Kind, EditMaker]:
    """An entry of a table of edits; it raises `WorkbenchError` if the gesture makes no sense for this plan."""
    return kind, make
