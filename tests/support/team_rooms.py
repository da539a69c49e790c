"""A team with rooms in a store, and pages that remember what they were shown. It imports no JAX: a server's front does not, either."""

import json
import os
import random
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session as DatabaseSession

from tests.support.team_server import add_person, new_store
from workbench.app.page.part_changes import with_change
from workbench.team.access import Principal, ProjectRole
from workbench.team.accounts.user_accounts import add_project, set_role
from workbench.team.rooms.room_hub import RoomHub
from workbench.team.rooms.room_records import principal_of_user
from workbench.team.store.database_errors import converting_database_errors
from workbench.team.store.store import Store, digest_of, new_id, now
from workbench.team.store.tables import Base, LogEntry, Member, StoredPlan, StoredRoom

PATIENCE = 150.0
"""Seconds, on a machine that does much else."""
PEOPLE = {"ada": ProjectRole.OWNER, "rosa": ProjectRole.RUNNER, "bob": ProjectRole.EDITOR, "vic": ProjectRole.VIEWER}


class FakeScreen:
    """A `RoomScreen` that remembers what it was shown: `layouts` in the order in which they came, `notices`, `failures`, `busy`; `shown`
    is called after each, on the thread that showed it."""

    def __init__(self, view: str = "page") -> None:
        self.hear: Callable[[dict[str, Any]], None] = lambda _message: None
        self.view, self.watched = view, True
        self.board: dict[str, Any] = {}
        self.bridge: dict[str, Any] = {}
        self.room: dict[str, Any] = {}
        self.layouts: list[str] = []
        self.notices: list[dict[str, Any]] = []
        self.failures: list[str] = []
        self.busy: list[float] = []
        self.boards, self.missed, self.answered = 0, 0, 0
        self.shown: Callable[[FakeScreen], None] = lambda _screen: None
        self._seq = 0
        self._news = threading.Condition()

    def show(self, target: str, parameters: Mapping[str, Any]) -> None:
        with self._news:
            if target == "board":
                self._show_board(dict(parameters))
            else:
                self.bridge.update(parameters)
                self.notices += [each for each in (parameters.get("notice"),) if each]
                self.failures += [each["text"] for each in (parameters.get("failure"),) if each]
            self._news.notify_all()
        self.shown(self)

    def show_room(self, room: Mapping[str, Any]) -> None:
        with self._news:
            self.room = json.loads(json.dumps(room))
            self._news.notify_all()

    def show_busy(self, seconds: float) -> None:
        with self._news:
            self.busy.append(seconds)
            self._news.notify_all()

    def is_watched(self) -> bool:
        return self.watched

    def until(self, is_so: Callable[["FakeScreen"], Any]) -> Any:
        """Wait until it is so; what it gives."""
        with self._news:
            found = self._news.wait_for(lambda: is_so(self), PATIENCE)
            state = (self.layouts[-3:], self.notices, self.failures, self.room.get("people"), self.answered, self._seq)
            assert found, state
            return found

    def send(self, verb: str, **fields: Any) -> int:
        """A gesture of this page; its number."""
        with self._news:
            self._seq += 1
            seq, saw = self._seq, self.board.get("board", {}).get("revision")
        self.hear({"gesture": {"verb": verb, "view": self.view, "seq": seq, "saw": saw, **fields}})
        return seq

    def do(self, verb: str, **fields: Any) -> dict[str, Any]:
        """A gesture that is answered: the board's state after it."""
        seq = self.send(verb, **fields)
        self.until(lambda screen: screen.answered >= seq)
        return self.board["board"]

    def attempt(self, verb: str, **fields: Any) -> bool:
        """A gesture that may be lost with the room's process; whether it was answered."""
        boards, seq = self.boards, self.send(verb, **fields)
        self.until(lambda screen: screen.answered >= seq or screen.boards > boards or screen.failures)
        return self.answered >= seq

    def place(self, dim: str, axis: str, source: str = "", **fields: Any) -> dict[str, Any]:
        """A drop of a dimension from an axis, none for an empty one, on an axis."""
        return self.do("drop", dim=dim, source=source, target=axis, add=False, **fields)

    def ask(self, kind: str, **fields: Any) -> None:
        """A request of the bar."""
        self.hear({"heard": {"kind": kind, **fields}})

    @property
    def layout(self) -> str:
        return self.layouts[-1] if self.layouts else ""

    @property
    def refusal(self) -> str:
        found = self.board["board"]["refusal"]
        return found["message"] if found else ""

    def person(self, display: str) -> dict[str, Any]:
        """Somebody as the bar shows them; nothing for somebody who is not there."""
        return next((each for each in self.room.get("people", []) if each["display"] == display), {})

    def _show_board(self, parameters: dict[str, Any]) -> None:
        if parameters.get("closed"):
            self.board = {}
            return
        self.boards += bool(parameters.get("new"))
        parts = {name: json.loads(part) if isinstance(part, str) else part for name, part in parameters.items() if part != ""}
        if change := parts.pop("changes", None):
            if self.board.get(change["part"], {}).get("edition") == change["of"]:
                parts[change["part"]] = with_change(self.board[change["part"]], change["by"])
            else:
                self.missed += 1
        self.board.update(parts)
        if board := self.board.get("board"):
            if board["answer"]["view"] == self.view:
                self.answered = max(self.answered, board["answer"]["seq"])
            if not self.layouts or self.layouts[-1] != board["layout"]:
                self.layouts.append(board["layout"])


