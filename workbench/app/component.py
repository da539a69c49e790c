"""The board as a Panel component: the same module as in the notebook, in a served page."""

from collections.abc import Callable
from typing import Any

import param
from bokeh.document import Document
from panel.custom import AnyWidgetComponent

from workbench.session import Session
from workbench.widgets.board import Board, Part, at_once
from workbench.widgets.host import Host
from workbench.widgets.module import module_text
from workbench.widgets.runner import Runner


class BoardComponent(AnyWidgetComponent):  # type: ignore[misc]
    """One board over one session, in the document of one visitor."""

    _debounce = 1  # milliseconds; Panel's 50 would be felt in every drop
    _esm = module_text()

    board = param.Dict(default={})
    table = param.Dict(default={})
    live = param.Dict(default={})
    gesture = param.Dict(default={})
    theme = param.String(default="auto")
    tour = param.Boolean(default=False)

    def __init__(
        self, session: Session, *, runner: Runner | None, document: Document | None = None, host: Host | None = None, **options: Any
    ) -> None:
        super().__init__(**options)
        defer = on_document(document) if document else at_once
        self.answering = Board(session, self._show, runner=runner, defer=defer, host=host)
        self.param.watch(lambda event: self.answering.answer(event.new), "gesture")

    @classmethod
    def _process_importmap(cls) -> dict[str, Any]:
        """Panel would declare React at a CDN; the module imports nothing."""
        return {"imports": {}, "scopes": {}}

    def _show(self, part: Part, state: dict[str, Any]) -> None:
        self.param.update(**{part: state})


def on_document(document: Document) -> Callable[[Callable[[], None]], None]:
    """Work from a runner's thread goes onto the document's own loop."""

    def defer(work: Callable[[], None]) -> None:
        document.add_next_tick_callback(work)

    return defer
