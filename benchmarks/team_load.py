"""A team's server under load: 50 people in 10 rooms, a neighbour on a slow program, pages that are loaded again and again, 500 visits.

The server runs in a process of its own, with SQLite in a temporary folder. The people are websockets without browsers, which speak Bokeh's
protocol as the page does (`served_client.py`, `team_people.py`), and two browsers that measure what is painted (`team_browsers.py`). All of
it runs on one machine, the measuring too: its own event loop is late by `client_lag_p95_ms`, which is part of every figure, and
`load_average` says how busy the machine was before and after.

    python benchmarks/team_load.py [--quick] [--json] [--only PHASE ...] [--people N] [--rooms N] [--seconds N]

| Figure | Goal | |
|---|---|---|
| `author_p95_ms`, `author_p99_ms` | 300, 1000 | from an edit to the figures of its author; 50 people in 10 rooms, 10 edits/s in all |
| `others_p95_ms` | 400 | from an edit to the figures of the others in the room |
| `neighbour_ms` | 50 | what one person adds to the authors' 95th percentile who edits a slow program (`slow_p50_ms`) every second |
| `first_board_p95_ms` | 1500 | 10 pages that are loaded again and again: from the request to the first board |
| `rss_growth` | 0.10 | of the front over 500 visits; `descriptor_growth` is how many descriptors and sockets it keeps of them |
| `rss_page_mb` | 5 | of the front, for a page that is open |
| `planner_rss_mb` | 350 | of a room's process with nobody in it; `planner_pss_mb` without what it shares with others |
| `drop_added_ms` | 5 | what the boundary of a process adds to a drop (`team_boundary.py`) |

`*_cpu_ms` are milliseconds of processor time per edit: of the front, of the rooms' processes, of what asks XLA's partitioner for all of
them, and of this script. They depend less on what else runs than the times do.
"""

import argparse
import asyncio
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import team_boundary
import team_browsers
from team_people import (
    Seen,
    come_together,
    edit_slowly,
    edit_together,
    leave_all,
    open_pages,
    percentile,
    reload_often,
    visit,
)
from team_served import ServedTeam, mib, pss_mib, served_team

RESULTS = Path(__file__).parent / "results" / "team_load.json"
GOALS = {
    "author_p95_ms": 300.0,
    "author_p99_ms": 1000.0,
    "others_p95_ms": 400.0,
    "neighbour_ms": 50.0,
    "first_board_p95_ms": 1500.0,
    "rss_growth": 0.10,
    "rss_page_mb": 5.0,
    "planner_rss_mb": 350.0,
    "drop_added_ms": 5.0,
}
PHASES = ("pages", "edits", "browsers", "neighbour", "reloads", "visits", "boundary")
FULL = {
    "people": 50,
    "rooms": 10,
    "seconds": 120,
    "turns": 3,
    "reload_seconds": 240,
    "visits": 500,
    "pages": 20,
    "drops": 100,
}
QUICK = {"people": 20, "rooms": 4, "seconds": 20, "turns": 1, "reload_seconds": 20, "visits": 60, "pages": 8, "drops": 20}
EVERY = 5.0  # seconds between two edits of one person: 10 edits a second of 50
SLOW_EVERY = 1.0  # seconds between two edits of the slow program
BROWSERS, STAYS = 10, 4.0  # pages that are loaded again, and seconds that each stays
CLEARED = 40.0  # seconds after which the server has forgotten the pages that were left


class Usage:
    """Processor seconds of the server's processes since it was made."""

    def __init__(self, team: ServedTeam) -> None:
        self._team, self._before = team, self._now(team)

    def of_each(self, edits: int) -> dict[str, float]:
        """Milliseconds per edit."""
        after = self._now(self._team)
        return {f"{name}_cpu_ms": round(1000 * (after[name] - self._before[name]) / max(edits, 1), 1) for name in after}

    @staticmethod
    def _now(team: ServedTeam) -> dict[str, float]:
        planners = {each.pid for each in team.rooms_processes()}
        found = {"front": _seconds(team.process), "planner": 0.0, "partitioner": 0.0, "client": _seconds(psutil.Process())}
        for each in team.process.children(recursive=True):
            found["planner" if each.pid in planners else "partitioner"] += _seconds(each)
        return found


