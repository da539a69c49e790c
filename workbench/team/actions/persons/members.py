"""Who is in a project, and with which role. There is always an owner who is active."""

from typing import Annotated, Any

from msgspec import Meta
from sqlalchemy import select

from workbench.team.access import ConflictError, MissingError, ProjectRole
from workbench.team.actions.action import Call, action, member
from workbench.team.actions.persons.me import verify_owner_remains
from workbench.team.actions.rooms import show_in_rooms
from workbench.team.actions.schemas import Record, RoleName, Time, user_of_name
from workbench.team.store.tables import Member, StoredRoom, User

_OWNER = member(ProjectRole.OWNER)


class MemberRecord(Record, frozen=True):
    """Somebody in a project."""

    name: str
    display: str
    role: RoleName
    since: Time
    active: bool


async def _announce(call: Call, _answer: Any) -> None:
    """Whoever is in a room of the project may do there from now on what the new role allows."""
    await show_in_rooms(call, StoredRoom.project_id == call.project.id, StoredRoom.closed.is_(None))


@action("members.list", "GET /projects/{project}/members", member(ProjectRole.VIEWER), "read")
def _list(call: Call) -> Annotated[list[MemberRecord], Meta(max_length=100_000)]:
    """List the people of a project."""
    joined = select(Member, User).join(User, User.id == Member.user_id).where(Member.project_id == call.project.id)
    return [_record(held, user) for held, user in call.session.execute(joined.order_by(User.name))]


@action("members.set", "PUT /projects/{project}/members/{person}", _OWNER, "manage", afterwards=_announce)
def _set(call: Call, person: str, role: RoleName) -> MemberRecord:
    """Put somebody into a project, or change a role."""
    user = user_of_name(call.session, person)
    if call.project.personal_of is not None and call.project.personal_of == user.id:
        raise ConflictError("The owner of a personal project cannot change.", ["make another project"])
    held = call.session.get(Member, (call.project.id, user.id))
    if held is None:
        if not user.active:
            raise ConflictError(f"`{user.name}` is disabled.", ["ask an administrator"])
        held = Member(project_id=call.project.id, user_id=user.id, role=role)
        call.session.add(held)
        call.session.flush()
    elif held.role == str(ProjectRole.OWNER) and role != held.role:
        verify_owner_remains(call, user.id)
    held.role = role
    call.note(role=role)
    return _record(held, user)


@action("members.remove", "DELETE /projects/{project}/members/{person}", _OWNER, "manage", afterwards=_announce)
def _remove(call: Call, person: str) -> None:
    """Take somebody out of a project."""
    user = user_of_name(call.session, person)
    held = call.session.get(Member, (call.project.id, user.id))
    if held is None:
        raise MissingError("member", user.name)
    if held.role == str(ProjectRole.OWNER):
        verify_owner_remains(call, user.id)
    call.session.delete(held)


def _record(held: Member, user: User) -> MemberRecord:
    return MemberRecord.of(user, role=held.role, since=held.since)
