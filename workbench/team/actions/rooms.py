"""Rooms: open, list, rename, close, read logs, and comment on the nodes of the history. Edits in a room use a separate
connection. Authors and owners can delete a comment.
"""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta
from sqlalchemy import func, select
from sqlalchemy.orm import Session as DatabaseSession

from workbench.team.access import ConflictError, ForbiddenError, ProjectRole
from workbench.team.actions import schemas
from workbench.team.actions.action import Call, action, member
from workbench.team.actions.server_settings import read_setting
from workbench.team.actions.visible_plans import approved_program, plan_of_project
from workbench.team.store.store import Store, now
from workbench.team.store.tables import Comment, LogEntry, RegisteredProgram, StoredRoom, StudentWork


class RoomRecord(schemas.Record, frozen=True):
    id: schemas.Id
    project: schemas.Slug
    name: str
    program: str | None
    first: schemas.Digest
    present: schemas.Digest
    edits: schemas.Count
    by: schemas.PersonRecord
    created: schemas.Time
    touched: schemas.Time
    closed: schemas.Time | None
    role: schemas.RoleName | None
    people: list[schemas.PersonRecord]
    page: str


class LogRecord(schemas.Record, frozen=True):
    seq: schemas.Count
    author: schemas.PersonRecord
    kind: str
    body: dict[str, Any]
    digest: schemas.Digest
    created: schemas.Time


class LogPart(schemas.Record, frozen=True):
    items: list[LogRecord]
    after: schemas.Count
    more: bool


class RoomQuery(schemas.PageQuery, frozen=True):
    closed: bool = False


def room_records(call: Call, rooms: Sequence[StoredRoom]) -> list[RoomRecord]:
    session, ids = call.session, [row.id for row in rooms]
    present = {room_id: call.services.rooms.people_in(room_id) if call.services.rooms is not None else () for room_id in ids}
    people = schemas.people_by_id(session, (*(room.by for room in rooms), *(user for users in present.values() for user in users)))
    last = _last_of_logs(session, ids)
    slugs = schemas.project_slugs(session, (room.project_id for room in rooms))
    program_ids = {room.program_id for room in rooms if room.program_id}
    programs = {
        program.id: program.name for program in session.scalars(select(RegisteredProgram).where(RegisteredProgram.id.in_(program_ids)))
    }
    return [
        RoomRecord.of(
            room,
            project=slugs[room.project_id],
            program=programs.get(room.program_id or ""),
            present=last.get(room.id, (0, room.first))[1],
            edits=last.get(room.id, (0, room.first))[0],
            by=people[room.by],
            role=str(call.found.role) if call.found.role else None,
            people=[people[user] for user in present[room.id] if user in people],
            page=call.services.url(f"/room/{room.id}"),
        )
        for room in rooms
    ]


def _last_of_logs(session: DatabaseSession, ids: list[str]) -> dict[str, tuple[int, str]]:
    newest = (
        select(LogEntry.room_id, func.max(LogEntry.seq).label("seq")).where(LogEntry.room_id.in_(ids)).group_by(LogEntry.room_id).subquery()
    )
    rows = select(LogEntry.room_id, LogEntry.seq, LogEntry.digest).join(
        newest, (newest.c.room_id == LogEntry.room_id) & (newest.c.seq == LogEntry.seq)
    )
    return {room_id: (seq, digest) for room_id, seq, digest in session.execute(rows)}


@action("rooms.list", "GET /projects/{project}/rooms", member(ProjectRole.VIEWER), "read")
def _list(call: Call, query: RoomQuery) -> schemas.ListPage[RoomRecord]:
    """List the rooms of a project, except those of assignments."""
    statement = select(StoredRoom).where(StoredRoom.project_id == call.project.id, StoredRoom.id.not_in(select(StudentWork.room_id)))
    if not query.closed:
        statement = statement.where(StoredRoom.closed.is_(None))
    return schemas.list_page(call.session, statement, StoredRoom.touched, StoredRoom.id, query, lambda rooms: room_records(call, rooms))


@action("rooms.open", "POST /projects/{project}/rooms", member(ProjectRole.EDITOR), "edit", status=201, subject="id")
def _open(call: Call, plan: schemas.PlanName, name: schemas.Named | None = None) -> RoomRecord:
    """Open a room from a plan."""
    stored, entry = plan_of_project(call.session, call.project.id, plan)
    limit = read_setting(call.session, "rooms")["per_project"]
    is_open = (StoredRoom.project_id == call.project.id, StoredRoom.closed.is_(None), StoredRoom.id.not_in(select(StudentWork.room_id)))
    if (call.session.scalar(select(func.count()).select_from(StoredRoom).where(*is_open)) or 0) >= limit:
        raise ConflictError(f"{limit:,} rooms of this project are open, which is the limit.", ["close one", "ask an administrator"])
    program = approved_program(call.session, call.project.id, stored.target) if ":" in stored.target else None
    room_name = (name or (entry.name if entry else stored.target))[: schemas.NAME].strip() or stored.target[: schemas.NAME]
    return room_records(call, [add_room(call, room_name, stored.digest, program.id if program else None)])[0]


