"""Rooms: opened from a plan, listed, named, closed, and their logs. What people do in a room goes over a connection of its own."""

from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session as DatabaseSession

from workbench.team.access import ForbiddenError, ProjectRole
from workbench.team.actions.action import Action, Call, member
from workbench.team.actions.input_errors import ConflictError
from workbench.team.actions.named_programs import approved_program
from workbench.team.actions.pages_of_lists import list_page
from workbench.team.actions.people_records import people_by_id, project_slugs
from workbench.team.actions.schemas import (
    ANYTHING,
    COUNT,
    DIGEST,
    FLAG,
    ID,
    NAME,
    PAGE,
    PERSON,
    PLAN,
    ROLE,
    SLUG,
    TEXT,
    TIME,
    list_of,
    listing,
    or_none,
    record,
    text,
    whole,
)
from workbench.team.actions.server_settings import read_setting
from workbench.team.actions.visible_plans import plan_of_project
from workbench.team.store.store import new_id, now
from workbench.team.store.tables import LogEntry, RegisteredProgram, StoredRoom, StudentWork

_NAMED = text(NAME, 1, pattern=r"^.*\S.*$")
_ROOM = record(
    {
        "id": ID,
        "project": SLUG,
        "name": TEXT,
        "program": or_none(TEXT),
        "first": DIGEST,
        "present": DIGEST,
        "edits": COUNT,
        "by": PERSON,
        "created": TIME,
        "touched": TIME,
        "closed": or_none(TIME),
        "role": or_none(ROLE),
        "people": list_of(PERSON),
        "page": TEXT,
    }
)
_LOG = record(
    {
        "seq": COUNT,
        "author": PERSON,
        "kind": TEXT,
        "body": {"type": "object", "additionalProperties": ANYTHING},
        "digest": DIGEST,
        "created": TIME,
    }
)


