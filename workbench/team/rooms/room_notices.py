"""The pages in a room, and what their people are told, above their boards or in place of them."""

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

# The page of one person in a room: the board as on any page, and above it a bar of the people, what they did last, and where they are.
#
# Of a process in a sandbox, which runs somebody's code, only what a board shows is passed on. The pages hold the rest: their content policy
# runs no script that such a process could write into a picture.

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
        set_on_models(self._bar, {"room": json_text(room)})
        others = [each for each in room["people"] if each["visitor"] != room["you"] and not each["away"]]
        if self.board:
            colleagues = [{"name": each["display"], **{name: each[name] for name in ("colour", "selected", "hand")}} for each in others]
            set_on_models(self.board, {"colleagues": json_text(colleagues)})


_BRIDGE = {"shown": int, "saves": int, "unsaved": bool, "text": str, "title": str, "notice": dict, "failure": dict}
_BOARD = {"new": bool, "closed": bool, "tour": bool, "board": str, "table": str, "live": str, "changes": str}
_OF_NOTICE = ("title", "text")


def verify_shown(target: str, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parameters of a page that such a process may set, of the types that they have. Raises `WorkbenchError` for others."""
    known = _BOARD if target == "board" else _BRIDGE
    for name, value in parameters.items():
        if name not in known or not isinstance(value, known[name]):
            raise WorkbenchError(f"The room's process sent a `{str(name)[:40]}`, which is unknown.", ["reload the page"])
    return {name: _without_addresses(value) if name == "notice" else value for name, value in parameters.items()}


def _without_addresses(notice: Mapping[str, Any]) -> Mapping[str, Any]:
    """A notice with the one way to go on that leads nowhere."""
    texts = {name: str(notice.get(name, ""))[:2000] for name in _OF_NOTICE}
    return {**texts, "choices": [["dismiss", "All right"]]} if texts["text"] else {}


@dataclass(slots=True)
class RoomGuest:
    """One page in the room, of one person."""

    number: int
    principal: Principal
    role: ProjectRole
    screen: RoomScreen
    is_participant: bool = False  # whose work on an assignment is done here
    held: ProjectRole | None = None  # the role in the project, which may be another than that in the room

    @property
    def may_branch(self) -> bool:
        """Whether a room of their own would be made for them."""
        return self.held is not None and self.held >= ProjectRole.EDITOR

    def entering(self) -> Mapping[str, Any]:
        """As the room's process learns of it."""
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
    """What went wrong, for people; what is not in their words also goes to the log."""
    return str(_in_words(error))


def as_problem(error: Exception) -> dict[str, Any]:
    """The same for a room's process."""
    shown = _in_words(error)
    return {"message": shown.message, "ways_out": list(shown.ways_out)}


def _in_words(error: Exception) -> WorkbenchError:
    if isinstance(error, WorkbenchError):
        return error
    _log.error("Something failed in a room", exc_info=error)
    return WorkbenchError(f"The server itself failed: {describe_error(error)[:300]}", ["try once more", "ask its administrator"])


def show_notice(screen: RoomScreen, title: str, text: str, choices: Sequence[Sequence[str]] = (), *, good: bool = False) -> None:
    """A notice above the board. A choice is its kind, its label, and the address that it leads to; `good` is no warning."""
    buttons = [*map(list, choices), ["dismiss", "Close" if good else "All right"]]
    notice = {"title": title, "text": text, "choices": buttons}
    screen.show("bridge", {"notice": {**notice, "good": True} if good else notice})


def tell_pushed(screen: RoomScreen, sender: str, source: str) -> None:
    title = f"{sender} sent you {source}"
    text = "It is now on the board. Undo (↶) to go back; your previous plan is in the history."
    show_notice(screen, title, text, good=True)


def show_failure(screen: RoomScreen, text: str) -> None:
    screen.show("board", {"closed": True})
    screen.show("bridge", {"failure": {"text": text, "by_link": False}})


def tell_conflict(guests: Sequence[RoomGuest], author: str, says: str, conflict: Mapping[str, Any]) -> None:
    """Two edits of one statement: the later one, of `author`, holds, and both people are told."""
    names = {guest.principal.user_id: guest.principal.display for guest in guests}
    title = f"Both of you changed {', '.join(conflict['statements'])}"
    for guest in guests:
        if guest.principal.user_id == author:
            before = f"{names.get(conflict['user_id'], 'Somebody')} had made the edit `{conflict['edit']}` a moment before"
            show_notice(guest.screen, title, f"{before}; yours, `{says}`, holds.")
        elif guest.principal.user_id == conflict["user_id"]:
            after = f"{names.get(author, 'Somebody')} made the edit `{says}` without having seen yours"
            show_notice(guest.screen, title, f"{after}, `{conflict['edit']}`. The later one holds.")
