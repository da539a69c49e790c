"""Rooms: opened from a plan, listed, named, closed, and their logs. What people do in a room goes over a connection of its own."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta
from sqlalchemy import func, select
from sqlalchemy.orm import Session as DatabaseSession

from workbench.team.access import ConflictError, ForbiddenError, ProjectRole
from workbench.team.actions.action import Call, action, member
from workbench.team.actions.schemas import (
    NAME,
    After,
    Count,
    Digest,
    Id,
    ListPage,
    Named,
    PageQuery,
    PersonRecord,
    PlanName,
    Record,
    RoleName,
    Slug,
    Time,
    list_page,
    people_by_id,
    project_slugs,
)
from workbench.team.actions.server_settings import read_setting
from workbench.team.actions.visible_plans import approved_program, plan_of_project
from workbench.team.store.store import Store, now
from workbench.team.store.tables import LogEntry, RegisteredProgram, StoredRoom, StudentWork


class RoomRecord(Record, frozen=True):
    """A room, and who is in it now."""

    id: Id
    project: Slug
    name: str
    program: str | None
    first: Digest
    present: Digest
    edits: Count
    by: PersonRecord
    created: Time
    touched: Time
    closed: Time | None
    role: RoleName | None
    people: list[PersonRecord]
    page: str


class LogRecord(Record, frozen=True):
    """Something that was done in a room."""

    seq: Count
    author: PersonRecord
    kind: str
    body: dict[str, Any]
    digest: Digest
    created: Time


class LogPart(Record, frozen=True):
    """A part of a room's log, and whether there is more."""

    items: list[LogRecord]
    after: Count
    more: bool


class RoomQuery(PageQuery, frozen=True):
    """Which rooms are listed."""

    closed: bool = False


def room_records(call: Call, rooms: Sequence[StoredRoom]) -> list[RoomRecord]:
    """Rooms as answers have them."""
    session, ids = call.session, [each.id for each in rooms]
    present = {each: call.services.rooms.people_in(each) if call.services.rooms is not None else () for each in ids}
    people = people_by_id(session, (*(each.by for each in rooms), *(user for users in present.values() for user in users)))
    last = _last_of_logs(session, ids)
    slugs = project_slugs(session, (each.project_id for each in rooms))
    wanted = {each.program_id for each in rooms if each.program_id}
    programs = {each.id: each.name for each in session.scalars(select(RegisteredProgram).where(RegisteredProgram.id.in_(wanted)))}
    return [
        RoomRecord.of(
            each,
            project=slugs[each.project_id],
            program=programs.get(each.program_id or ""),
            present=last.get(each.id, (0, each.first))[1],
            edits=last.get(each.id, (0, each.first))[0],
            by=people[each.by],
            role=str(call.found.role) if call.found.role else None,
            people=[people[user] for user in present[each.id] if user in people],
            page=call.services.url(f"/room/{each.id}"),
        )
        for each in rooms
    ]


def _last_of_logs(session: DatabaseSession, ids: list[str]) -> dict[str, tuple[int, str]]:
    """The last number in the log of each room, and the plan that was present then."""
    newest = (
        select(LogEntry.room_id, func.max(LogEntry.seq).label("seq")).where(LogEntry.room_id.in_(ids)).group_by(LogEntry.room_id).subquery()
    )
    rows = select(LogEntry.room_id, LogEntry.seq, LogEntry.digest).join(
        newest, (newest.c.room_id == LogEntry.room_id) & (newest.c.seq == LogEntry.seq)
    )
    return {room_id: (seq, digest) for room_id, seq, digest in session.execute(rows)}


@action("rooms.list", "GET /projects/{project}/rooms", member(ProjectRole.VIEWER), "read")
def _list(call: Call, query: RoomQuery) -> ListPage[RoomRecord]:
    """List the rooms of a project, but for those of assignments."""
    found = select(StoredRoom).where(StoredRoom.project_id == call.project.id, StoredRoom.id.not_in(select(StudentWork.room_id)))
    if not query.closed:
        found = found.where(StoredRoom.closed.is_(None))
    return list_page(call.session, found, StoredRoom.touched, StoredRoom.id, query, lambda rooms: room_records(call, rooms))


@action("rooms.open", "POST /projects/{project}/rooms", member(ProjectRole.EDITOR), "edit", status=201, subject="id")
def _open(call: Call, plan: PlanName, name: Named | None = None) -> RoomRecord:
    """Open a room from a plan."""
    stored, entry = plan_of_project(call.session, call.project.id, plan)
    most = read_setting(call.session, "rooms")["per_project"]
    is_open = (StoredRoom.project_id == call.project.id, StoredRoom.closed.is_(None), StoredRoom.id.not_in(select(StudentWork.room_id)))
    if (call.session.scalar(select(func.count()).select_from(StoredRoom).where(*is_open)) or 0) >= most:
        raise ConflictError(f"{most:,} rooms of this project are open, which is the limit.", ["close one", "ask an administrator"])
    program = approved_program(call.session, call.project.id, stored.target) if ":" in stored.target else None
    called = (name or (entry.name if entry else stored.target))[:NAME].strip() or stored.target[:NAME]
    return room_records(call, [add_room(call, called, stored.digest, program.id if program else None)])[0]


def add_room(call: Call, name: str, first: str, program_id: str | None = None) -> StoredRoom:
    """A new room of the project, by the person, that begins with the plan of a digest."""
    room = StoredRoom(project_id=call.project.id, name=name, program_id=program_id, first=first, by=call.person.user_id)
    call.session.add(room)
    call.session.flush()
    return room


@action("rooms.get", "GET /rooms/{room}", member(ProjectRole.VIEWER, "room", guests=True), "read")
def _get(call: Call) -> RoomRecord:
    """See a room."""
    return room_records(call, [call.found.resource])[0]


async def show_in_rooms(call: Call, *which: Any) -> None:
    """Have the rooms of these conditions show what has changed, to those who have them open."""
    if call.services.rooms is not None:
        await call.services.rooms.changed(await asyncio.to_thread(_ids, call.services.store, which))


def _ids(store: Store, which: Sequence[Any]) -> list[str]:
    with store.read() as session:
        return list(session.scalars(select(StoredRoom.id).where(*which)))


async def _announce(call: Call, _answer: Any) -> None:
    await show_in_rooms(call, StoredRoom.id == call.inputs.path["room"])


@action("rooms.update", "PATCH /rooms/{room}", member(ProjectRole.EDITOR, "room"), "edit", afterwards=_announce)
def _update(call: Call, *, name: Named | None = None, closed: bool | None = None) -> RoomRecord:
    """Rename, close or open a room again."""
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
def _log(call: Call, after: After = 0, limit: Annotated[int, Meta(ge=1, le=1000)] = 100) -> LogPart:
    """Read what happened in a room, from a number on."""
    later = select(LogEntry).where(LogEntry.room_id == call.found.resource.id, LogEntry.seq > after)
    rows = call.session.scalars(later.order_by(LogEntry.seq).limit(limit + 1)).all()
    people = people_by_id(call.session, (each.author_id for each in rows))
    items = [LogRecord.of(each, author=people[each.author_id]) for each in rows[:limit]]
    return LogPart(items=items, after=items[-1].seq if items else after, more=len(rows) > limit)
