"""One visitor's browser page as Panel components: the board, and the bridge to the window around it.

All pages of a server share its event loop, so updates take the fastest path: all pending ones in one message, set
directly on the Bokeh models. Changing a parameter of a Panel component takes four times as long. The parameters keep
their initial values, which are never read again.
"""

import hashlib
import json
import threading
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import panel as pn
import param
from bokeh.document import Document
from panel.custom import AnyWidgetComponent
from panel.io.document import unlocked
from panel.io.state import set_curdoc
from tornado.ioloop import IOLoop

from workbench.app.page.part_changes import Target, changed_text
from workbench.app.page.private_members import is_drawn, mark_connected, models_of
from workbench.widgets.front_end import module_text
from workbench.widgets.shared_states import at_once

# Base of the page's components: a JavaScript module, sent as is.


class ModuleComponent(AnyWidgetComponent):  # type: ignore[misc]
    """A component with a module `_esm` that imports nothing."""

    _debounce = 1  # milliseconds; Panel's 50 would be noticeable in every drop

    @classmethod
    def _process_importmap(cls) -> dict[str, Any]:
        """Omit the import map; Panel would declare React at a CDN."""
        return {"imports": {}, "scopes": {}}

    @classmethod
    def _render_esm(cls, compiled: object = True, server: bool = False) -> str:
        """Return the module unchanged; Panel would read and dedent it for each page."""
        del compiled, server
        text: str = cls._esm
        return text

    def _get_properties(self, doc: Any) -> dict[str, Any]:
        """Mark the module as compiled, so that Panel's script does not translate it from TypeScript on each load."""
        return {**super()._get_properties(doc), "bundle": hashlib.sha256(self._esm.encode()).hexdigest()}


# A board as a Panel component, with the same module as in a notebook.


class BoardComponent(ModuleComponent):
    """One visitor's view of a board, with its parts as JSON texts.

    Bokeh would visit each value of a dictionary on the shared event loop, which takes as long as many an edit.
    """

    _esm = module_text()

    board = param.String(default="{}")
    table = param.String(default="{}")
    live = param.String(default="{}")
    changes = param.String(default="")  # of a part since it was last sent (`part_changes`)
    gesture = param.Dict(default={})
    theme = param.String(default="auto")
    tour = param.Boolean(default=False)
    colleagues = param.String(default="[]")  # other people in the room: name, colour, selected path, dragged dimension


class Screen:
    """Shows the visitor's board and forwards messages to `hear`; `show` may be called from any thread."""

    def __init__(self, document: Document | None) -> None:
        self.hear: Callable[[dict[str, Any]], None] = lambda _message: None
        self._document, self._theme = document, "auto"
        self._defer = immediate_on_document(document) if document else at_once
        self._bridge = Bridge(width=0, height=0, margin=0)
        self._bridge.param.watch(lambda event: self._receive(event.new), "heard")
        self.board: BoardComponent | None = None
        self._container = pn.Column(sizing_mode="stretch_width", margin=0)
        self.root = pn.Column(self._bridge, self._container, sizing_mode="stretch_width", margin=0)
        self._pending: deque[Callable[[], None]] = deque()
        self._is_awaited = False
        if document:
            mark_connected(document)
        self._showing = threading.Lock()
        self._busy, self._is_gone = "", False
        self._context = document.session_context if document else None

    def show(self, target: Target, parameters: Mapping[str, Any]) -> None:
        """Set parameters in call order on the document's event loop, which may call back late and out of order."""
        values = dict(parameters)
        self.call((lambda: self._update_board(values)) if target == "board" else (lambda: set_on_models(self._bridge, values)))

    def call(self, work: Callable[[], None]) -> None:
        if self._is_gone:
            return
        self._pending.append(work)
        if not self._is_awaited:
            self._is_awaited = True
            self._defer(self._drain)

    def show_busy(self, seconds: float, doing: str = "") -> None:
        """Show the seconds for which the board has been busy, 0 if it is not, and its activity."""
        if (text := f"{seconds:.0f}" if seconds else "") != self._busy:
            self._busy = text
            self.show("bridge", {"doing": doing, "busy": text})

    def is_watched(self) -> bool:
        """Whether a browser is or may soon be connected; after a lost connection the server keeps the page for a while."""
        session = getattr(self._context, "_session", None)
        return not self._is_gone and (session is None or session.connection_count > 0)

    def leave(self) -> None:
        self._is_gone = True

    def _drain(self) -> None:
        self._is_awaited = False
        with self._showing, set_curdoc(self._document), unlocked(policy="collect"):
            while self._pending:
                self._pending.popleft()()

    def _update_board(self, parameters: dict[str, Any]) -> None:
        if parameters.pop("closed", False):
            self.board, self._container.objects = None, []
        elif parameters.pop("new", False):
            board = BoardComponent(**parameters, theme=self._theme, sizing_mode="stretch_width")
            board.param.watch(lambda event: self.hear({"gesture": event.new}), "gesture")
            self.board, self._container.objects = board, [board]
        elif self.board:
            set_on_models(self.board, parameters if self._is_drawn() else without_changes(self.board, parameters))

    def _is_drawn(self) -> bool:
        return self._document is None or is_drawn(self._document)

    def _receive(self, message: dict[str, Any]) -> None:
        if message.get("theme") in ("light", "dark"):
            self._theme = message["theme"]
            if self.board:
                set_on_models(self.board, {"theme": self._theme})
        self.hear({"heard": message})