def room_records(call: Call, rooms: list[StoredRoom]) -> list[dict[str, Any]]:
    """Rooms as answers have them."""
    session, ids = call.session, [each.id for each in rooms]
    present = {each: call.services.rooms.people_in(each) if call.services.rooms is not None else () for each in ids}
    people = people_by_id(session, (*(each.by for each in rooms), *(user for users in present.values() for user in users)))
    last = _last_of_logs(session, ids)
    slugs = project_slugs(session, (each.project_id for each in rooms))
    wanted = {each.program_id for each in rooms if each.program_id}
    programs = {each.id: each.name for each in session.scalars(select(RegisteredProgram).where(RegisteredProgram.id.in_(wanted)))}
    return [
        {
            "id": each.id,
            "project": slugs[each.project_id],
            "name": each.name,
            "program": programs.get(each.program_id or ""),
            "first": each.first,
            "present": last.get(each.id, (0, each.first))[1],
            "edits": last.get(each.id, (0, each.first))[0],
            "by": people[each.by],
            "created": each.created,
            "touched": each.touched,
            "closed": each.closed,
            "role": str(call.found.role) if call.found.role else None,
            "people": [people[user] for user in present[each.id] if user in people],
            "page": call.services.url(f"/room/{each.id}"),
        }
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


def _list(call: Call) -> dict[str, Any]:
    found = select(StoredRoom).where(StoredRoom.project_id == call.project.id, StoredRoom.id.not_in(select(StudentWork.room_id)))
    if not call.query.get("closed", False):
        found = found.where(StoredRoom.closed.is_(None))
    page = list_page(call.session, found, StoredRoom.touched, StoredRoom.id, call.query, lambda room: room)
    return {**page, "items": room_records(call, page["items"])}


def _open(call: Call) -> dict[str, Any]:
    plan, entry = plan_of_project(call.session, call.project.id, call.body["plan"])
    most = read_setting(call.session, "rooms")["per_project"]
    is_open = (StoredRoom.project_id == call.project.id, StoredRoom.closed.is_(None), StoredRoom.id.not_in(select(StudentWork.room_id)))
    if (call.session.scalar(select(func.count()).select_from(StoredRoom).where(*is_open)) or 0) >= most:
        raise ConflictError(f"{most:,} rooms of this project are open, as many as may be.", ["close one", "ask an administrator"])
    program = approved_program(call.session, call.project.id, plan.target) if ":" in plan.target else None
    name = call.body.get("name", entry.name if entry else plan.target)[:NAME].strip() or plan.target[:NAME]
    return room_records(call, [add_room(call, name, plan.digest, program.id if program else None)])[0]


def add_room(call: Call, name: str, first: str, program_id: str | None = None) -> StoredRoom:
    """A new room of the project, by the person, that begins with the plan of a digest."""
    room = StoredRoom(
        id=new_id(),
        project_id=call.project.id,
        name=name,
        program_id=program_id,
        first=first,
        by=call.person.user_id,
        created=now(),
        touched=now(),
        closed=None,
    )
    call.session.add(room)
    call.session.flush()
    return room


def _get(call: Call) -> dict[str, Any]:
    return room_records(call, [call.found.resource])[0]


def _update(call: Call) -> dict[str, Any]:
    room: StoredRoom = call.found.resource
    room.name = call.body.get("name", room.name).strip()
    if "closed" in call.body and call.body["closed"] != (room.closed is not None):
        if room.by != call.person.user_id and not call.may(ProjectRole.OWNER):
            raise ForbiddenError("This room was opened by somebody else.", ["ask who opened it", "ask an owner of the project"])
        room.closed = now() if call.body["closed"] else None
    call.note(changed=sorted(call.body))
    call.session.flush()
    return room_records(call, [room])[0]


async def _announce(call: Call, _answer: Any) -> None:
    if call.services.rooms is not None:
        await call.services.rooms.access_changed(call.inputs.path["room"])


def _log(call: Call) -> dict[str, Any]:
    after, limit = call.query.get("after", 0), call.query.get("limit", 100)
    wanted = (
        select(LogEntry).where(LogEntry.room_id == call.found.resource.id, LogEntry.seq > after).order_by(LogEntry.seq).limit(limit + 1)
    )
    rows = call.session.scalars(wanted).all()
    people = people_by_id(call.session, (each.author_id for each in rows))
    items = [
        {
            "seq": each.seq,
            "author": people[each.author_id],
            "kind": each.kind,
            "body": each.body,
            "digest": each.digest,
            "created": each.created,
        }
        for each in rows[:limit]
    ]
    return {"items": items, "after": items[-1]["seq"] if items else after, "more": len(rows) > limit}


_IN_PROJECT = member(ProjectRole.VIEWER)
_IN_ROOM = member(ProjectRole.VIEWER, "room", guests=True)

ACTIONS = (
    Action(
        "rooms.list",
        "GET",
        "/projects/{project}/rooms",
        "List the rooms of a project, but for those of assignments",
        _IN_PROJECT,
        "read",
        listing(_ROOM),
        _list,
        query={**PAGE, "closed": FLAG},
    ),
    Action(
        "rooms.open",
        "POST",
        "/projects/{project}/rooms",
        "Open a room from a plan",
        member(ProjectRole.EDITOR),
        "edit",
        _ROOM,
        _open,
        body=record({"plan": PLAN}, {"name": _NAMED}),
        status=201,
        subject="id",
    ),
    Action("rooms.get", "GET", "/rooms/{room}", "See a room", _IN_ROOM, "read", _ROOM, _get),
    Action(
        "rooms.update",
        "PATCH",
        "/rooms/{room}",
        "Rename, close or open a room again",
        member(ProjectRole.EDITOR, "room"),
        "edit",
        _ROOM,
        _update,
        body=record({}, {"name": _NAMED, "closed": FLAG}),
        afterwards=_announce,
    ),
    Action(
        "rooms.log",
        "GET",
        "/rooms/{room}/log",
        "Read what happened in a room, from a number on",
        _IN_ROOM,
        "read",
        record({"items": list_of(_LOG), "after": COUNT, "more": FLAG}),
        _log,
        query={"after": whole(0, 10**12), "limit": whole(1, 1000)},
    ),
)