def add_room(call: Call, name: str, first: str, program_id: str | None = None) -> StoredRoom:
    """Create a room of the project that starts from a plan digest."""
    room = StoredRoom(project_id=call.project.id, name=name, program_id=program_id, first=first, by=call.person.user_id)
    call.session.add(room)
    call.session.flush()
    return room


@action("rooms.get", "GET /rooms/{room}", member(ProjectRole.VIEWER, "room", guests=True), "read")
def _get(call: Call) -> RoomRecord:
    """Show a room."""
    return room_records(call, [call.found.resource])[0]


async def show_in_rooms(call: Call, *which: Any) -> None:
    """Refresh the open rooms that match the conditions."""
    if call.services.rooms is not None:
        await call.services.rooms.changed(await asyncio.to_thread(_ids, call.services.store, which))


def _ids(store: Store, which: Sequence[Any]) -> list[str]:
    with store.read() as session:
        return list(session.scalars(select(StoredRoom.id).where(*which)))


async def _announce(call: Call, _answer: Any) -> None:
    await show_in_rooms(call, StoredRoom.id == call.inputs.path["room"])


@action("rooms.update", "PATCH /rooms/{room}", member(ProjectRole.EDITOR, "room"), "edit", afterwards=_announce)
def _update(call: Call, *, name: schemas.Named | None = None, closed: bool | None = None) -> RoomRecord:
    """Rename, close or reopen a room."""
    room: StoredRoom = call.found.resource
    room.name = (name or room.name).strip()
    if closed is not None and closed != (room.closed is not None):
        if room.by != call.person.user_id and not call.may(ProjectRole.OWNER):
            raise ForbiddenError("This room was opened by another person.", ["ask the person who opened it", "ask an owner of the project"])
        room.closed = now() if closed else None
    call.note(changed=sorted(call.body))
    call.session.flush()
    return room_records(call, [room])[0]


@action("rooms.log", "GET /rooms/{room}/log", member(ProjectRole.VIEWER, "room", guests=True), "read")
def _log(call: Call, after: schemas.After = 0, limit: Annotated[int, Meta(ge=1, le=1000)] = 100) -> LogPart:
    """Read the log of a room after a number."""
    statement = select(LogEntry).where(LogEntry.room_id == call.found.resource.id, LogEntry.seq > after)
    rows = call.session.scalars(statement.order_by(LogEntry.seq).limit(limit + 1)).all()
    people = schemas.people_by_id(call.session, (entry.author_id for entry in rows))
    items = [LogRecord.of(entry, author=people[entry.author_id]) for entry in rows[:limit]]
    return LogPart(items=items, after=items[-1].seq if items else after, more=len(rows) > limit)


MOST = 1000
Node = Annotated[int, Meta(ge=0, le=10**9, description="the number of the node")]


class CommentRecord(schemas.Record, frozen=True):
    id: schemas.Id
    node: schemas.Count
    author: schemas.PersonRecord
    text: str
    created: schemas.Time


async def _show_in_room(call: Call, _answer: Any) -> None:
    resource = call.found.resource
    await show_in_rooms(call, StoredRoom.id == (resource.room_id if isinstance(resource, Comment) else resource.id))


@action("comments.list", "GET /rooms/{room}/comments", member(ProjectRole.VIEWER, "room", guests=True), "read")
def _list_comments(call: Call, node: Node | None = None) -> list[CommentRecord]:
    """List the comments of a room, or of one node."""
    statement = select(Comment).where(Comment.room_id == call.found.resource.id, Comment.removed.is_(None))
    if node is not None:
        statement = statement.where(Comment.node == node)
    newest = call.session.scalars(statement.order_by(Comment.created.desc(), Comment.id).limit(MOST)).all()
    people = schemas.people_by_id(call.session, (comment.author_id for comment in newest))
    return [CommentRecord.of(comment, author=people[comment.author_id]) for comment in reversed(newest)]


@action(
    "comments.add",
    "POST /rooms/{room}/comments",
    member(ProjectRole.EDITOR, "room", guests=True),
    "edit",
    status=201,
    subject="id",
    afterwards=_show_in_room,
)
def _add_comment(call: Call, node: Node, text: Annotated[str, Meta(min_length=1, max_length=schemas.NOTE, pattern=r"\S")]) -> CommentRecord:
    """Add a comment to a node."""
    comment = Comment(room_id=call.found.resource.id, author_id=call.person.user_id, node=node, text=text)
    call.session.add(comment)
    call.session.flush()
    return CommentRecord.of(comment, author=schemas.people_by_id(call.session, [comment.author_id])[comment.author_id])


@action(
    "comments.remove", "DELETE /comments/{comment}", member(ProjectRole.EDITOR, "comment", guests=True), "edit", afterwards=_show_in_room
)
def _remove_comment(call: Call) -> None:
    """Delete a comment."""
    comment: Comment = call.found.resource
    if comment.author_id != call.person.user_id and not call.may(ProjectRole.OWNER):
        raise ForbiddenError("This comment was written by another person.", ["ask its author", "ask an owner of the project"])
    comment.removed = now()
