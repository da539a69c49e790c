"""People in rooms without browsers: what they do, in the gestures that a page sends, and how long they and the others in the room wait."""

import asyncio
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from served_client import PATIENCE, Visitor
from team_served import ServedTeam

UNDO, TAB, QUICK = 0.12, 0.25, 0.3
"""How often an edit is an undo, how often another tab is opened before one, and how often a hand does not rest before it lets go: as
recorded of people at the board."""
HELD = (0.25, 0.9)  # seconds that a dimension is held over zones before it is let go
TABS = ("tensors", "memory", "communication", "step", "tensors", "notes", "devices", "values")
LAG_EVERY = 0.02  # seconds between two looks at how late this process itself is
CALM = 1.0  # seconds after the last edit until what the others have not seen counts as lost to them


@dataclass(frozen=True, slots=True)
class Made:
    """An edit: in which room, by which visitor, when it was sent, and the revision of the plan that the author was shown in answer."""

    room: str
    visitor: int
    sent: float
    revision: int


@dataclass(slots=True)
class Seen:
    """Seconds until authors were answered, until their tables were there, until the others saw it, until an opened tab was there; and what
    went wrong."""

    answered: list[float] = field(default_factory=list)
    charted: list[float] = field(default_factory=list)
    others: list[float] = field(default_factory=list)
    opened: list[float] = field(default_factory=list)
    lag: list[float] = field(default_factory=list)  # of this process: how late its own event loop is
    refused: int = 0
    lost: int = 0
    unseen: int = 0
    errors: list[str] = field(default_factory=list)

    def add(self, more: "Seen") -> None:
        for name in ("answered", "charted", "others", "opened", "lag", "errors"):
            getattr(self, name).extend(getattr(more, name))
        self.refused, self.lost, self.unseen = self.refused + more.refused, self.lost + more.lost, self.unseen + more.unseen


class Person(Visitor):
    """Somebody in a room; `revisions` are those of the plan that the page was shown, and when."""

    def __init__(self, socket: Any) -> None:
        super().__init__(socket)
        self.revisions: list[tuple[int, float]] = []
        self.answered_revision = 0
        self._seq = self._answered = 0

    def _show(self, part: str, state: dict[str, Any]) -> None:
        super()._show(part, state)
        if part != "board":
            return
        if not self.revisions or self.revisions[-1][0] < state["revision"]:
            self.revisions.append((state["revision"], time.monotonic()))
        if state["answer"]["seq"] != self._answered:
            self._answered, self.answered_revision = state["answer"]["seq"], state["revision"]

    def revision(self) -> int:
        return int(self.board["revision"])

    async def do(self, **gesture: Any) -> tuple[float, float, bool]:
        """As `edit`, of what the person sees now."""
        self._seq += 1
        return await self.edit(self._seq, saw=self.revision(), **gesture)

    async def hold(self, **gesture: Any) -> None:
        """A hand holds a dimension over a zone."""
        await self._gesture(0, {**gesture, "ahead": True})

    def seen_after(self, made: Made) -> float | None:
        """Seconds from when an edit was sent until this page showed it, or a later one."""
        return next((max(at - made.sent, 0.0) for revision, at in self.revisions if revision >= made.revision), None)


def drops(board: dict[str, Any]) -> list[dict[str, Any]]:
    """What may be dropped where, as the zones of a board say."""
    zones = [zone["axis"] for zone in board["zones"]]
    return [
        {"verb": "drop", "dim": chip["dim"], "source": chip["source"], "target": axis, "add": False}
        for zone in board["zones"]
        for chip in zone["chips"]
        for axis in zones
        if axis != chip["source"] and axis not in chip["illegal"]
    ]


@dataclass(slots=True)
class Room:
    """The people on one room's pages, and what was done there."""

    name: str
    people: list[Person]
    made: list[Made] = field(default_factory=list)

    def others(self) -> Iterator[float | None]:
        """For each edit and each other person: seconds until it was seen."""
        for made in self.made:
            for place, person in enumerate(self.people):
                if place != made.visitor:
                    yield person.seen_after(made)


async def edit_often(room: Room, place: int, every: float, until: float, seen: Seen, chance: random.Random) -> None:
    """One person: thinks, sometimes opens a tab, edits; every so many seconds on average."""
    person = room.people[place]
    await asyncio.sleep(chance.uniform(0, every))
    while time.monotonic() < until:
        begun = time.monotonic()
        try:
            await _act(room, place, seen, chance)
        except Exception as error:  # noqa: BLE001 - counted, and the others go on
            seen.errors.append(f"{room.name}, {place}: {error!r}"[:300])
            if person.is_gone:
                return
        await asyncio.sleep(max(0.0, chance.uniform(0, 2 * every) - (time.monotonic() - begun)))


async def _act(room: Room, place: int, seen: Seen, chance: random.Random) -> None:
    person = room.people[place]
    if chance.random() < TAB:
        _, opened, _ = await person.do(verb="open", tab=chance.choice(TABS), search="")
        seen.opened.append(opened)
    if chance.random() < UNDO and person.board["undo"]:
        gesture: dict[str, Any] = {"verb": "undo"}
    else:
        gesture = chance.choice(drops(person.board))
        if chance.random() > QUICK:
            await person.hold(**gesture)
            await asyncio.sleep(chance.uniform(*HELD))
    sent, before = time.monotonic(), person.revision()
    answered, charted, lost = await person.do(**gesture)
    seen.answered.append(answered)
    seen.charted.append(charted)
    seen.lost += lost
    seen.refused += bool(person.board["refusal"])
    if not person.board["refusal"] and person.answered_revision > before:
        room.made.append(Made(room.name, place, sent, person.answered_revision))


