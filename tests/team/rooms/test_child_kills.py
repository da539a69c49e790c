"""kill -9 of everything that a team's server has for long, one at a time and in pairs, while people edit: all of it comes back by itself,
health says that it was gone, and nothing that was acknowledged is lost."""

import asyncio
import random
import signal
import threading
import time
from contextlib import suppress
from itertools import combinations
from pathlib import Path

import psutil
import pytest

from tests.support.choosing import parametrize_drawn
from tests.support.room_sessions import first_plan
from tests.support.team_rooms import Hand, RoomTeam, VisitedRoom, is_there, send_signal, within
from tests.team.rooms.test_kills import count_by, running_front, verify_log
from workbench.app.processes.child_table import (
    ALL_CHILDREN,
    BROKER,
    DESCRIBERS,
    FORK_SERVER,
    JOB_LANES,
    PARTITIONER,
    ROOMS,
    health_report,
)
from workbench.documents import dump_plan
from workbench.errors import WorkbenchError
from workbench.team.rooms import room_supervisor
from workbench.team.serve_team import TeamServer
from workbench.team.team_config import TeamConfig

pytestmark = [pytest.mark.compile, pytest.mark.worker, pytest.mark.cold]

BACK = 10.0
"""Seconds in which everybody has a board again."""
BUSY = 3
"""How many times slower a machine may be that does much else."""
GONE = 20.0
"""Seconds until nothing is left of a server that was killed: one, where nothing else runs (`benchmarks/team_kills.py`)."""
HANDS = (("ada", "hidden", "model"), ("bob", "batch", "data"))


