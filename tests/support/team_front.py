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
from contextlib import suppress
from pathlib import Path

from tests.support.team_rooms import Hand, RoomTeam, VisitedRoom
from workbench.app.processes.fork_server_client import ForkServer
from workbench.team.rooms.document_describers import DocumentDescribers
from workbench.team.rooms.planners import Planners
from workbench.team.rooms.room_hub import RoomHub
from workbench.team.store.store import Store
from workbench.team.store.tables import Project, User


class InheritedForkServer(ForkServer):
    """A fork server that somebody else has started, and that has said that it is ready."""

    def __init__(self, descriptor: int) -> None:
        self._control = socket.socket(fileno=descriptor)
        self._sending, self._news = threading.Lock(), threading.Condition()
        self._is_ready, self._is_gone = True, False
        self._statuses: dict[int, int] = {}
        threading.Thread(target=self._listen_as_heir, daemon=True).start()

    def _listen_as_heir(self) -> None:
        with suppress(ValueError):  # of a line that the one before had begun to read
            self._listen()


class NoBroker:
    """Nobody asks the partitioner: figures stay planned, and no further process imports JAX."""

    def attach(self, connection: socket.socket) -> None:
        connection.close()

    def close(self) -> None:
        """There is nothing to end."""


class PlannersAlone(Planners):
    """Without a partitioner's process."""

    def __init__(self, forking: ForkServer) -> None:
        self._forking, self._broker, self._programs, self._cluster = forking, NoBroker(), None, ""
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
    own = [planners._forking._process.pid, planners._broker._process.pid] if forking == "-" else []
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
