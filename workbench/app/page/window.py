"""What the window of one visitor is told, as plain values: the board's parts, and the wire to the page around it.

It knows no Panel and no Bokeh, so that a board and its visit can live in a process of their own.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Literal

Target = Literal["bridge", "board"]
Show = Callable[[Target, Mapping[str, Any]], None]
"""Shows parameters of the bridge, or of the board, whose parts are texts (`part_text`): a first board comes whole, with `"new": True`, and
`{"closed": True}` takes it away."""


class VisitorWindow:
    """One visitor's window. It remembers what it was told of the bridge, and tells it again to a page that comes later."""

    def __init__(self, show: Show) -> None:
        self._show = show
        self.bridge: dict[str, Any] = {"shown": 0, "saves": 0, "unsaved": False, "notice": {}, "text": "", "failure": {}}

    def tell(self, **parameters: Any) -> None:
        """Parameters of `app.bridge.Bridge`; JSON only."""
        self.bridge.update(parameters)
        self._show("bridge", parameters)

    def count(self, name: Literal["shown", "saves"]) -> None:
        """Once more: the page acts on each change of such a number."""
        self.tell(**{name: self.bridge[name] + 1})

    def tell_again(self) -> None:
        """All that stands, to a page that knows nothing yet."""
        self._show("bridge", dict(self.bridge))

    def show_board(self, **parameters: Any) -> None:
        """Parameters of `app.component.BoardComponent`; JSON only."""
        self._show("board", parameters)


def part_text(state: Mapping[str, Any]) -> str:
    """A part of a board as `app.component.BoardComponent` takes it."""
    return json.dumps(state, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
