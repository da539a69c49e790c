"""A team's server whose processes are killed while people edit: everybody has a board again, and nothing that was answered is lost.

50 people in 10 rooms make ten edits a second in all. At random moments `kill -9` ends one process, or two at once: the one that rooms are
forked from, a room's own, the one that asks XLA's partitioner for all rooms, the partitioner itself, and libtpu's where it runs. The people
are websockets without browsers (`team_people.py`); a gesture that a killed process took with it is not answered, and is counted.

    python benchmarks/team_kills.py [--quick] [--json] [--seed N]

| Figure | Goal | |
|---|---|---|
| `back_max_s` | 10 | from a kill until a page that is opened then has a board, an edit on it is answered, and nothing is missing |
| `lost` | 0 | edits that were answered and are not in the log; each person moves a dimension that nobody else in the room moves |
| `unreported` | 0 | kills of what runs all the time that `/healthz` did not count within ten seconds |
| `left` | 0 | processes of the server that are there two seconds after it is killed itself |
"""

import argparse
import asyncio
import json
import os
import random
import sqlite3
import time
import urllib.request
from collections import Counter
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any

import psutil
import served_client
from team_people import Person, come_together, drops, percentile
from team_served import FORKS, ServedTeam, served_team
from tornado.websocket import WebSocketClosedError

FULL = {"people": 50, "rooms": 10, "kills": 20}
QUICK = {"people": 12, "rooms": 3, "kills": 6}
EVERY = 5.0  # seconds between two edits of one person
PAUSE = (1.0, 4.0)  # seconds between everybody's being back and the next kill
UNANSWERED = 20.0  # seconds after which a person tries something else
LOOK, REPORTED, GONE = 0.05, 10.0, 2.0  # seconds between two looks; until health counts a death; until a killed server's processes are gone
MODULES = {
    "fork server": FORKS,
    "partition broker": "workbench.team.planning.partition_broker",
    "partitioner": "workbench.engine.partitioner.partitioner_process",
    "libtpu worker": "workbench.engine.partitioner.libtpu_process",
}
REPORTS = ("fork server", "partition broker", "rooms")
PAIRS = 0.3  # of the kills end two processes


@dataclass
class Kills:
    """What was killed, and what came of it."""

    team: ServedTeam
    chance: random.Random
    killed: Counter[str] = field(default_factory=Counter)
    back: list[float] = field(default_factory=list)
    unreported: int = 0
    failed: list[str] = field(default_factory=list)

    async def run(self, kills: int) -> None:
        """So many, each after everybody was back from the one before."""
        for _ in range(kills):
            await asyncio.sleep(self.chance.uniform(*PAUSE))
            before, begun = await self._deaths(), time.monotonic()
            names = self._kill(1 + (self.chance.random() < PAIRS))
            try:
                await self._come_back()
            except (OSError, AssertionError) as error:
                self.failed.append(f"{names}: {error!r}"[:200])
            self.back.append(time.monotonic() - begun)
            await self._verify_report(names, before)

    def _kill(self, count: int) -> list[str]:
        found = processes_of(self.team)
        names = self.chance.sample(sorted(found), min(count, len(found)))
        for name in names:
            with suppress(psutil.NoSuchProcess):
                self.chance.choice(found[name]).kill()
        self.killed.update(names)
        return names

    async def _come_back(self) -> None:
        """Somebody comes into a room of their own, and edits there; then nothing is missing any more."""
        place = self.chance.randrange(len(self.team.cookies))
        person = await Person.come(self.team.untouched_room, cookie=self.team.cookies[place])
        await person.do(**self.chance.choice(drops(person.board)))
        await person.leave()
        await asyncio.to_thread(wait_until_whole, self.team.url)

    async def _verify_report(self, names: Sequence[str], before: Counter[str]) -> None:
        until, missing = time.monotonic() + REPORTED, set(names) & set(REPORTS)
        while missing and time.monotonic() < until:
            now = await self._deaths()
            missing = {name for name in missing if now[name] <= before[name]}
            await asyncio.sleep(LOOK)
        self.unreported += len(missing)

    async def _deaths(self) -> Counter[str]:
        return Counter((await self._health())["deaths"])

    async def _health(self) -> dict[str, Any]:
        return await asyncio.to_thread(read_health, self.team.url)


def read_health(url: str) -> dict[str, Any]:
    """What `/healthz` says."""
    with urllib.request.urlopen(f"{url}/healthz", timeout=20) as answer:  # noqa: S310 - of this machine
        found: dict[str, Any] = json.load(answer)
    return found


