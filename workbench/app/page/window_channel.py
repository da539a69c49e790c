"""The state that one visitor's window is sent, as plain values: the board's parts, and the parameters of the page around it.

It knows no Panel and no Bokeh, so that a board and its visit can run in a process of their own.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Literal

Target = Literal["bridge", "board"]
Show = Callable[[Target, Mapping[str, Any]], None]
"""Shows parameters of the bridge, or of the board, whose parts are texts (`part_text`): a first board comes whole, with `"new": True`, and
`{"closed": True}` removes it."""


class VisitorWindow:
    """One visitor's window. It remembers the bridge's parameters, and sends them again to a page that connects later."""

    def __init__(self, show: Show) -> None:
        self._show = show
        self.bridge: dict[str, Any] = {"shown": 0, "saves": 0, "unsaved": False, "notice": {}, "text": "", "answers": "", "failure": {}}

    def tell(self, **parameters: Any) -> None:
        """Send parameters of `app.page.browser_bridge.Bridge`; JSON only."""
        self.bridge.update(parameters)
        self._show("bridge", parameters)

    def count(self, name: Literal["shown", "saves"]) -> None:
        """Increment a counter: the page acts on each change of it."""
        self.tell(**{name: self.bridge[name] + 1})

    def tell_again(self) -> None:
        """Send all present parameters to a newly connected page."""
        self._show("bridge", dict(self.bridge))

    def show_board(self, **parameters: Any) -> None:
        """Send parameters of `app.page.board_component.BoardComponent`; JSON only."""
        self._show("board", parameters)


def part_text(state: Any) -> str:
    """A part of a board as `app.page.board_component.BoardComponent` takes it."""
    return json.dumps(state, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
