"""One visitor's browser page, as Panel components: the board, and the connection to the window around it.

All pages of a server share its event loop, so what a page is sent goes the shortest way: all that waits for it at once, as one message, and
set on the models of Bokeh. To change a parameter of a Panel component takes four times as long. The parameters keep their first values,
which nothing reads again.
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

# What the page's own components have in common: each is a JavaScript module, whose text stands as it is sent.


class ModuleComponent(AnyWidgetComponent):  # type: ignore[misc]
    """A component with a module `_esm`, which imports nothing."""

    _debounce = 1  # milliseconds; Panel's 50 would be felt in every drop

    @classmethod
    def _process_importmap(cls) -> dict[str, Any]:
        """Panel would declare React at a CDN."""
        return {"imports": {}, "scopes": {}}

    @classmethod
    def _render_esm(cls, compiled: object = True, server: bool = False) -> str:
        """Panel would read through all of it for each page, and take away its indentation, which it has not."""
        del compiled, server
        text: str = cls._esm
        return text

    def _get_properties(self, doc: Any) -> dict[str, Any]:
        """The module is sent as one that is compiled: Panel's script would translate it from TypeScript whenever a page is loaded."""
        return {**super()._get_properties(doc), "bundle": hashlib.sha256(self._esm.encode()).hexdigest()}


# A board as a Panel component: the same module as in the notebook, in a served page. It only shows the state it is sent.


class BoardComponent(ModuleComponent):
    """One visitor's view of a board, in that visitor's document.

    Its parts are JSON texts (`json_text`), which the module reads: Bokeh would visit each value of a dictionary, on the
    event loop that all visitors share, and that takes as long as many an edit.
    """

    _esm = module_text()

    board = param.String(default="{}")
    table = param.String(default="{}")
    live = param.String(default="{}")
    changes = param.String(default="")  # of a part since it was last sent (`part_changes`)
    gesture = param.Dict(default={})
    theme = param.String(default="auto")
    tour = param.Boolean(default=False)
    colleagues = param.String(default="[]")  # who else is in the room: name, colour, the path selected, the dimension held


class Screen:
    """Shows the state of the visitor's board, and passes on what the visitor does. `root` is the page's content.

    `hear(message)` is given `{"gesture": {...}}` and `{"heard": {...}}`. `show` may be called from any thread.
    """

    def __init__(self, document: Document | None) -> None:
        self.hear: Callable[[dict[str, Any]], None] = lambda _message: None
        self._document, self._theme = document, "auto"
        self._defer = soon_on_document(document) if document else at_once
        self._bridge = Bridge(width=0, height=0, margin=0)
        self._bridge.param.watch(lambda event: self._receive(event.new), "heard")
        self._board: BoardComponent | None = None
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
        """Show state on the document's own event loop, in the order of the calls: a busy document may call back late and out of order."""
        values = dict(parameters)
        self.call((lambda: self._update_board(values)) if target == "board" else (lambda: set_on_models(self._bridge, values)))

    def call(self, work: Callable[[], None]) -> None:
        """Do something to the page's components on the document's own event loop, as `show`."""
        if self._is_gone:
            return
        self._pending.append(work)
        if not self._is_awaited:
            self._is_awaited = True
            self._defer(self._drain)

    @property
    def board(self) -> BoardComponent | None:
        """The board that is shown."""
        return self._board

    def show_busy(self, seconds: float, doing: str = "") -> None:
        """Show for how many seconds the board has been busy, and with what; 0 if it is not."""
        if (text := f"{seconds:.0f}" if seconds else "") != self._busy:
            self._busy = text
            self.show("bridge", {"doing": doing, "busy": text})

    def is_watched(self) -> bool:
        """Whether a browser is connected to it, or may be about to; after a lost connection the server keeps the page for a while."""
        session = getattr(self._context, "_session", None)
        return not self._is_gone and (session is None or session.connection_count > 0)

    def leave(self) -> None:
        """The page is closed: nothing is shown any more."""
        self._is_gone = True

    def _drain(self) -> None:
        self._is_awaited = False
        with self._showing, set_curdoc(self._document), unlocked(policy="collect"):
            while self._pending:
                self._pending.popleft()()

    def _update_board(self, parameters: dict[str, Any]) -> None:
        if parameters.pop("closed", False):
            self._board, self._container.objects = None, []
        elif parameters.pop("new", False):
            board = BoardComponent(**parameters, theme=self._theme, sizing_mode="stretch_width")
            board.param.watch(lambda event: self.hear({"gesture": event.new}), "gesture")
            self._board, self._container.objects = board, [board]
        elif self._board:
            set_on_models(self._board, parameters if self._is_drawn() else whole_parts(self._board, parameters))

    def _is_drawn(self) -> bool:
        return self._document is None or is_drawn(self._document)

    def _receive(self, message: dict[str, Any]) -> None:
        if message.get("theme") in ("light", "dark"):
            self._theme = message["theme"]
            if self._board:
                set_on_models(self._board, {"theme": self._theme})
        self.hear({"heard": message})