class KilledServer:
    """A server with its processes, without its pages, and a room in which two people edit."""

    def __init__(self, folder) -> None:
        self.server = TeamServer(TeamConfig(data=folder))
        self.server.dispatcher.start()
        self.planners, self.hub = self.server.services.planner, self.server.hub
        self.team = RoomTeam.begin(folder, self.server.services.store)
        self.document = dump_plan(first_plan())
        within(self.planners.is_ready)
        within(lambda: self.planners._broker.state().missing_seconds == 0)
        self.room = VisitedRoom(self.team, self.hub, self.team.new_room(self.document))
        self.hands = [Hand(self.room.enter(name), dim, axis, random.Random(dim)) for name, dim, axis in HANDS]
        self.asked = 0
        self.kills = {
            FORK_SERVER: lambda: send_signal(self.planners._forking.pid, signal.SIGKILL),
            BROKER: lambda: send_signal(self.planners._broker.pid, signal.SIGKILL),
            ROOMS: self.room.kill,
            PARTITIONER: self.kill_partitioner,
            DESCRIBERS: self.kill_describer,
            JOB_LANES: self.end_turn,
        }

    def close(self) -> None:
        self.server.close()

    def report(self):
        return health_report(self.server.services.children())[0]

    def deaths(self, child) -> int:
        return self.report()["deaths"].get(child.name, 0)

    def kill_partitioner(self) -> None:
        """The warm process below the broker, which somebody asks what the disk does not know."""
        self.asked += 1
        asked = self.document.replace('"batch": 16', f'"batch": {16 * (1 + self.asked)}')
        threading.Thread(target=self.try_to_describe, args=(asked,), daemon=True).start()
        send_signal(within(self.find_partitioner), signal.SIGKILL)

    def find_partitioner(self) -> int:
        tasks = Path(f"/proc/{self.planners._broker.pid or 0}/task")
        found = [each for task in tasks.glob("*/children") for each in task.read_text().split()]
        return int(found[0]) if found else 0

    def kill_describer(self) -> None:
        within(self.try_to_describe)
        send_signal(self.planners._describers._idle[-1].pid, signal.SIGKILL)

    def end_turn(self) -> None:
        """A thread cannot be killed; what a turn may raise at the worst is this."""
        [lane] = self.server.dispatcher.lanes.values()
        turn, happened = lane.turn, threading.Event()

        def end() -> None:
            lane.turn = turn
            happened.set()
            raise SystemExit

        lane.turn = end
        lane.wake()
        happened.wait(BACK)

    def try_to_describe(self, document: str = "") -> str:
        """The target of a document; empty if the process that reads it has just been killed, which the table of children allows."""
        with suppress(WorkbenchError):
            return self.describe(document)
        return ""

    def describe(self, document: str = "") -> str:
        return asyncio.run(self.planners.describe_document(document or self.document, None)).target


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("WORKBENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        patched.setattr(room_supervisor, "MOST_DEATHS", 10**9)
        server = KilledServer(tmp_path_factory.mktemp("killed"))
        yield server
        server.close()


KILLED = (FORK_SERVER, BROKER, ROOMS, PARTITIONER, DESCRIBERS, JOB_LANES)
CASES = [*((each,) for each in KILLED), *combinations(KILLED, 2)]


def pytest_generate_tests(metafunc):
    """Each is among the few that a run draws; the nights have each alone, and all pairs."""
    names = lambda case: [each.name for each in case]  # noqa: E731
    parametrize_drawn(metafunc, "victims", CASES, names, ids=lambda case: "+".join(names(case)), share=7)


def test_the_table_names_everything_that_is_killed_here():
    elsewhere = {"boards", "libtpu worker", "workers"}  # tests/app/test_processes.py, tests/engine
    assert {each.name for each in KILLED} | elsewhere == {each.name for each in ALL_CHILDREN}


def test_what_is_killed_comes_back_by_itself_and_nothing_acknowledged_is_lost(killed, victims):
    over, before = threading.Event(), {each: killed.deaths(each) for each in victims}
    threads = [threading.Thread(target=work, args=(each, over), daemon=True) for each in killed.hands]
    for each in threads:
        each.start()
    try:
        for each in victims:
            killed.kills[each]()
        begun = time.monotonic()
        for each in set(victims) - ({PARTITIONER} if BROKER in victims else set()):  # which tells of it
            within(lambda each=each: killed.deaths(each) > before[each], BACK * BUSY)
        verify_back(killed)
        assert time.monotonic() - begun < BACK * BUSY
    finally:
        over.set()
        for each in threads:
            each.join()
    stored = count_by(killed.team, killed.room.room_id)
    for (name, *_), hand in zip(HANDS, killed.hands, strict=True):
        assert hand.acknowledged <= stored[name] <= hand.acknowledged + hand.lost, name
    verify_log(killed.team, killed.room.room_id)


def test_what_a_killed_server_has_started_is_gone_a_moment_later(killed, monkeypatch, tmp_path):
    """Its processes, what those have forked, and the partitioner, which is two further below, and is asked what no disk knows."""
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path))
    with running_front(killed.team, killed.team.new_room(killed.document, "front"), 1, None) as front:
        server = psutil.Process(front.process.pid)
        modules = ("fork_server", "partition_broker", "partitioner_process")
        within(lambda: all(any(module in line for line in command_lines(server)) for module in modules))
        below = server.children(recursive=True)
        front.kill()
    assert len(below) >= 4
    within(lambda: not any(is_there(each.pid) for each in below), GONE)


def command_lines(server):
    lines = []
    for each in server.children(recursive=True):
        with suppress(psutil.Error):
            lines.append(" ".join(each.cmdline()))
    return lines


def work(hand, over):
    """A light load."""
    while not over.wait(0.2):
        hand.move()


def verify_back(killed):
    """Whoever edits is answered, whoever opens another room has a board, and health says that all is well."""
    done = [hand.acknowledged for hand in killed.hands]
    other = VisitedRoom(killed.team, killed.hub, killed.team.new_room(killed.document, "other"))
    other.enter("vic")
    other.leave("vic")
    within(lambda: killed.try_to_describe() == "two_layer")
    within(lambda: all(hand.acknowledged > before for hand, before in zip(killed.hands, done, strict=True)))
    within(lambda: not killed.report()["degraded"])
