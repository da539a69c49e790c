"""The page of one person in a room: the board as on any page, and above it a bar of the people, what they did last, and where they are.

Of a process in a sandbox, which runs somebody's code, only what a board shows is passed on. The pages hold the rest: their content policy
runs no script that such a process could write into a picture.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import param
from bokeh.document import Document

from workbench.app.page.module_component import ModuleComponent
from workbench.app.page.visitor_screen import Screen, set_on_models
from workbench.app.page.window_channel import part_text
from workbench.errors import WorkbenchError

_STYLE = (Path(__file__).parent / "room_bar.css").read_text(encoding="utf-8")


class RoomBar(ModuleComponent):
    """`room` is what `RoomPresence.state` gives, and which of the people is `you`, as a JSON text: Bokeh would visit each value of a
    dictionary, on the event loop of all. `asked` are the person's requests: `{"kind": "follow", "visitor", "seq"}` and `{"kind": "branch",
    "seq"}`."""

    _esm = (Path(__file__).parent / "room_bar.js").read_text(encoding="utf-8")

    room = param.String(default="{}")
    asked = param.Dict(default={})


class RoomScreen(Screen):
    """A `Screen` with a bar; what is asked there is heard as `{"heard": {...}}`."""

    def __init__(self, document: Document | None) -> None:
        super().__init__(document)
        self._bar = RoomBar(sizing_mode="stretch_width", margin=(0, 0, 8, 0), stylesheets=[_STYLE])
        self._bar.param.watch(lambda event: self.hear({"heard": event.new}), "asked")
        self.root.insert(0, self._bar)

    def show_room(self, room: Mapping[str, Any]) -> None:
        """Show who is in the room. May be called from any thread."""
        self.call(lambda: self._show_room(room))

    def _show_room(self, room: Mapping[str, Any]) -> None:
        set_on_models(self._bar, {"room": part_text(room)})
        others = [each for each in room["people"] if each["visitor"] != room["you"] and not each["away"]]
        if self.board:
            colleagues = [{"name": each["display"], **{name: each[name] for name in ("colour", "selected", "hand")}} for each in others]
            set_on_models(self.board, {"colleagues": part_text(colleagues)})


_BRIDGE = {"shown": int, "saves": int, "unsaved": bool, "text": str, "title": str, "notice": dict, "failure": dict}
_BOARD = {"new": bool, "closed": bool, "tour": bool, "board": str, "table": str, "live": str, "changes": str}
_OF_NOTICE = ("title", "text")


def verify_shown(target: str, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parameters of a page that such a process may set, of the types that they have. Raises `WorkbenchError` for others."""
    known = _BOARD if target == "board" else _BRIDGE
    for name, value in parameters.items():
        if name not in known or not isinstance(value, known[name]):
            raise WorkbenchError(f"The room's process sent a `{str(name)[:40]}` that no board has.", ["reload the page"])
    return {name: _without_addresses(value) if name == "notice" else value for name, value in parameters.items()}


def _without_addresses(notice: Mapping[str, Any]) -> Mapping[str, Any]:
    """A notice with the one way to go on that leads nowhere."""
    texts = {name: str(notice.get(name, ""))[:2000] for name in _OF_NOTICE}
    return {**texts, "choices": [["dismiss", "All right"]]} if texts["text"] else {}
