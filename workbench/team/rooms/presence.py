"""Presence in a room: its users and what they are looking at. Nothing is stored."""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

LEAST_PAUSE = 0.1
"""Minimum seconds between presence messages."""
GONE_AFTER = 5.0
"""Seconds without a sign of a browser after which its user is shown as away."""
HELD_FOR = 5.0
"""Seconds without a message after which a drag is considered abandoned, because an abandoned drag sends none."""
MOST_SAID = 30
COLOURS = ("#3b5ed1", "#b3420e", "#0a7d57", "#a3309a", "#8a6100", "#00738a", "#c02654", "#5d5f00", "#5b3fc4", "#4f6d1f")
"""User colours, each readable under white text."""


@dataclass(frozen=True, slots=True)
class PresentPerson:
    """A user on a page: `hand` is the dimension they drag, `moved` the one that the room's last edit moved, if it was theirs,
    `following` the visitor they follow, 0 for none.
    """

    visitor: int
    user_id: str
    display: str
    role: str
    colour: str
    tab: str = ""
    selected: str = ""
    hand: str = ""
    moved: str = ""
    following: int = 0
    last_seen: float = 0.0
    held_at: float = 0.0

    def as_state(self, now: float) -> dict[str, Any]:
        names = ("visitor", "display", "role", "colour", "tab", "selected", "hand", "moved", "following")
        return {**{name: getattr(self, name) for name in names}, "away": now - self.last_seen > GONE_AFTER}


class RoomPresence:
    """The users of a room. Thread-safe. `publish()` is called from a thread after changes, at most ten times a second."""

    def __init__(self, publish: Callable[[], None]) -> None:
        self._publish, self._lock = publish, threading.Lock()
        self._people: dict[int, PresentPerson] = {}
        self._colours: dict[str, str] = {}
        self._said: deque[Mapping[str, Any]] = deque(maxlen=MOST_SAID)
        self._timer: threading.Timer | None = None
        self._away: frozenset[int] = frozenset()

    def enter(self, visitor: int, user_id: str, display: str, role: str) -> PresentPerson:
        with self._lock:
            colour = self._colours.setdefault(user_id, COLOURS[len(self._colours) % len(COLOURS)])
            person = PresentPerson(visitor, user_id, display, role, colour, last_seen=time.monotonic())
            self._people[visitor] = person
        self.changed()
        return person

    def leave(self, visitor: int) -> None:
        """Remove a closed page; its followers stop following."""
        with self._lock:
            self._people.pop(visitor, None)
            for follower in list(self._people.values()):
                if follower.following == visitor:
                    self._people[follower.visitor] = replace(follower, following=0)
        self.changed()

    def update(self, visitor: int, **changes: Any) -> PresentPerson | None:
        """Change fields of a person; returns `None` if they left or nothing changed."""
        with self._lock:
            previous = self._people.get(visitor)
            if previous is None or (current := replace(previous, **changes)) == previous:
                return None
            self._people[visitor] = current
        self.changed()
        return current

    def touch(self, visitor: int) -> None:
        with self._lock:
            if (person := self._people.get(visitor)) is not None:
                was_away = time.monotonic() - person.last_seen > GONE_AFTER
                self._people[visitor] = replace(person, last_seen=time.monotonic())
        if person is not None and was_away:
            self.changed()

    def hold(self, visitor: int, dim: str) -> None:
        person = self.person(visitor)
        if person is not None and (dim or person.hand):
            self.update(visitor, hand=dim, held_at=time.monotonic())

    def note_time(self) -> None:
        """Expire abandoned drags and mark users as away; called every second."""
        now = time.monotonic()
        for person in self.people():
            if person.hand and now - person.held_at > HELD_FOR:
                self.update(person.visitor, hand="")
        away = frozenset(person.visitor for person in self.people() if now - person.last_seen > GONE_AFTER)
        if away != self._away:
            self._away = away
            self.changed()

    def say(self, user_id: str, text: str, display: str = "") -> None:
        with self._lock:
            person = next((candidate for candidate in self._people.values() if candidate.user_id == user_id), None)
            if person is not None or display:
                speaker, colour = (person.display, person.colour) if person is not None else (display, COLOURS[-1])
                self._said.appendleft({"who": speaker, "colour": colour, "text": text, "at": time.time()})
        self.changed()

    def note_move(self, user_id: str, dim: str) -> None:
        """Record the dimension that the last edit of the room moved, empty for other edits."""
        with self._lock:
            for visitor, person in self._people.items():
                self._people[visitor] = replace(person, moved=dim if person.user_id == user_id else "")

    def person(self, visitor: int) -> PresentPerson | None:
        with self._lock:
            return self._people.get(visitor)

    def people(self) -> list[PresentPerson]:
        with self._lock:
            return list(self._people.values())

    def state(self) -> Mapping[str, Any]:
        with self._lock:
            now = time.monotonic()
            return {"people": [member.as_state(now) for member in self._people.values()], "said": list(self._said)}

    def changed(self) -> None:
        with self._lock:
            if self._timer is None:
                self._timer = threading.Timer(LEAST_PAUSE, self._publish_now)
                self._timer.daemon = True
                self._timer.start()

    def _publish_now(self) -> None:
        with self._lock:
            self._timer = None
        self._publish()


def held_dimension(gesture: Mapping[str, Any]) -> str:
    dim = gesture.get("dim") if gesture.get("ahead") else ""
    return dim[:80] if isinstance(dim, str) else ""


def leader_for(presence: RoomPresence, visitor: int, leader: object) -> int:
    """Return the visitor to follow, or 0: circular following would pass views around endlessly."""
    by_visitor = {person.visitor: person for person in presence.people()}
    if type(leader) is not int or leader not in by_visitor:
        return 0
    current, seen = leader, {visitor}
    while current in by_visitor and current not in seen:
        seen.add(current)
        current = by_visitor[current].following
    return 0 if current == visitor else leader


def gestures_to_follow(mine: PresentPerson, theirs: PresentPerson) -> list[Mapping[str, Any]]:
    """Return gestures to the leader's view; selecting the selected item again clears the selection."""
    gestures: list[Mapping[str, Any]] = []
    if theirs.tab and mine.tab != theirs.tab:
        gestures.append({"verb": "open", "tab": theirs.tab})
    if mine.selected != theirs.selected:
        gestures.append({"verb": "select", "path": theirs.selected or mine.selected})
    return gestures


def gesture_of_request(heard: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the board gesture of a request in the bar (go to a comment's plan, undo, redo), or `None`."""
    if heard.get("kind") == "go":
        return {"verb": "go", "number": heard.get("node")}
    return {"verb": heard["kind"]} if heard.get("kind") in ("undo", "redo") else None