def _seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


async def pages(team: ServedTeam, options: argparse.Namespace) -> dict[str, Any]:
    """Pages that stay open, in two rooms that are open already: later the front has memory to spare that it was given back."""
    there = await open_pages(team, team.rooms[:2], 2)
    await asyncio.sleep(2.0)
    before = _held(team.process)["mib"]
    there += await open_pages(team, team.rooms[:2], options.pages)
    await asyncio.sleep(2.0)
    after = _held(team.process)["mib"]
    await asyncio.gather(*(page.leave() for page in there))
    return {"rss_page_mb": round((after - before) / options.pages, 2)}


async def edits(team: ServedTeam, options: argparse.Namespace) -> dict[str, Any]:
    """Everybody edits."""
    rooms = await come_together(team, options.people, team.rooms)
    await edit_together(rooms, EVERY, EVERY, seed=1)  # warms up
    usage, begun = Usage(team), time.monotonic()
    seen = await edit_together(rooms, EVERY, options.seconds)
    seconds = time.monotonic() - begun
    cpu = usage.of_each(len(seen.answered))
    await leave_all(rooms)
    return {**times_of(seen), "edits_per_second": round(len(seen.answered) / seconds, 1), **cpu}


def times_of(seen: Seen) -> dict[str, Any]:
    """What people saw, in milliseconds."""
    return {
        "author_p50_ms": percentile(seen.answered, 50),
        "author_p95_ms": percentile(seen.answered, 95),
        "author_p99_ms": percentile(seen.answered, 99),
        "tables_p95_ms": percentile(seen.charted, 95),
        "others_p50_ms": percentile(seen.others, 50),
        "others_p95_ms": percentile(seen.others, 95),
        "tab_p95_ms": percentile(seen.opened, 95),
        "client_lag_p95_ms": percentile(seen.lag, 95),
        "edits": len(seen.answered),
        "refused": seen.refused,
        "unseen": seen.unseen,
        "lost": seen.lost,
        "errors": len(seen.errors),
        **({"first_errors": seen.errors[:3]} if seen.errors else {}),
    }


async def browsers(team: ServedTeam, options: argparse.Namespace) -> dict[str, Any]:
    """Two browsers in a room of their own, while the others edit in theirs."""
    rooms = await come_together(team, options.people - 2, team.rooms[1:])
    load = asyncio.create_task(edit_together(rooms, EVERY, options.seconds, seed=2))
    painted = await asyncio.to_thread(team_browsers.measure, team, options.seconds - 2 * EVERY)
    await load
    await leave_all(rooms)
    return {name: percentile(seconds, percent) for name, seconds, percent in painted}


