"""kill -9 in mid-edit, of a room's process and of the whole front: what was acknowledged is in the log, and in the room afterwards (T5)."""

import json
import random
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress

import pytest

from tests.support.room_sessions import first_plan
from tests.support.team_rooms import PATIENCE, Hand, is_there, send_signal, within
from workbench.team.planning.room_edit_log import RoomLogRecord, replay
from workbench.team.rooms import room_supervisor

pytestmark = [pytest.mark.compile, pytest.mark.worker]

MANY = 200
FEW = 4
HANDS = (("ada", "hidden", "model"), ("bob", "batch", "data"))


def nightly(count, few):
    """A few kills in every run; many at night."""
    return [pytest.param(few, id=f"{few} kills"), pytest.param(count, id=f"{count} kills", marks=pytest.mark.nightly)]


def count_by(team, room_id):
    """Entries of the log by the author's name."""
    names = {user_id: name for name, user_id in team.people.items()}
    authors = [names[each.author_id] for each in team.log_of(room_id)]
    return {name: authors.count(name) for name, *_ in HANDS}


def verify_log(team, room_id):
    """It has no gap, and replays; the layout that it gives."""
    log = team.log_of(room_id)
    assert [each.seq for each in log] == list(range(1, len(log) + 1))
    history = replay(first_plan(), [RoomLogRecord(each.kind, each.author_id, each.body) for each in log])
    return str(history.nodes[history.head].plan.layout) or "everything replicated"


@pytest.mark.parametrize("kills", nightly(MANY, FEW))
def test_a_planner_that_is_killed_in_mid_edit_loses_nothing_that_was_acknowledged(room, kills, monkeypatch, request):
    monkeypatch.setattr(room_supervisor, "MOST_DEATHS", 10**9)
    drawn = random.Random(f"{request.config.getoption('--hypothesis-seed')}")
    hands = [Hand(room.enter(name), dim, axis, random.Random(drawn.random())) for name, dim, axis in HANDS]
    over = threading.Event()
    threads = [threading.Thread(target=lambda hand=hand: work(hand, over), daemon=True) for hand in hands]
    for each in threads:
        each.start()
    try:
        for kill in range(kills):
            goal = sum(hand.acknowledged for hand in hands) + drawn.randrange(1, 5)
            within(lambda goal=goal: sum(hand.acknowledged for hand in hands) >= goal)
            over.wait(drawn.random() * 0.03)  # not always right after an answer
            room.kill()
            for hand in hands:
                hand.screen.until(lambda screen, kill=kill: screen.boards >= kill + 2)
    finally:
        over.set()
        for each in threads:
            each.join(PATIENCE)
    assert not any(hand.screen.failures for hand in hands)
    stored = count_by(room.team, room.room_id)
    for (name, *_), hand in zip(HANDS, hands, strict=True):
        assert hand.acknowledged <= stored[name] <= hand.acknowledged + hand.lost, name
        assert hand.lost <= kills
        assert hand.acknowledged >= kills // 4
    layout = verify_log(room.team, room.room_id)
    for hand in hands:
        hand.screen.until(lambda screen: screen.layout == layout)
        assert all("Everything before it is here." in each["text"] for each in hand.screen.notices if "started again" in each["title"])


def work(hand, over):
    while not over.is_set():
        hand.move()


@pytest.fixture
def forking(planners):
    """The socket of the fork server of these tests, which outlives the fronts: starting JAX again is not what is tested."""
    within(planners.is_ready)
    return planners._forking._control


class Front:
    """A front as a process, and what it has acknowledged."""

    def __init__(self, team, room_id, seed, forking=None):
        folder = str(team.store.engine.url.database).rpartition("/")[0]
        given = [] if forking is None else [forking.fileno()]
        command = [sys.executable, "-m", "tests.support.team_front", folder, room_id, str(seed), str(*given) or "-"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, pass_fds=given)
        self.acknowledged = {name: 0 for name, *_ in HANDS}
        self.lost = {name: 0 for name, *_ in HANDS}
        self.begun = {}
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            if line.startswith("open "):
                self.begun = json.loads(line.removeprefix("open "))
            elif line.endswith(" lost\n"):
                self.lost[line.split()[0]] += 1
            elif line.endswith("\n"):
                self.acknowledged[line.strip()] += 1

    def wait_until_open(self):
        within(lambda: self.begun or self.process.poll() is not None)
        assert self.begun, "it ended"
        assert not self.begun["jax"]

    def kill(self):
        """As a machine that loses its power; all that it had said is read."""
        self.process.kill()
        self.process.wait()
        self.reader.join(PATIENCE)
        self.process.stdout.close()


@contextmanager
def running_front(*arguments):
    front = Front(*arguments)
    try:
        front.wait_until_open()
        yield front
    finally:
        if front.process.poll() is None:
            front.kill()


def verify_kills_of_the_front(team, room_id, drawn, kills, forking):
    """Start, let it work, kill it in mid-edit; the next one begins where it ended. Some of the room's processes are killed as well."""
    expected, possible = dict.fromkeys(("ada", "bob"), 0), dict.fromkeys(("ada", "bob"), 0)
    layout, entries = "batch:data", 0
    for _ in range(kills):
        with running_front(team, room_id, drawn.random(), forking) as front:
            assert front.begun["entries"] == entries
            assert front.begun["layout"] == layout, "the room is as it was"
            goal = drawn.randrange(1, 8)
            within(lambda front=front, goal=goal: sum(front.acknowledged.values()) >= goal)
            if drawn.random() < 0.3:
                with suppress(ProcessLookupError):
                    send_signal(front.begun["pids"][0], signal.SIGKILL)
            threading.Event().wait(drawn.random() * 0.05)
            front.kill()
        for pid in front.begun["pids"]:
            within(lambda pid=pid: not is_there(pid))
        stored = count_by(team, room_id)
        for name in expected:
            expected[name] += front.acknowledged[name]
            possible[name] += front.acknowledged[name] + front.lost[name] + 1
            assert expected[name] <= stored[name] <= possible[name], name
            expected[name] = possible[name] = stored[name]
        layout, entries = verify_log(team, room_id), sum(stored.values())
    return entries


@pytest.mark.parametrize("kills", nightly(MANY, 2))
def test_a_front_that_is_killed_in_mid_edit_loses_nothing_that_was_acknowledged(room, forking, kills, request):
    drawn = random.Random(f"{request.config.getoption('--hypothesis-seed')}")
    assert verify_kills_of_the_front(room.team, room.room_id, drawn, kills, forking) >= kills


@pytest.mark.nightly
@pytest.mark.cold
def test_a_front_that_is_killed_with_all_that_it_began_comes_back(room, request):
    drawn = random.Random(f"{request.config.getoption('--hypothesis-seed')}")
    assert verify_kills_of_the_front(room.team, room.room_id, drawn, 2, None) >= 2
