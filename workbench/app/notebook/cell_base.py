"""Base of boards in a notebook cell: parts as traits, gestures as messages, and a picture for use without a kernel."""

from collections.abc import Callable
from typing import Any

import anywidget
import traitlets

from workbench.visualize.charts.chart import bokeh_script
from workbench.widgets.board.board_host import Part
from workbench.widgets.front_end import PARTS, cell_module_text, module_text


class BoardCell(anywidget.AnyWidget):  # type: ignore[misc]
    """Abstract board cell; a subclass provides `_picture` and the action when it is first shown."""

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
        """Return the board as static HTML."""
        raise NotImplementedError

    def _show(self, part: Part, state: dict[str, Any]) -> None:
        setattr(self, part, state)
        if self._watched:
            self.send({"parts": {part: state}})

    def _answer_request(self, _widget: Any, content: dict[str, Any], _buffers: Any) -> None:
        """Send a view the parts, and on request the module or the Bokeh script, which notebooks do not save."""
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
        """Handle a request specific to one kind of board."""

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        self.picture = self._picture()
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is None:
            return None
        data, metadata = bundle
        return {**data, "text/plain": repr(self), "text/html": self.picture}, metadata
