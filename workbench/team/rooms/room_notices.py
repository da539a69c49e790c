"""A room's pages, and the notices above or instead of the boards."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import param
from bokeh.document import Document

from workbench.app.page.visitor_screen import ModuleComponent, Screen, set_on_models
from workbench.core.public_error_text import describe_error
from workbench.errors import WorkbenchError
from workbench.team.access import Principal, ProjectRole
from workbench.widgets.shared_states import json_text

# A user's page in a room: the board, and above it a bar with users, their last changes and their views.
#
# Only known board parameters of a sandboxed process are passed on, because it runs user code. The content policy of the pages
# blocks scripts that it could write into a picture.

_STYLE = (Path(__file__).parent / "room_bar.css").read_text(encoding="utf-8")


class RoomBar(ModuleComponent):
    """The bar above the board.

    `room` is the state of `RoomPresence` with `you`, as JSON text: Bokeh would visit each value of a dictionary on the
    shared event loop. `asked` is the user's last request: `{"kind": "follow", "visitor", "seq"}` or `{"kind": "branch",
    "seq"}`.
    """

    _esm = (Path(__file__).parent / "room_bar.js").read_text(encoding="utf-8")

    room = param.String(default="{}")
    asked = param.Dict(default={})


class RoomScreen(Screen):
    """A `Screen` with a bar, whose requests arrive as `{"heard": {...}}`."""

    def __init__(self, document: Document | None) -> None:
        super().__init__(document)
        self._bar = RoomBar(sizing_mode="stretch_width", margin=(0, 0, 8, 0), stylesheets=[_STYLE])
        self._bar.param.watch(lambda event: self.hear({"heard": event.new}), "asked")
        self.root.insert(0, self._bar)

    def show_room(self, room: Mapping[str, Any]) -> None:
        self.call(lambda: self._show_room(room))

    def _show_room(self, room: Mapping[str, Any]) -> None:
        set_on_models(self._bar, {"room": json_text(room)})
        others = [person for person in room["people"] if person["visitor"] != room["you"] and not person["away"]]
        if self.board:
            colleagues = [
                {"name": person["display"], **{name: person[name] for name in ("colour", "selected", "hand", "moved")}} for person in others
            ]
            set_on_models(self.board, {"colleagues": json_text(colleagues)})


_BRIDGE = {"shown": int, "saves": int, "unsaved": bool, "text": str, "title": str, "notice": dict, "failure": dict}
_BOARD = {"new": bool, "closed": bool, "tour": bool, "board": str, "table": str, "live": str, "changes": str}
_OF_NOTICE = ("title", "text")


def verify_shown(target: str, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the page parameters that a sandboxed process may set. Raises `WorkbenchError` for unknown names or types."""
    types = _BOARD if target == "board" else _BRIDGE
    for name, value in parameters.items():
        if name not in types or not isinstance(value, types[name]):
            raise WorkbenchError(f"The room's process sent a `{str(name)[:40]}`, which is unknown.", ["reload the page"])
    return {name: _without_addresses(value) if name == "notice" else value for name, value in parameters.items()}


def _without_addresses(notice: Mapping[str, Any]) -> Mapping[str, Any]:
    """Reduce a notice to its texts and a button without a link."""
    texts = {name: str(notice.get(name, ""))[:2000] for name in _OF_NOTICE}
    return {**texts, "choices": [["dismiss", "All right"]]} if texts["text"] else {}


@dataclass(slots=True)
class RoomGuest:
    number: int
    principal: Principal
    role: ProjectRole
    screen: RoomScreen
    is_participant: bool = False  # works on an assignment in this room
    held: ProjectRole | None = None  # role in the project, which may differ from the one in the room

    @property
    def may_branch(self) -> bool:
        return self.held is not None and self.held >= ProjectRole.EDITOR

    def entering(self) -> Mapping[str, Any]:
        person = {
            "user_id": self.principal.user_id,
            "display": self.principal.display,
            "role": int(self.role),
            "participant": self.is_participant,
            "student": self.held is ProjectRole.STUDENT,
        }
        return {"enter": person, "visitor": self.number}


_log = logging.getLogger(__name__)


def problem_text(error: Exception) -> str:
    return str(_in_words(error))


def as_problem(error: Exception) -> dict[str, Any]:
    problem = _in_words(error)
    return {"message": problem.message, "ways_out": list(problem.ways_out)}


def _in_words(error: Exception) -> WorkbenchError:
    if isinstance(error, WorkbenchError):
        return error
    _log.error("Something failed in a room", exc_info=error)
    return WorkbenchError(f"The server itself failed: {describe_error(error)[:300]}", ["try once more", "ask its administrator"])


def show_notice(screen: RoomScreen, title: str, text: str, choices: Sequence[Sequence[str]] = (), *, good: bool = False) -> None:
    """Show a notice above the board. A choice is its kind, label and address; `good` marks a success."""
    buttons = [*map(list, choices), ["dismiss", "Close" if good else "All right"]]
    notice = {"title": title, "text": text, "choices": buttons}
    screen.show("bridge", {"notice": {**notice, "good": True} if good else notice})


def notify_pushed_plan(screen: RoomScreen, sender: str, source: str) -> None:
    title = f"{sender} sent you {source}"
    text = "It is now on the board. Undo (↶) to go back; your previous plan is in the history."
    show_notice(screen, title, text, good=True)


def show_failure(screen: RoomScreen, text: str) -> None:
    screen.show("board", {"closed": True})
    screen.show("bridge", {"failure": {"text": text, "by_link": False}})


def notify_conflict(guests: Sequence[RoomGuest], author: str, says: str, conflict: Mapping[str, Any]) -> None:
    """Notify both users of two edits to one statement, of which the later one, by `author`, applies."""
    names = {guest.principal.user_id: guest.principal.display for guest in guests}
    title = f"Both of you changed {', '.join(conflict['statements'])}"
    for guest in guests:
        if guest.principal.user_id == author:
            earlier = f"{names.get(conflict['user_id'], 'Somebody')} had made the edit `{conflict['edit']}` a moment before"
            show_notice(guest.screen, title, f"{earlier}; yours, `{says}`, holds.")
        elif guest.principal.user_id == conflict["user_id"]:
            later = f"{names.get(author, 'Somebody')} made the edit `{says}` without having seen yours"
            show_notice(guest.screen, title, f"{later}, `{conflict['edit']}`. The later one holds.")
