"""The front of a team's server as a process, for tests that kill it: `python -m tests.support.team_front FOLDER ROOM SEED FORKING`.

In it two people edit one room without a pause. It writes a line to standard output for each gesture that was answered: `ada`, or `bob`;
first of all, when both have the board before them, `open`, the number of entries that the log has, the numbers of its processes, and the
layout, as JSON. FORKING is the descriptor of a fork server that outlives it, or `-` for one of its own. It imports no JAX.
"""

import json
import os
import random
import socket
import sys
import threading
from multiprocessing.connection import Connection
from pathlib import Path

from tests.support.team_rooms import Hand, RoomTeam, VisitedRoom
from workbench.app.processes.child_table import ChildState
from workbench.app.processes.healing_child import ForkServer
from workbench.core.memory_limits import OomKills
from workbench.team.rooms.planners import DocumentDescribers, Planners
from workbench.team.rooms.room_hub import RoomHub
from workbench.team.store.store import Store
from workbench.team.store.tables import Project, User


class InheritedForkServer:
    """A fork server that somebody else has started, who hears how its processes end, and that has said that it is ready."""

    def __init__(self, descriptor: int) -> None:
        self._control, self._sending = socket.socket(fileno=descriptor), threading.Lock()

    def connect(self, *descriptors: int) -> Connection:
        ours, theirs = socket.socketpair()
        with theirs, self._sending:
            socket.send_fds(self._control, [b"f"], [theirs.fileno(), *descriptors])
        return Connection(ours.detach())

    def is_ready(self) -> bool:
        return True

    def state(self) -> ChildState:
        return ChildState(0, 0.0)

    def status_of(self, _pid: int) -> None:
        """Nobody tells."""

    def close(self) -> None:
        self._control.close()


class NoBroker:
    """Nobody asks the partitioner: figures stay planned, and no further process imports JAX."""

    def attach(self, room: socket.socket) -> None:
        room.close()

    def state(self) -> ChildState:
        return ChildState(0, 0.0)

    worker_state = state

    def close(self) -> None:
        """There is nothing to end."""


class PlannersAlone(Planners):
    """Without a partitioner's process."""

    def __init__(self, forking: ForkServer | InheritedForkServer) -> None:
        self._forking, self._broker, self._programs, self._cluster = forking, NoBroker(), None, ""
        self._oom_kills = OomKills()
        self._describers = DocumentDescribers(self.connect)


def main(folder: str, room_id: str, seed: str, forking: str) -> None:
    """Edit until killed."""
    store = Store.open(f"sqlite:///{Path(folder)}/team.db")
    with store.read() as session:
        people = {each.name: each.id for each in session.query(User)}
        team = RoomTeam(store, people, session.query(Project).filter_by(slug="vision").one().id)
    planners = Planners() if forking == "-" else PlannersAlone(InheritedForkServer(int(forking)))
    room = VisitedRoom(team, RoomHub(store, planners, "http://localhost:5007"), room_id)
    drawn = random.Random(seed)
    hands = [
        Hand(room.enter(name), dim, axis, random.Random(drawn.random()))
        for name, dim, axis in (("ada", "hidden", "model"), ("bob", "batch", "data"))
    ]
    own = [planners._forking.pid, planners._broker.pid] if forking == "-" else []
    about = {"entries": team.count_of(room_id), "pids": [room.pid, *own], "layout": hands[0].screen.layout, "jax": "jax" in sys.modules}
    write(f"open {json.dumps(about)}")
    threads = [threading.Thread(target=work, args=(name, hand)) for name, hand in zip(("ada", "bob"), hands, strict=True)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


def work(name: str, hand: Hand) -> None:
    """One person's hand."""
    while True:
        write(name if hand.move() else f"{name} lost")


def write(line: str) -> None:
    """At once, and whole."""
    os.write(1, f"{line}\n".encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