async def come_together(team: ServedTeam, people: int, rooms: Sequence[str], at_once: int = 4) -> list[Room]:
    """So many people, spread over the rooms; a few at once open their pages."""
    gate = asyncio.Semaphore(at_once)

    async def come(place: int) -> Person:
        async with gate:
            return await Person.come(rooms[place % len(rooms)], cookie=team.cookies[place % len(team.cookies)])

    there = await asyncio.gather(*(come(place) for place in range(people)))
    return [Room(name, list(there[place :: len(rooms)])) for place, name in enumerate(rooms)]


async def edit_together(rooms: Sequence[Room], every: float, seconds: float, seed: int = 0) -> Seen:
    """What everybody sees while all of them edit, each every so many seconds, for so long."""
    seen, until = Seen(), time.monotonic() + seconds
    for room in rooms:
        room.made.clear()
        for person in room.people:
            person.revisions.clear()
    work = [
        edit_often(room, place, every, until, seen, random.Random(f"{seed} {number} {place}"))  # noqa: S311 - no secret
        for number, room in enumerate(rooms)
        for place in range(len(room.people))
    ]
    watching = asyncio.create_task(_watch_lag(seen))
    await asyncio.gather(*work)
    await asyncio.sleep(CALM)
    watching.cancel()
    for room in rooms:
        for seconds_until in room.others():
            if seconds_until is None:
                seen.unseen += 1
            else:
                seen.others.append(seconds_until)
    return seen


async def leave_all(rooms: Sequence[Room]) -> None:
    await asyncio.gather(*(person.leave() for room in rooms for person in room.people))


async def edit_slowly(address: str, cookie: str, every: float, until: float) -> list[float]:
    """One person in the room on a slow program: seconds of each edit, one every so many seconds."""
    person = await Person.come(address, cookie=cookie)
    found: list[float] = []
    there = {"verb": "drop", "dim": "d_ff", "source": "", "target": "model", "add": False}
    back = {**there, "source": "model", "target": ""}
    while time.monotonic() < until:
        answered, _, _ = await person.do(**(there if len(found) % 2 == 0 else back))
        assert not person.board["refusal"], person.board["refusal"]
        found.append(answered)
        await asyncio.sleep(max(every - answered, 0.05))
    await person.leave()
    return found


async def _watch_lag(seen: Seen) -> None:
    while True:
        begun = time.monotonic()
        await asyncio.sleep(LAG_EVERY)
        seen.lag.append(time.monotonic() - begun - LAG_EVERY)


async def reload_often(team: ServedTeam, rooms: Sequence[str], browsers: int, seconds: float, stays: float) -> tuple[list[float], int]:
    """Seconds until the first board, of pages that are loaded again and again; and how many loads failed. Each stays for a while."""
    found: list[float] = []
    until, failed = time.monotonic() + seconds, 0

    async def reload(place: int) -> None:
        nonlocal failed
        chance = random.Random(place)  # noqa: S311 - no secret
        await asyncio.sleep(chance.uniform(0, stays))
        while time.monotonic() < until:
            begun = time.monotonic()
            try:
                visitor = await Visitor.come(rooms[place % len(rooms)], cookie=team.cookies[place % len(team.cookies)])
            except (OSError, AssertionError):
                failed += 1
                await asyncio.sleep(1.0)
                continue
            found.append(time.monotonic() - begun)
            await asyncio.sleep(chance.uniform(0.5 * stays, 1.5 * stays))
            await visitor.leave()

    await asyncio.gather(*(reload(place) for place in range(browsers)))
    return found, failed


async def open_pages(team: ServedTeam, rooms: Sequence[str], pages: int) -> list[Visitor]:
    """So many pages more, all left open."""
    return [await Visitor.come(rooms[each % len(rooms)], cookie=team.cookies[each % len(team.cookies)]) for each in range(pages)]


async def visit(team: ServedTeam, rooms: Sequence[str], visits: int, at_once: int = 2) -> int:
    """Open and close so many pages; how many did not open."""
    gate, failed = asyncio.Semaphore(at_once), 0

    async def come_and_go(place: int) -> None:
        nonlocal failed
        async with gate:
            try:
                visitor = await Visitor.come(rooms[place % len(rooms)], cookie=team.cookies[place % len(team.cookies)])
                await visitor.leave()
            except (OSError, AssertionError):
                failed += 1

    await asyncio.wait_for(asyncio.gather(*(come_and_go(place) for place in range(visits))), max(PATIENCE, 2.0 * visits))
    return failed


def percentile(seconds: Sequence[float], percent: int) -> float:
    """In milliseconds; 0 of none."""
    if len(seconds) < 2:
        return round(1000 * sum(seconds), 1)
    return round(1000 * statistics.quantiles(seconds, n=100, method="inclusive")[percent - 1], 1)
