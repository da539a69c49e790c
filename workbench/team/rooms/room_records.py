"""A room in the store: what its process is opened with, its log as it grows, its comments, and a plan that is sent into it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session as DatabaseSession

from workbench.errors import WorkbenchError
from workbench.team.access import NotSignedInError, Principal, ProjectRole
from workbench.team.actions.classes.class_records import deadline_text
from workbench.team.actions.classes.given_answers import tries_of
from workbench.team.actions.held_roles import role_in_project, role_in_room, takes_part, verify_active
from workbench.team.actions.quotas import verify_quotas
from workbench.team.store.store import Store, now
from workbench.team.store.tables import (
    Assignment,
    Comment,
    LogEntry,
    Project,
    RegisteredProgram,
    StoredPlan,
    StoredRoom,
    StudentWork,
    User,
)

MOVES = ("edit", "undo", "redo", "go", "push")
EVERYBODY = "*"
"""The author of a plan that was sent into a room: each of those who edit there takes it back as their own."""
LOG_KINDS = (*MOVES, "name", "pin")
"""What an entry of a room's log can be (`team.planning.room_edit_log`)."""
MOST_ENTRY = 1 << 20  # bytes
CHECKED_ENTRIES = 64
"""Whether an author has stored too much is checked at every 64th entry of a log: to count takes longer than to store an entry."""
MOST_CARD = 1 << 18  # bytes of what the wall shows of somebody's work


@dataclass(frozen=True, slots=True)
class RoomSource:
    """What a room is opened from: the document it began with, and its log, oldest first. `program` is the registered one that it is about,
    if that is not of the zoo. Where it is somebody's work on an `assignment`, `exercise` is that one's document, and `tries` says of each
    question that was tried how often, and whether with success; `until` is its `deadline` in words."""

    room_id: str
    project_id: str
    project: str
    name: str
    document: str
    log: tuple[Mapping[str, Any], ...]
    program: RegisteredProgram | None
    assignment: str = ""
    exercise: str = ""
    tries: Mapping[str, tuple[int, bool]] = field(default_factory=dict)
    deadline: float | None = None
    until: str = ""

    @property
    def head(self) -> int:
        """The number of the plan that is present at the end of the log."""
        return next((each["body"]["head"] for each in reversed(self.log) if "head" in each["body"]), 0)

    def message(self) -> dict[str, Any]:
        """As the room's process is opened with it."""
        tries = [[name, *tried] for name, tried in self.tries.items()]
        exercise = {"exercise": {"document": self.exercise, "tries": tries}} if self.exercise else {}
        return {"document": self.document, "name": self.name, "log": self.log, **exercise}


def read_room(store: Store, room_id: str, *, with_log: bool = True) -> RoomSource:
    """A room as the store has it, its log left out where that is not needed: it may be long. Raises `WorkbenchError` for one that is not
    there, was closed, or whose program may not run."""
    with store.read() as session:
        room = session.get(StoredRoom, room_id)
        if room is None or room.closed is not None:
            raise WorkbenchError("This room was closed.", ["open its plan from the gallery in a new room"])
        first, project = session.get(StoredPlan, room.first), session.get(Project, room.project_id)
        assert first is not None, "a foreign key"
        assert project is not None, "a foreign key"
        entries = session.scalars(select(LogEntry).where(LogEntry.room_id == room_id).order_by(LogEntry.seq)) if with_log else ()
        log = tuple({"kind": each.kind, "author": each.author_id, "body": each.body} for each in entries)
        program = session.get(RegisteredProgram, room.program_id) if room.program_id else None
        work = session.get(StudentWork, room_id)
        of_work = _of_work(session, work) if work else {}
    if program is not None and program.state != "approved":
        raise WorkbenchError(
            f"The program `{program.name}` of this room may not run: it is {program.state}.", ["ask an owner of the project to approve it"]
        )
    return RoomSource(room.id, room.project_id, project.slug, room.name, first.document, log, program, **of_work)


def _of_work(session: DatabaseSession, work: StudentWork) -> dict[str, Any]:
    """What a room is told of the assignment that it is for."""
    found = session.get_one(Assignment, work.assignment_id)
    about = {"assignment": found.id, "exercise": found.exercise, "deadline": found.deadline, "until": deadline_text(found)}
    return {**about, "tries": tries_of(session, work.room_id)}


def verify_entry(entry: Mapping[str, Any], editors: set[str]) -> None:
    """Raises `WorkbenchError` for an entry that the room's process should not have made: nobody's who may edit here, or a huge one."""
    size = len(json.dumps(entry["body"]))
    if entry["author"] not in editors or entry["kind"] not in LOG_KINDS or size > MOST_ENTRY:
        raise WorkbenchError(f"The room's process sent an invalid log entry of {size:,} bytes.", ["reload the page"])


