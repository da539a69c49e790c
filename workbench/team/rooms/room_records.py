"""Rooms in the store: initial plan, log, comments and pushed plans."""

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
from workbench.team.store.tables import Assignment, Comment, LogEntry, Project, RegisteredProgram, StoredPlan, StoredRoom, StudentWork, User

MOVES = ("edit", "undo", "redo", "go", "push")
EVERYBODY = "*"
"""The author of a plan sent to a room; every editor can undo it."""
LOG_KINDS = (*MOVES, "name", "pin")
"""Kinds of log entries (`team.planning.room_edit_log`)."""
MOST_ENTRY = 1 << 20  # bytes
CHECKED_ENTRIES = 64
"""Number of log entries between checks of the author's storage quota, because counting takes longer than storing an
entry.
"""
MOST_CARD = 1 << 18  # maximum bytes of a card on the wall


@dataclass(frozen=True, slots=True)
class RoomSource:
    """The data that a room is opened from: its initial plan document and its log, oldest first.

    `program` is `None` for zoo models. In an `assignment`, `exercise` is its document, `tries` maps each question to
    its number of tries and success, and `until` is the deadline as text.
    """

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
        return next((entry["body"]["head"] for entry in reversed(self.log) if "head" in entry["body"]), 0)

    def message(self) -> dict[str, Any]:
        tries = [[name, *tried] for name, tried in self.tries.items()]
        exercise = {"exercise": {"document": self.exercise, "tries": tries}} if self.exercise else {}
        return {"document": self.document, "name": self.name, "log": self.log, **exercise}


def read_room(store: Store, room_id: str, *, with_log: bool = True) -> RoomSource:
    """Read a room, optionally without its log. Raises `WorkbenchError` if it is closed or may not run."""
    with store.read() as session:
        room = session.get(StoredRoom, room_id)
        if room is None or room.closed is not None:
            raise WorkbenchError("This room was closed.", ["open its plan from the gallery in a new room"])
        first, project = session.get(StoredPlan, room.first), session.get(Project, room.project_id)
        assert first is not None, "a foreign key"
        assert project is not None, "a foreign key"
        entries = session.scalars(select(LogEntry).where(LogEntry.room_id == room_id).order_by(LogEntry.seq)) if with_log else ()
        log = tuple({"kind": entry.kind, "author": entry.author_id, "body": entry.body} for entry in entries)
        program = session.get(RegisteredProgram, room.program_id) if room.program_id else None
        work = session.get(StudentWork, room_id)
        of_work = _of_work(session, work) if work else {}
    if program is not None and program.state != "approved":
        raise WorkbenchError(
            f"The program `{program.name}` of this room may not run: it is {program.state}.", ["ask an owner of the project to approve it"]
        )
    return RoomSource(room.id, room.project_id, project.slug, room.name, first.document, log, program, **of_work)


def _of_work(session: DatabaseSession, work: StudentWork) -> dict[str, Any]:
    assignment = session.get_one(Assignment, work.assignment_id)
    fields = {
        "assignment": assignment.id,
        "exercise": assignment.exercise,
        "deadline": assignment.deadline,
        "until": deadline_text(assignment),
    }
    return {**fields, "tries": tries_of(session, work.room_id)}


def verify_entry(entry: Mapping[str, Any], editors: set[str]) -> None:
    """Raise `WorkbenchError` for an entry by a user who may not edit, of an unknown kind, or too large."""
    size = len(json.dumps(entry["body"]))
    if entry["author"] not in editors or entry["kind"] not in LOG_KINDS or size > MOST_ENTRY:
        raise WorkbenchError(f"The room's process sent an invalid log entry of {size:,} bytes.", ["reload the page"])


def append_entry(store: Store, room_id: str, entry: Mapping[str, Any], digest: str) -> None:
    """Store a log entry. Raises `IntegrityError` if the number exists, at times `ConflictError` (quota)."""
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
    """Return a user by ID. Raises `NotSignedInError` if they are missing or disabled."""
    with store.read() as session:
        user = session.get(User, user_id)
    if user is None or not user.active:
        raise NotSignedInError
    return Principal(user.id, user.name, user.display, user.admin)


