"""A class at work: 40 students edit their plans, each in a room of their own, while a teacher looks at the wall.

The server runs in a process of its own, with SQLite in a temporary folder. Students are websockets without browsers that speak Bokeh's
protocol as the page does (`team_people.py`); the teacher asks for the live part of the wall as often as its page does. All of it runs on
one machine, the measuring too (`client_lag_p95_ms`).

    python benchmarks/class_wall.py [--quick] [--json] [--students N] [--seconds N] [--every N]

| Figure | Goal | |
|---|---|---|
| `wall_p95_ms` | 2000 | from an edit's figures on its author's board until an answer that the wall is made of has the plan after it |
| `author_p95_ms` | 300 | from an edit to the figures of its author |
| `answer_p95_ms` | - | until the server has answered for the whole wall |
"""

import argparse
import asyncio
import json
import os
import re
import time
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from team_people import Person, Room, Seen, edit_together, leave_all, percentile
from team_served import PROJECT, ServedTeam, served_team

EXERCISE = Path(__file__).parents[1] / "lessons" / "tensor_parallel" / "exercise.json"
RESULTS = Path(__file__).parent / "results" / "class_wall.json"
GOALS = {"wall_p95_ms": 2000.0, "author_p95_ms": 300.0}
FULL, QUICK = {"students": 40, "seconds": 60, "every": 10}, {"students": 8, "seconds": 20, "every": 10}
ASKED_EVERY = 1.0  # seconds between two questions of the wall's page
_SHOWN = re.compile(r"/submissions/([a-z0-9]+)/thumbnail\.svg\?at=([0-9.]+)")


@dataclass(slots=True)
class Wall:
    """The answers that the teacher's page got: when each came (`time.time`), and when the card of each room was made."""

    answers: list[tuple[float, dict[str, float]]] = field(default_factory=list)
    took: list[float] = field(default_factory=list)

    def seconds_until(self, room: str, moment: float) -> float | None:
        """From a moment until an answer had a card of this room that was made after it."""
        return next((max(came - moment, 0.0) for came, cards in self.answers if cards.get(room, 0.0) >= moment), None)


def ask(team: ServedTeam, cookie: str, method: str, path: str, body: Any = None) -> Any:
    """An answer of the server, as JSON."""
    headers = {"Cookie": cookie, "Origin": team.url, "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{team.url}{path}", data, headers, method=method)  # noqa: S310 - of this machine
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        return json.loads(answer.read())


async def come(team: ServedTeam, students: Sequence[str], assignment: str) -> list[Room]:
    """Each student begins, and opens the room."""
    rooms = []
    for cookie in students:
        begun = await asyncio.to_thread(ask, team, cookie, "POST", f"/api/v1/assignments/{assignment}/submissions", {})
        rooms.append(Room(begun["room"], [await Person.come(begun["page"], cookie=cookie)]))
    return rooms


async def watch(team: ServedTeam, assignment: str, wall: Wall) -> None:
    """The teacher's page."""
    path = f"/p/{PROJECT}/assignments/{assignment}/wall/live"
    while True:
        begun = time.monotonic()
        html = (await asyncio.to_thread(ask, team, team.cookies[0], "GET", path))["html"]
        wall.took.append(time.monotonic() - begun)
        wall.answers.append((time.time(), {room: float(at) for room, at in _SHOWN.findall(html)}))
        await asyncio.sleep(ASKED_EVERY)


async def work(team: ServedTeam, assignment: str, options: argparse.Namespace) -> dict[str, Any]:
    """All students at work, and what the teacher saw of it."""
    rooms = await come(team, team.cookies[1:], assignment)
    await edit_together(rooms, options.every, options.every, seed=1)  # warms up
    wall = Wall()
    watching = asyncio.create_task(watch(team, assignment, wall))
    seen = await edit_together(rooms, options.every, options.seconds)
    await asyncio.sleep(4 * ASKED_EVERY)
    watching.cancel()
    found = seen_on(wall, rooms)
    await leave_all(rooms)
    return {**found, **figures(seen, wall)}


def seen_on(wall: Wall, rooms: Sequence[Room]) -> dict[str, Any]:
    """How long edits took to the wall; an edit that another one followed at once is shown with that one."""
    offset = time.time() - time.monotonic()
    waited = []
    for room in rooms:
        [person] = room.people
        for made in room.made:
            shown = made.sent + (person.seen_after(made) or 0.0)
            waited.append(wall.seconds_until(room.name, shown + offset))
    known = [each for each in waited if each is not None]
    return {"wall_p50_ms": percentile(known, 50), "wall_p95_ms": percentile(known, 95), "unseen_on_wall": len(waited) - len(known)}


def figures(seen: Seen, wall: Wall) -> dict[str, Any]:
    return {
        "author_p50_ms": percentile(seen.answered, 50),
        "author_p95_ms": percentile(seen.answered, 95),
        "answer_p50_ms": percentile(wall.took, 50),
        "answer_p95_ms": percentile(wall.took, 95),
        "client_lag_p95_ms": percentile(seen.lag, 95),
        "edits": len(seen.answered),
        "errors": len(seen.errors),
        **({"first_errors": seen.errors[:3]} if seen.errors else {}),
    }


def measure(options: argparse.Namespace) -> dict[str, Any]:
    with served_team(options.students + 1, 0) as team:
        for place in range(1, options.students + 1):
            ask(team, team.cookies[0], "PUT", f"/api/v1/projects/{PROJECT}/members/person{place}", {"role": "student"})
        handed_out = {"exercise": EXERCISE.read_text(encoding="utf-8")}
        assignment = ask(team, team.cookies[0], "POST", f"/api/v1/projects/{PROJECT}/assignments", handed_out)["id"]
        found = asyncio.run(work(team, assignment, options))
        problems = team.problems()
    return {**found, "problems": len(problems), "log": problems[:5]}


def print_results(found: Mapping[str, Any]) -> None:
    for name, goal in GOALS.items():
        print(f"{name:20}{found[name]:>10}   goal {goal:g}{'' if found[name] <= goal else '   missed'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer students, shorter; under 2 minutes")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.name} among the results")
    for name, full in FULL.items():
        parser.add_argument(f"--{name}", type=int, help=f"{full}, or {QUICK[name]} if quick")
    options = parser.parse_args()
    for name, usual in (QUICK if options.quick else FULL).items():
        if getattr(options, name) is None:
            setattr(options, name, usual)
    found = {**{name: getattr(options, name) for name in FULL}, **measure(options)}
    print_results(found)
    if options.save:
        RESULTS.write_text(json.dumps({"device": f"{os.cpu_count()} cores", **found}, indent=1) + "\n", encoding="utf-8")
    if options.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