async def neighbour(team: ServedTeam, options: argparse.Namespace) -> dict[str, Any]:
    """Everybody edits, alone and beside one person on a slow program, in turns."""
    rooms = await come_together(team, options.people, team.rooms)
    alone, beside, slow = Seen(), Seen(), []
    for turn in range(2 * options.turns):
        seconds = options.seconds / (2 * options.turns) + EVERY
        if turn % 2 == 0:
            alone.add(await edit_together(rooms, EVERY, seconds, seed=10 + turn // 2))
            continue
        until = time.monotonic() + seconds
        one = edit_slowly(team.slow_room, team.cookies[0], SLOW_EVERY, until)
        more, took = await asyncio.gather(edit_together(rooms, EVERY, seconds, seed=10 + turn // 2), one)
        beside.add(more)
        slow.extend(took)
    await leave_all(rooms)
    added = {percent: percentile(beside.answered, percent) - percentile(alone.answered, percent) for percent in (50, 95)}
    return {
        "neighbour_ms": round(added[95], 1),
        "neighbour_p50_ms": round(added[50], 1),
        "alone_p95_ms": percentile(alone.answered, 95),
        "slow_p50_ms": percentile(slow, 50),
        "neighbour_errors": len(alone.errors) + len(beside.errors),
    }


async def reloads(team: ServedTeam, options: argparse.Namespace) -> dict[str, Any]:
    """Pages that are loaded again and again."""
    found, failed = await reload_often(team, team.rooms, BROWSERS, options.reload_seconds, STAYS)
    await asyncio.sleep(1.0)
    return {
        "first_board_p50_ms": percentile(found, 50),
        "first_board_p95_ms": percentile(found, 95),
        "loads": len(found),
        "failed_loads": failed,
        "sockets_left": await asyncio.to_thread(team.sockets),
    }


async def visits(team: ServedTeam, options: argparse.Namespace) -> dict[str, Any]:
    """Pages that are opened and closed, and what a room's process holds with nobody in it."""
    room = team.rooms[:2]
    failed = await visit(team, room, options.visits // 10)  # warms up
    await asyncio.sleep(CLEARED)
    before = _held(team.process)
    failed += await visit(team, room, options.visits)
    await asyncio.sleep(CLEARED)
    after = _held(team.process)
    idle = team.rooms_processes()
    return {
        "rss_front_mb": round(after["mib"], 1),
        "rss_growth": round(after["mib"] / before["mib"] - 1, 3),
        "descriptor_growth": after["descriptors"] - before["descriptors"],
        "thread_growth": after["threads"] - before["threads"],
        "planner_rss_mb": round(max((mib([each]) for each in idle), default=0.0), 1),
        "planner_pss_mb": round(max((pss_mib([each]) for each in idle), default=0.0), 1),
        "failed_visits": failed,
    }


def _held(process: psutil.Process) -> dict[str, float]:
    return {"mib": mib([process]), "descriptors": process.num_fds(), "threads": process.num_threads()}


async def boundary(_team: ServedTeam, options: argparse.Namespace) -> dict[str, Any]:
    """A board here against one in a room's process."""
    return await asyncio.to_thread(team_boundary.measure, options.drops)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """The figures of all phases."""
    found: dict[str, Any] = {"load_average": [round(each, 1) for each in os.getloadavg()]}
    with served_team(options.people, options.rooms) as team:
        for name in options.only:
            begun = time.monotonic()
            part = asyncio.run(globals()[name](team, options))
            found |= part
            print(f"{name} ({time.monotonic() - begun:.0f} s): {json.dumps(part)}", flush=True)
        problems = team.problems()
    return found | {"load_average_after": [round(each, 1) for each in os.getloadavg()], "problems": len(problems), "log": problems[:5]}


def scaled_text(options: argparse.Namespace) -> str:
    """What is less than in the full measurement."""
    return ", ".join(f"{name} {getattr(options, name)} of {full}" for name, full in FULL.items() if getattr(options, name) != full)


def print_results(found: Mapping[str, Any]) -> None:
    for name, goal in GOALS.items():
        if name in found:
            print(f"{name:20}{found[name]:>10}   goal {goal:g}{'' if found[name] <= goal else '   missed'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer people, shorter; under 3 minutes")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    parser.add_argument("--only", nargs="*", choices=PHASES, default=PHASES, help="these phases alone")
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.name} among the results")
    for name, full in FULL.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, help=f"{full}, or {QUICK[name]} if quick")
    options = parser.parse_args()
    for name, usual in (QUICK if options.quick else FULL).items():
        if getattr(options, name) is None:
            setattr(options, name, usual)
    found = {"scaled": scaled_text(options), **measure(options)}
    print(f"scaled: {found['scaled'] or 'nothing'}; load average {found['load_average'][0]} before, {found['load_average_after'][0]} after")
    print_results(found)
    if options.save:
        RESULTS.write_text(json.dumps({"device": f"{os.cpu_count()} cores", **found}, indent=1) + "\n", encoding="utf-8")
    if options.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