def participation_of(store: Store, principal: Principal, source: RoomSource) -> tuple[bool, ProjectRole | None]:
    """Return whether a user works on an assignment in a room, and their project role: `None` for a guest by link."""
    with store.read() as session:
        user = verify_active(session, principal)
        is_participant = bool(source.exercise) and takes_part(session, user, session.get_one(StoredRoom, source.room_id))
        return is_participant, role_in_project(session, user, source.project_id)


def keep_card(store: Store, room_id: str, card: Mapping[str, Any], thumbnail: str) -> None:
    """Store the card of student work for the wall. Raises `WorkbenchError` if it is too large."""
    if len(json.dumps(card)) + len(thumbnail) > MOST_CARD:
        raise WorkbenchError("The room's process sent more than a card of the wall.")
    with store.write() as session:
        work = session.get(StudentWork, room_id)
        if work is not None:
            work.card, work.thumbnail, work.shown = dict(card), thumbnail, now()


def role_of(store: Store, principal: Principal, room_id: str) -> ProjectRole | None:
    """Return a user's role in a room, or `None`. Raises `NotSignedInError` for a disabled user."""
    with store.read() as session:
        room = session.get(StoredRoom, room_id)
        if room is None or room.closed is not None:
            return None
        role = role_in_room(session, verify_active(session, principal), room)
    return role if role is not None and role >= ProjectRole.VIEWER else None  # students see only their own work


@dataclass(frozen=True, slots=True)
class PushedPlan:
    """A plan that `sender` sends to rooms; `source` describes it for users; `card` and `thumbnail` are for the wall."""

    sender: Principal
    document: str
    digest: str
    source: str
    card: Mapping[str, Any] = field(default_factory=dict)
    thumbnail: str = ""

    def message(self) -> dict[str, Any]:
        return {"push": {"document": self.document, "source": self.source, "user_id": self.sender.user_id, "display": self.sender.display}}


def append_push(store: Store, room_id: str, pushed: PushedPlan) -> None:
    """Write a pushed plan to the log of a room that is not open. Raises `WorkbenchError` if the room is gone."""
    source = read_room(store, room_id)
    number = 1 + sum(len(logged["body"].get("added", ())) for logged in source.log)
    edit = {"edit": "open_plan", "plan": json.loads(pushed.document), "source": pushed.source}
    body = {"added": [{"parent": source.head, "edit": edit, "author": EVERYBODY}], "head": number}
    entry = {"seq": len(source.log) + 1, "author": pushed.sender.user_id, "kind": "push", "body": body}
    append_entry(store, room_id, entry, pushed.digest)
    if len(json.dumps(pushed.card)) + len(pushed.thumbnail) <= MOST_CARD:
        keep_card(store, room_id, pushed.card, pushed.thumbnail)


def last_push(store: Store, source: RoomSource) -> tuple[str, str]:
    """Return sender and description of the plan that was pushed last, or empty texts if later changes followed."""
    if not source.log or source.log[-1]["kind"] != "push":
        return "", ""
    with store.read() as session:
        sender = session.scalar(select(User.display).where(User.id == source.log[-1]["author"]))
    return sender or "Somebody", str(source.log[-1]["body"]["added"][0]["edit"]["source"])


MOST_SHOWN = 100


@dataclass(frozen=True, slots=True)
class ShownComment:
    """A comment on the history node `node`; `at` is in seconds since 1970."""

    id: str
    node: int
    user_id: str
    display: str
    text: str
    at: float

    def as_state(self, reader: str) -> dict[str, Any]:
        state = {"id": self.id, "node": self.node, "who": self.display, "text": self.text, "at": self.at}
        return {**state, "mine": self.user_id == reader}


def read_comments(store: Store, room_id: str) -> tuple[ShownComment, ...]:
    statement = select(Comment, User.display).join(User, User.id == Comment.author_id)
    statement = statement.where(Comment.room_id == room_id, Comment.removed.is_(None)).order_by(Comment.created.desc(), Comment.id)
    with store.read() as session:
        rows = session.execute(statement.limit(MOST_SHOWN)).all()
    return tuple(
        ShownComment(comment.id, comment.node, comment.author_id, display, comment.text, comment.created) for comment, display in rows
    )
