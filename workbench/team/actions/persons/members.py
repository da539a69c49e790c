"""Who is in a project, and with which role. There is always an owner who is active."""

import asyncio
from typing import Any

from sqlalchemy import select

from workbench.team.access import MissingError, ProjectRole
from workbench.team.actions.action import Action, Call, member
from workbench.team.actions.input_errors import ConflictError
from workbench.team.actions.people_records import user_of_name
from workbench.team.actions.persons.me import verify_owner_remains
from workbench.team.actions.schemas import FLAG, NOTHING, ROLE, TEXT, TIME, list_of, record
from workbench.team.store.store import Store, now
from workbench.team.store.tables import Member, StoredRoom, User

_MEMBER = record({"name": TEXT, "display": TEXT, "role": ROLE, "since": TIME, "active": FLAG})


def _list(call: Call) -> dict[str, Any]:
    joined = select(Member, User).join(User, User.id == Member.user_id).where(Member.project_id == call.project.id)
    return {"items": [_record(held, user) for held, user in call.session.execute(joined.order_by(User.name))]}


def _set(call: Call) -> dict[str, Any]:
    user, role = user_of_name(call.session, call.inputs.path["person"]), call.body["role"]
    if call.project.personal_of is not None and call.project.personal_of == user.id:
        raise ConflictError("Of a personal project its person is the owner.", ["make another project"])
    held = call.session.get(Member, (call.project.id, user.id))
    if held is None:
        if not user.active:
            raise ConflictError(f"`{user.name}` is disabled.", ["ask an administrator"])
        held = Member(project_id=call.project.id, user_id=user.id, role=role, since=now())
        call.session.add(held)
    elif held.role == str(ProjectRole.OWNER) and role != held.role:
        verify_owner_remains(call, user.id)
    held.role = role
    call.note(role=role)
    return _record(held, user)


def _remove(call: Call) -> dict[str, Any]:
    user = user_of_name(call.session, call.inputs.path["person"])
    held = call.session.get(Member, (call.project.id, user.id))
    if held is None:
        raise MissingError("member", user.name)
    if held.role == str(ProjectRole.OWNER):
        verify_owner_remains(call, user.id)
    call.session.delete(held)
    return {}


def _record(held: Member, user: User) -> dict[str, Any]:
    return {"name": user.name, "display": user.display, "role": held.role, "since": held.since, "active": user.active}


async def _announce(call: Call, _answer: Any) -> None:
    """Whoever is in a room of the project may do there from now on what the new role allows."""
    if call.services.rooms is not None:
        for room_id in await asyncio.to_thread(_open_rooms, call.services.store, call.project.id):
            await call.services.rooms.access_changed(room_id)


def _open_rooms(store: Store, project_id: str) -> list[str]:
    with store.read() as session:
        return list(session.scalars(select(StoredRoom.id).where(StoredRoom.project_id == project_id, StoredRoom.closed.is_(None))))


_OWNER = member(ProjectRole.OWNER)

ACTIONS = (
    Action(
        "members.list",
        "GET",
        "/projects/{project}/members",
        "List the people of a project",
        member(ProjectRole.VIEWER),
        "read",
        record({"items": list_of(_MEMBER, 100_000)}),
        _list,
    ),
    Action(
        "members.set",
        "PUT",
        "/projects/{project}/members/{person}",
        "Put somebody into a project, or change a role",
        _OWNER,
        "manage",
        _MEMBER,
        _set,
        body=record({"role": ROLE}),
        afterwards=_announce,
    ),
    Action(
        "members.remove",
        "DELETE",
        "/projects/{project}/members/{person}",
        "Take somebody out of a project",
        _OWNER,
        "manage",
        NOTHING,
        _remove,
        afterwards=_announce,
    ),
)
