"""Who is in a room, and what each of them has before their eyes. Nothing of it is stored."""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

LEAST_PAUSE = 0.1
"""Seconds between two messages about it."""
GONE_AFTER = 5.0
"""Seconds after the last sign of a browser until somebody is shown no more."""
HELD_FOR = 5.0
"""Seconds after which a hand that was not heard of again holds nothing: a drag that is given up says nothing."""
MOST_SAID = 30
COLOURS = ("#3b5ed1", "#b3420e", "#0a7d57", "#a3309a", "#8a6100", "#00738a", "#c02654", "#5d5f00", "#5b3fc4", "#4f6d1f")
"""Of people, each readable under white text."""


@dataclass(frozen=True, slots=True)
class PresentPerson:
    """A person on one page: `colour` is theirs in this room, `hand` the dimension that they hold, `following` the visitor whose view they
    follow, 0 for nobody's."""

    visitor: int
    user_id: str
    display: str
    role: str
    colour: str
    tab: str = ""
    selected: str = ""
    hand: str = ""
    following: int = 0
    last_seen: float = 0.0
    held_at: float = 0.0

    def as_state(self, now: float) -> dict[str, Any]:
        shown = ("visitor", "display", "role", "colour", "tab", "selected", "hand", "following")
        return {**{name: getattr(self, name) for name in shown}, "away": now - self.last_seen > GONE_AFTER}


class RoomPresence:
    """Thread-safe. `publish()` is called, from a thread, soon after something changed, and ten times a second at most."""

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
        """The page is closed; whoever followed it follows nobody."""
        with self._lock:
            self._people.pop(visitor, None)
            for each in list(self._people.values()):
                if each.following == visitor:
                    self._people[each.visitor] = replace(each, following=0)
        self.changed()

    def update(self, visitor: int, **changes: Any) -> PresentPerson | None:
        """Fields of `PresentPerson` that are others now; `None` for somebody who has left, or where nothing changed."""
        with self._lock:
            before = self._people.get(visitor)
            if before is None or (after := replace(before, **changes)) == before:
                return None
            self._people[visitor] = after
        self.changed()
        return after

    def touch(self, visitor: int) -> None:
        """A sign of life."""
        with self._lock:
            if (person := self._people.get(visitor)) is not None:
                was_away = time.monotonic() - person.last_seen > GONE_AFTER
                self._people[visitor] = replace(person, last_seen=time.monotonic())
        if person is not None and was_away:
            self.changed()

    def hold(self, visitor: int, dim: str) -> None:
        """A hand holds a dimension over a zone; none for an empty one."""
        person = self.person(visitor)
        if person is not None and (dim or person.hand):
            self.update(visitor, hand=dim, held_at=time.monotonic())

    def note_time(self) -> None:
        """Called every second: hands that hold nothing any more, as far as is known, and people who have gone away."""
        now = time.monotonic()
        for person in self.people():
            if person.hand and now - person.held_at > HELD_FOR:
                self.update(person.visitor, hand="")
        away = frozenset(person.visitor for person in self.people() if now - person.last_seen > GONE_AFTER)
        if away != self._away:
            self._away = away
            self.changed()

    def say(self, user_id: str, text: str, display: str = "") -> None:
        """Somebody did something; `display` is the name of one who may not be here."""
        with self._lock:
            person = next((each for each in self._people.values() if each.user_id == user_id), None)
            if person is not None or display:
                who, colour = (person.display, person.colour) if person is not None else (display, COLOURS[-1])
                self._said.appendleft({"who": who, "colour": colour, "text": text, "at": time.time()})
        self.changed()

    def person(self, visitor: int) -> PresentPerson | None:
        with self._lock:
            return self._people.get(visitor)

    def people(self) -> list[PresentPerson]:
        with self._lock:
            return list(self._people.values())

    def state(self) -> Mapping[str, Any]:
        with self._lock:
            now = time.monotonic()
            return {"people": [each.as_state(now) for each in self._people.values()], "said": list(self._said)}

    def changed(self) -> None:
        """Publish soon."""
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
    """The dimension that a hand holds over a zone, before it lets go."""
    held = gesture.get("dim") if gesture.get("ahead") else ""
    return held[:80] if isinstance(held, str) else ""


def leader_for(presence: RoomPresence, visitor: int, leader: object) -> int:
    """The visitor whom somebody follows from now on, 0 for nobody: neither oneself, nor one who follows oneself in turn. A circle would
    pass what its people see round and round."""
    known = {person.visitor: person for person in presence.people()}
    if type(leader) is not int or leader not in known:
        return 0
    at, seen = leader, {visitor}
    while at in known and at not in seen:
        seen.add(at)
        at = known[at].following
    return 0 if at == visitor else leader


def gestures_of_following(mine: PresentPerson, theirs: PresentPerson) -> list[Mapping[str, Any]]:
    """What brings a follower's board to what the leader sees; to select again what is selected clears it."""
    gestures: list[Mapping[str, Any]] = []
    if theirs.tab and mine.tab != theirs.tab:
        gestures.append({"verb": "open", "tab": theirs.tab})
    if mine.selected != theirs.selected:
        gestures.append({"verb": "select", "path": theirs.selected or mine.selected})
    return gestures


def asked_gesture(heard: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What is asked of the board in the bar: to go to the plan of a comment, to undo and to redo; none for anything else."""
    if heard.get("kind") == "go":
        return {"verb": "go", "number": heard.get("node")}
    return {"verb": heard["kind"]} if heard.get("kind") in ("undo", "redo") else None