def wait_until_whole(url: str) -> None:
    """Until nothing is missing."""
    while read_health(url)["degraded"]:
        time.sleep(LOOK)


def processes_of(team: ServedTeam) -> dict[str, list[psutil.Process]]:
    """What may be killed, by its name in the table of the server."""
    found: dict[str, list[psutil.Process]] = {"rooms": team.rooms_processes()}
    for each in team.process.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            line = each.cmdline()
            for name, module in MODULES.items():
                if module in line and each not in found["rooms"]:
                    found.setdefault(name, []).append(each)
    return {name: processes for name, processes in found.items() if processes}


@dataclass
class Author:
    """Somebody who moves one dimension that nobody else in the room moves: what was answered is one entry of the log each."""

    person: Person
    name: str
    dim: str
    chance: random.Random
    answered: list[float] = field(default_factory=list)
    stored: int = 0  # of the answered ones: those that moved the dimension
    unanswered: int = 0

    async def edit_until(self, done: asyncio.Event) -> None:
        while not done.is_set():
            await asyncio.sleep(self.chance.uniform(0, 2 * EVERY))
            moves = [each for each in drops(self.person.board) if each["dim"] == self.dim]
            if not moves:  # every axis is taken by what it shares a tensor with
                continue
            before = self._place()
            try:
                answered, _, _ = await self.person.do(**self.chance.choice(moves))
            except (AssertionError, WebSocketClosedError):
                self.unanswered += 1
                continue
            self.answered.append(answered)
            self.stored += self._place() != before

    def _place(self) -> list[str]:
        """Where the layout has the dimension."""
        rules = self.person.board["layout"].replace(",", " ").replace(";", " ").split()
        return [rule for rule in rules if rule.startswith(f"{self.dim}:")]


async def gather_authors(team: ServedTeam, people: int, seed: int) -> list[Author]:
    """So many people in the rooms, each with a dimension of their own."""
    found = []
    for number, room in enumerate(await come_together(team, people, team.rooms)):
        for place, person in enumerate(room.people):
            dims = sorted({each["dim"] for each in drops(person.board)})
            name = f"person{number + place * len(team.rooms)}"
            if place < len(dims):
                found.append(Author(person, name, dims[place], random.Random(f"{seed} {name}")))  # noqa: S311 - no secret
    return found


def entries(team: ServedTeam) -> Counter[str]:
    """Of the logs of the rooms of the authors, by their names."""
    other = team.untouched_room.rpartition("/")[2]
    with closing(sqlite3.connect(team.log.parent / "team.db")) as store:
        people = "SELECT user.name, count(*) FROM log JOIN user ON user.id = log.author_id WHERE room_id != ? GROUP BY user.name"
        return Counter(dict(store.execute(people, (other,))))


async def edit_and_kill(team: ServedTeam, people: int, kills: int, seed: int) -> dict[str, Any]:
    """People edit until all kills are done."""
    authors = await gather_authors(team, people, seed)
    served_client.PATIENCE = UNANSWERED
    killing, done = Kills(team, random.Random(seed)), asyncio.Event()  # noqa: S311 - moments of kills are no secret
    editing = [asyncio.create_task(each.edit_until(done)) for each in authors]
    await killing.run(kills)
    done.set()
    await asyncio.gather(*editing)
    stored = entries(team)
    return {
        "kills": dict(killing.killed),
        "back_p50_s": percentile(killing.back, 50) / 1000,
        "back_max_s": round(max(killing.back), 1),
        "people": len(authors),
        "edits": sum(len(each.answered) for each in authors),
        "unanswered": sum(each.unanswered for each in authors),
        "lost": sum(max(each.stored - stored[each.name], 0) for each in authors),
        "unreported": killing.unreported,
        "failed": killing.failed,
        "gone_pages": sum(each.person.is_gone for each in authors),
    }


def kill_server(team: ServedTeam) -> int:
    """How many of its processes are left a moment after it was killed."""
    below = team.process.children(recursive=True)
    team.process.kill()
    _, alive = psutil.wait_procs(below, GONE)
    return len([each for each in alive if each.is_running() and each.status() != psutil.STATUS_ZOMBIE])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer people and kills; about two minutes")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    options = parser.parse_args()
    sizes = QUICK if options.quick else FULL
    with served_team(sizes["people"], sizes["rooms"]) as team:
        found = asyncio.run(edit_and_kill(team, sizes["people"], sizes["kills"], options.seed))
        found |= {"left": kill_server(team), "seed": options.seed, "load_average": round(os.getloadavg()[0], 1)}
    print("\n".join(f"{name:14}{value}" for name, value in found.items()))
    if options.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