def set_on_models(component: pn.custom.ReactiveESM, values: Mapping[str, Any]) -> None:
    """Set parameters of a component on its models, or for the models that are still to be made."""
    models = models_of(component)
    if not models:
        component.param.update(**values)
    for model in models:
        model.data.update(**values)


def value_on_models(component: pn.custom.ReactiveESM, name: str) -> Any:
    """What `set_on_models` has set."""
    models = models_of(component)
    return getattr(models[0].data if models else component, name)


def whole_parts(board: BoardComponent, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same parameters without changes: a page that is drawn later would hear of the last one alone."""
    if "changes" not in parameters:
        return parameters
    change = json.loads(parameters["changes"])
    return {change["part"]: changed_text(value_on_models(board, change["part"]), change)}


def soon_on_document(document: Document) -> Callable[[Callable[[], None]], None]:
    """As `on_document`, but once the page is drawn without Bokeh's way through its lock: for work that is done at once, and sends what it
    changes by itself."""
    loop, with_lock = IOLoop.current(), on_document(document)

    def add(work: Callable[[], None]) -> None:
        if is_drawn(document):
            work()
        else:
            with_lock(work)

    return lambda work: loop.add_callback(add, work)


def on_document(document: Document) -> Callable[[Callable[[], None]], None]:
    """Moves work from a runner's thread to the document's own event loop, the one that this is called on; drops it after the page is
    closed.

    It goes over the event loop first: Bokeh's documents are not thread-safe, and Panel, which sometimes collects a document's changes,
    could drop what another thread adds meanwhile.
    """
    loop = IOLoop.current()

    def add(work: Callable[[], None]) -> None:
        if document.session_context is not None:
            document.add_next_tick_callback(work)

    return lambda work: loop.add_callback(add, work)


# The page's connection to the browser window around the board: keys, notices, and the JupyterLab document it may be in.


class Bridge(ModuleComponent):
    """Parameters that Python sends to the window, and messages that it receives from there.

    - `text`, `saves`: of a document of JupyterLab: its present text, and how often it was asked to save; `created` with the text of a new
      one;
    - `answers`: of such a document beside an exercise: the last answer, to be kept beside both;
    - `shown`: how often a board or a failure was put on the page;
    - `notice`: `{"title", "text", "choices": [[kind, label], ...]}` above the board, and `"good"` if it is no warning; a choice is received
      as its kind, or leads to the URL that is its third entry;
    - `unsaved`: leaving the page asks first;
    - `busy`: for how many seconds the board has been busy, once that is long; else empty; `doing` is with what. It can be stopped;
    - `title`: what the browser's tab says first;
    - `failure`: `{"text", "by_link"}` in the board's place: what could not be opened, `by_link` if a link led there;
    - `board`, `board_name`: the id by which the page finds its board again, put into the address as `board=`, and what the browser
      remembers it as; without an id, a board does not outlive its connection;
    - `heard`: `{"kind", "seq", ...}`: `open` (`text`, `name`, `theme`, and the texts `exercise` and `answers` of files beside a document),
      `theme`, `save`, `boards` (`ids`, the last ones of this browser, on a page that asks for none), or the kind of a choice.
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