def append_entry(store: Store, room_id: str, entry: Mapping[str, Any], digest: str) -> None:
    """Store an entry of a room's log. Raises SQLAlchemy's `IntegrityError` where another process has stored one of that number, and
    `ConflictError` for an author who has stored too much, at some entries."""
    with store.write() as session:
        if entry["seq"] % CHECKED_ENTRIES == 0:
            verify_quotas(session, "rooms.edit", entry["author"])
        session.add(
            LogEntry(room_id=room_id, seq=entry["seq"], author_id=entry["author"], kind=entry["kind"], body=entry["body"], digest=digest)
        )
        room = session.get(StoredRoom, room_id)
        if room is not None:
            room.touched = now()


def principal_of_user(store: Store, user_id: str) -> Principal:
    """The person of an id. Raises `NotSignedInError` for one who was disabled, or for none."""
    with store.read() as session:
        user = session.get(User, user_id)
    if user is None or not user.active:
        raise NotSignedInError
    return Principal(user.id, user.name, user.display, user.admin)


def participation_of(store: Store, principal: Principal, source: RoomSource) -> tuple[bool, ProjectRole | None]:
    """Whether somebody works on an assignment in a room, and their role in its project: `None` for a guest with a link."""
    with store.read() as session:
        user = verify_active(session, principal)
        is_participant = bool(source.exercise) and takes_part(session, user, session.get_one(StoredRoom, source.room_id))
        return is_participant, role_in_project(session, user, source.project_id)


def keep_card(store: Store, room_id: str, card: Mapping[str, Any], thumbnail: str) -> None:
    """Keep what the wall shows of somebody's work. Raises `WorkbenchError` for more than a card."""
    if len(json.dumps(card)) + len(thumbnail) > MOST_CARD:
        raise WorkbenchError("The room's process sent more than a card of the wall.")
    with store.write() as session:
        work = session.get(StudentWork, room_id)
        if work is not None:
            work.card, work.thumbnail, work.shown = dict(card), thumbnail, now()


def role_of(store: Store, principal: Principal, room_id: str) -> ProjectRole | None:
    """What somebody may do in a room; `None` for nothing at all. Raises `NotSignedInError` for somebody who was disabled."""
    with store.read() as session:
        room = session.get(StoredRoom, room_id)
        if room is None or room.closed is not None:
            return None
        held = role_in_room(session, verify_active(session, principal), room)
    return held if held is not None and held >= ProjectRole.VIEWER else None  # a student sees no work but their own


@dataclass(frozen=True, slots=True)
class PushedPlan:
    """`sender` sends it, `source` says what it is, for people; `card` and `thumbnail` are what the wall shows of it."""

    sender: Principal
    document: str
    digest: str
    source: str
    card: Mapping[str, Any] = field(default_factory=dict)
    thumbnail: str = ""

    def message(self) -> dict[str, Any]:
        """As a room's process takes it."""
        return {"push": {"document": self.document, "source": self.source, "user_id": self.sender.user_id, "display": self.sender.display}}


def append_push(store: Store, room_id: str, pushed: PushedPlan) -> None:
    """Write it into the log of a room that is not open. Raises `WorkbenchError` for a room that is not there any more."""
    source = read_room(store, room_id)
    number = 1 + sum(len(each["body"].get("added", ())) for each in source.log)
    edit = {"edit": "open_plan", "plan": json.loads(pushed.document), "source": pushed.source}
    body = {"added": [{"parent": source.head, "edit": edit, "author": EVERYBODY}], "head": number}
    entry = {"seq": len(source.log) + 1, "author": pushed.sender.user_id, "kind": "push", "body": body}
    append_entry(store, room_id, entry, pushed.digest)
    if len(json.dumps(pushed.card)) + len(pushed.thumbnail) <= MOST_CARD:
        keep_card(store, room_id, pushed.card, pushed.thumbnail)


def last_push(store: Store, source: RoomSource) -> tuple[str, str]:
    """Who sent the plan that came last into a room, and what it is; two empty texts where something else was done since."""
    if not source.log or source.log[-1]["kind"] != "push":
        return "", ""
    with store.read() as session:
        sender = session.scalar(select(User.display).where(User.id == source.log[-1]["author"]))
    return sender or "Somebody", str(source.log[-1]["body"]["added"][0]["edit"]["source"])


MOST_SHOWN = 100


@dataclass(frozen=True, slots=True)
class ShownComment:
    """A comment of `display` on the plan with the number `node`; `at` is seconds since 1970."""

    id: str
    node: int
    user_id: str
    display: str
    text: str
    at: float

    def as_state(self, reader: str) -> dict[str, Any]:
        """As the page of a reader shows it, who may take away their own."""
        shown = {"id": self.id, "node": self.node, "who": self.display, "text": self.text, "at": self.at}
        return {**shown, "mine": self.user_id == reader}


def read_comments(store: Store, room_id: str) -> tuple[ShownComment, ...]:
    """The newest comments of a room, newest first."""
    wanted = select(Comment, User.display).join(User, User.id == Comment.author_id)
    wanted = wanted.where(Comment.room_id == room_id, Comment.removed.is_(None)).order_by(Comment.created.desc(), Comment.id)
    with store.read() as session:
        rows = session.execute(wanted.limit(MOST_SHOWN)).all()
    return tuple(ShownComment(each.id, each.node, each.author_id, display, each.text, each.created) for each, display in rows)
