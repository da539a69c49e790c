"""What the boundary of a process adds to a drop: the same gestures to a board here, and to one in a room's process over its connection.

Both make the same texts for a page. They take turns, so that a busy machine is busy for both.
"""

import json
import re
import statistics
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from workbench.app.page.part_changes import VisitorWindow
from workbench.app.page.visit import Visit, VisitContext
from workbench.app.runners.job_queue import JobQueue
from workbench.documents import dump_plan
from workbench.models import build
from workbench.public_plan import Plan
from workbench.team.access import ProjectRole
from workbench.team.rooms.planners import Planners
from workbench.team.rooms.room_connection import RoomConnection
from workbench.widgets.board.board_host import Host
from workbench.widgets.shared_states import at_once

DROPS = (("", "model"), ("model", ""))
PATIENCE = 60.0
PAUSE = 0.6  # seconds between two drops: the partitioner's answer to the one before has come by then


class AnsweredPage:
    """What a page is sent. `answered(seq)` is when the board's answer to a gesture came; it waits for it, and for the tables after it."""

    def __init__(self) -> None:
        self._news = threading.Condition()
        self._texts: list[tuple[float, str]] = []

    def take(self, target: str, parameters: Mapping[str, Any]) -> None:
        """The page is sent something."""
        now = time.perf_counter()
        if target == "board":
            with self._news:
                self._texts.extend((now, text) for text in parameters.values() if isinstance(text, str))
                self._news.notify_all()

    def answered(self, seq: int) -> float:
        mark, found = re.compile(rf'"answer":\[?\{{[^}}]*"seq":\[?{seq}\b'), []

        def has_come() -> bool:
            texts, self._texts = self._texts, []
            found.extend(at for at, text in texts if mark.search(text))
            return bool(found)

        with self._news:
            if not self._news.wait_for(has_come, PATIENCE):
                raise SystemExit("The board did not answer.")
        return found[0]


class PageOfRoom(AnsweredPage):
    """One page of a room whose server stores nothing: what is measured is the boundary."""

    def show(self, message: Mapping[str, Any]) -> None:
        self.take(message["show"], message["parameters"])

    def ignore(self, message: object) -> None: ...

    def ended(self, _connection: RoomConnection) -> None:
        raise SystemExit("The room's process ended.")


@contextmanager
def room_of(document: str) -> Iterator[tuple[RoomConnection, PageOfRoom]]:
    """A room's process with one visitor in it."""
    planners = Planners()
    try:
        page = PageOfRoom()
        connection = RoomConnection(planners.connect(None), JobQueue(), page.ignore, {"show": page.show, "view": page.ignore}, page.ended)
        connection.send({"room": {"document": document, "name": "Room", "log": [], "allow": [], "time_limit": 60.0}})
        if problem := connection.opened.result(PATIENCE):
            raise SystemExit(problem["message"])
        person = {"user_id": "ada", "display": "Ada", "role": int(ProjectRole.EDITOR)}
        connection.send({"enter": person, "visitor": 1})
        yield connection, page
        connection.close()
    finally:
        planners.close()


def measure(drops: int) -> dict[str, float]:
    """Milliseconds of a drop here, in the room's process, and what that adds, at the median; the added ones are of neighbouring drops."""
    plan = Plan(build("gpt", preset="gpt2-small"), "data:4 model:2", "batch:data")
    here_page = AnsweredPage()
    visit = Visit(VisitContext(VisitorWindow(here_page.take), None, at_once))
    visit.show(lambda: plan, Host())
    here, there = [], []
    with room_of(dump_plan(plan)) as (connection, page):
        time.sleep(2.0)  # the first board comes, and settles
        for seq in range(1, drops + 4):
            source, target = DROPS[seq % 2 == 0]
            gesture = {"verb": "drop", "dim": "d_ff", "source": source, "target": target, "add": False, "view": "bench", "seq": seq}
            begun = time.perf_counter()
            visit.hear({"gesture": gesture})
            here.append(here_page.answered(seq) - begun)
            begun = time.perf_counter()
            connection.send({"gesture": gesture, "visitor": 1})
            there.append(page.answered(seq) - begun)
            time.sleep(PAUSE)
    visit.close()
    here, there = here[3:], there[3:]  # the first warm up
    added = [1000 * (b - a) for a, b in zip(here, there, strict=True)]
    return {
        "drop_here_ms": round(1000 * statistics.median(here), 1),
        "drop_room_ms": round(1000 * statistics.median(there), 1),
        "drop_added_ms": round(statistics.median(added), 1),
    }


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 40)))