def _full_disk() -> sqlite3.OperationalError:
    """What SQLite says then."""
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    return error


class FailingStore(Store):
    """A store that does not take anything while it is `full`."""

    full = False
    refused = 0

    @contextmanager
    def write(self) -> Iterator[DatabaseSession]:
        if self.full:
            self.refused += 1
            with converting_database_errors():
                raise OperationalError("INSERT", {}, _full_disk())
        with super().write() as session:
            yield session


@cache
def _team_of_rooms() -> tuple[dict[str, str], str, bytes]:
    """The people and the project of a team, and the file of its store, which each test has a copy of."""
    with TemporaryDirectory() as folder:
        team = RoomTeam(new_store(Path(folder)))._with_people()
        team.store.close()
        return team.people, team.project_id, Path(folder, "team.db").read_bytes()


@dataclass
class RoomTeam:
    """A project with people of each role in it, and a stranger, `zoe`; `people` are ids by name."""

    store: Store
    people: dict[str, str] = field(default_factory=dict)
    project_id: str = ""

    @classmethod
    def begin(cls, folder: Path, store: Store | None = None, kind: type[Store] = Store) -> "RoomTeam":
        if store is None:
            people, project_id, content = _team_of_rooms()
            return cls(new_store(folder, content, kind), dict(people), project_id)
        Base.metadata.create_all(store.engine)
        return cls(store)._with_people()

    def _with_people(self) -> "RoomTeam":
        for name in (*PEOPLE, "zoe"):
            self.people[name] = add_person(self.store, name)
        with self.store.write() as session:
            self.project_id = add_project(session, "vision", "Vision", owner=self.people["ada"]).id
            for name, role in PEOPLE.items():
                set_role(session, self.project_id, self.people[name], role)
        return self

    def new_room(self, document: str, name: str = "Tuesday") -> str:
        """A room about a plan document; its id."""
        digest, room_id = digest_of(document), new_id()
        with self.store.write() as session:
            if session.get(StoredPlan, digest) is None:
                about = {"target": "two_layer", "mesh": "data:4 model:2", "devices": 8, "hardware": "", "layout": "", "dims": []}
                session.add(StoredPlan(digest=digest, document=document, created=now(), **about))
                session.flush()
            of = {"project_id": self.project_id, "program_id": None, "first": digest, "by": self.people["ada"]}
            session.add(StoredRoom(id=room_id, name=name, created=now(), touched=now(), closed=None, **of))
        return room_id

    def principal(self, name: str) -> Principal:
        return principal_of_user(self.store, self.people[name])

    def set_role(self, name: str, role: ProjectRole | None) -> None:
        """A person's role in the project; none takes them out of it."""
        with self.store.write() as session:
            if role is None:
                session.delete(session.get_one(Member, (self.project_id, self.people[name])))
            else:
                set_role(session, self.project_id, self.people[name], role)

    def log_of(self, room_id: str) -> list[LogEntry]:
        """What is stored of a room, oldest first."""
        with self.store.read() as session:
            return list(session.scalars(select(LogEntry).where(LogEntry.room_id == room_id).order_by(LogEntry.seq)))

    def count_of(self, room_id: str) -> int:
        """How many entries its log has."""
        with self.store.read() as session:
            return session.scalar(select(func.count()).where(LogEntry.room_id == room_id)) or 0