Opening = Callable[[Mapping[str, str], Screen], Callable[[], None]]
"""Opens the board of a URL on a screen, and returns the callback for the closing of its page."""


def set_on_models(component: pn.custom.ReactiveESM, values: Mapping[str, Any]) -> None:
    """Set parameters on a component's models, or on the component before it has models."""
    models = models_of(component)
    if not models:
        component.param.update(**values)
    for model in models:
        model.data.update(**values)


def without_changes(board: BoardComponent, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Replace `changes` by the whole part, because a page drawn later would get only the last change."""
    if "changes" not in parameters:
        return parameters
    change = json.loads(parameters["changes"])
    models, part = models_of(board), change["part"]
    return {part: changed_text(getattr(models[0].data if models else board, part), change)}


def immediate_on_document(document: Document) -> Callable[[Callable[[], None]], None]:
    """As `on_document`, but without Bokeh's lock once the page is drawn: for immediate work that sends its own changes."""
    loop, with_lock = IOLoop.current(), on_document(document)

    def add(work: Callable[[], None]) -> None:
        if is_drawn(document):
            work()
        else:
            with_lock(work)

    return lambda work: loop.add_callback(add, work)


def on_document(document: Document) -> Callable[[Callable[[], None]], None]:
    """Return a function that moves work from any thread to the document's event loop (the current loop), until the page
    is closed.

    Work passes through the event loop first: Bokeh documents are not thread-safe, and Panel, which sometimes collects a
    document's changes, could drop changes of another thread.
    """
    loop = IOLoop.current()

    def add(work: Callable[[], None]) -> None:
        if document.session_context is not None:
            document.add_next_tick_callback(work)

    return lambda work: loop.add_callback(add, work)


# The bridge to the browser window around the board: keys, notices, and an enclosing JupyterLab document.


class Bridge(ModuleComponent):
    """Parameters sent to the window, and messages received from it.

    - `text`, `saves`: text of a JupyterLab document, and the number of save requests; `created` with the text of a new
      one;
    - `answers`: the last exercise answer of such a document, to be stored beside it;
    - `shown`: the number of boards and failures shown so far;
    - `notice`: `{"title", "text", "choices": [[kind, label], ...]}` above the board, with `"good"` if it is no warning;
      a choice is received as its kind, or leads to the URL in its third entry;
    - `unsaved`: leaving the page asks first;
    - `busy`: seconds of a long activity `doing`, which can be stopped; else empty;
    - `title`: beginning of the browser tab's title;
    - `failure`: `{"text", "by_link"}` in place of the board, `by_link` if a link led here;
    - `board`, `board_name`: the board's id in the address (`board=`), and its name in the browser's memory; without an
      id a board does not outlive its connection;
    - `heard`: `{"kind", "seq", ...}`: `open` (`text`, `name`, `theme`, and the texts `exercise` and `answers` of files
      beside a document), `theme`, `save`, `boards` (`ids`, the latest of this browser, on a page without one), or a
      choice's kind.
    """

    _esm = (Path(__file__).parent / "bridge.js").read_text(encoding="utf-8")

    answers = param.String(default="")
    text = param.String(default="")
    created = param.Boolean(default=False)
    shown = param.Integer(default=0)
    saves = param.Integer(default=0)
    notice = param.Dict(default={})
    unsaved = param.Boolean(default=False)
    board = param.String(default="")
    busy = param.String(default="")
    doing = param.String(default="")
    title = param.String(default="")
    failure = param.Dict(default={})
    board_name = param.String(default="")
    heard = param.Dict(default={})
