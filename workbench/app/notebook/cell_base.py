"""A board in a notebook cell, over a plan or a fleet: its parts as traits, its gestures as messages, and a picture for when there is no
kernel."""

from collections.abc import Callable
from typing import Any

import anywidget
import traitlets

from workbench.visualize.charts.chart import bokeh_script
from workbench.widgets.board.board_host import Part
from workbench.widgets.front_end import PARTS, cell_module_text, module_text


class BoardCell(anywidget.AnyWidget):  # type: ignore[misc]
    """Abstract: a subclass over a plan or a fleet has a `_picture`, and says what to do when it is first shown."""

    _esm = cell_module_text()
    board = traitlets.Dict()
    table = traitlets.Dict()
    live = traitlets.Dict()
    picture = traitlets.Unicode().tag(sync=True)
    gesture = traitlets.Dict().tag(sync=True)
    theme = traitlets.Unicode("auto").tag(sync=True)
    tour = traitlets.Bool(default_value=False).tag(sync=True)

    def __init__(self, theme: str, *, tour: bool = False, when_shown: Callable[[], None] = lambda: None) -> None:
        super().__init__(theme=theme, tour=tour)
        self._watched, self._when_shown = False, when_shown
        self.on_msg(self._answer_request)

    def _picture(self) -> str:
        """The board as static HTML."""
        raise NotImplementedError

    def _show(self, part: Part, state: dict[str, Any]) -> None:
        setattr(self, part, state)
        if self._watched:
            self.send({"parts": {part: state}})

    def _answer_request(self, _widget: Any, content: dict[str, Any], _buffers: Any) -> None:
        """A cell that shows the board requests its parts, the first on a page the module, and the first with a chart the script of Bokeh:
        notebooks save neither."""
        if (want := content.get("want")) == "library":
            self.send({"library": bokeh_script()})
        elif want in ("module", "parts"):
            self._watched = True
            module = {"module": module_text()} if want == "module" else {}
            self.send({**module, "parts": {part: getattr(self, part) for part in PARTS}})
            self._when_shown()
        else:
            self._answer_cell(content)

    def _answer_cell(self, content: dict[str, Any]) -> None:
        """A request that only one kind of board has."""

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        self.picture = self._picture()
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is None:
            return None
        data, metadata = bundle
        return {**data, "text/plain": repr(self), "text/html": self.picture}, metadata