@dataclass
class VisitedRoom:
    """A room that is open, and its pages by name."""

    team: RoomTeam
    hub: RoomHub
    room_id: str
    screens: dict[str, FakeScreen] = field(default_factory=dict)
    pages: dict[str, Callable[[], None]] = field(default_factory=dict)

    def enter(self, name: str, key: str = "") -> FakeScreen:
        """Somebody opens the page, and has the board before them; `key` tells several pages of one person apart."""
        screen = self.enter_at_once(name, key)
        screen.until(lambda screen: "live" in screen.board or screen.failures)
        return screen

    def enter_at_once(self, name: str, key: str = "") -> FakeScreen:
        screen = FakeScreen(key or name)
        self.pages[key or name] = self.hub.enter(self.room_id, self.team.principal(name), screen)
        self.screens[key or name] = screen
        return screen

    def leave(self, name: str) -> None:
        self.pages.pop(name)()

    @property
    def open_room(self) -> Any:
        return self.hub._rooms[self.room_id]

    @property
    def pid(self) -> int:
        """The room's process, as soon as there is one."""
        return within(self._find_pid)

    def _find_pid(self) -> int:
        connection = self.open_room._connection
        return (connection and connection.pid) or 0

    def kill(self, number: int = signal.SIGKILL) -> int:
        """Send the room's process a signal; its number."""
        pid = self.pid
        send_signal(pid, number)
        return pid


@dataclass
class Hand:
    """Somebody who edits without a pause: puts `dim` on `axis` and takes it away, or takes that back. Each gesture is one entry of the
    log, if it is made: `acknowledged` were answered, `lost` may have been made."""

    screen: FakeScreen
    dim: str
    axis: str
    random: random.Random
    acknowledged: int = 0
    lost: int = 0

    def move(self) -> bool:
        """One gesture; whether it was answered."""
        board = self.screen.board["board"]
        verb = self.random.choice([each for each in ("undo", "redo") if board[each]] + ["drop"])
        placed = f"{self.dim}:{self.axis}" in board["layout"]
        drop = {"dim": self.dim, "source": self.axis if placed else "", "target": "" if placed else self.axis, "add": False}
        done = self.screen.attempt(verb, **(drop if verb == "drop" else {}))
        assert not done or not self.screen.refusal, self.screen.refusal
        self.acknowledged, self.lost = self.acknowledged + done, self.lost + (not done)
        return done


def within(is_so: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """Wait until it is so, for what tells nobody; what it gives."""
    deadline = time.monotonic() + seconds
    while not (found := is_so()):
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.02)
    return found


def send_signal(pid: int | None, number: int) -> None:
    """Send one process a signal: 0 would be all of the tests."""
    assert pid is not None
    assert pid > 1
    os.kill(pid, number)


def is_there(pid: int) -> bool:
    """Whether there is such a process, which has not ended: of one whose parent was killed the number may stay for a while."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in ("Z", "X")
