"""Find the resource of a request, and the user's role in its project or room.

**Invariants**

- A resource that the user may not see is reported exactly like a missing one.
- An administrator of the server is an owner of every project.
- A link to a room gives its role in that room only, until it is revoked or expires.
- Anyone who works on an assignment, including a student, is an editor of its room; viewers cannot work on assignments.
"""

from collections.abc import Callable
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session as DatabaseSession

from workbench.team.access import ConflictError, ForbiddenError, MissingError, NotSignedInError, Principal, ProjectRole, parse_role, require
from workbench.team.actions.action import Action, Found, Gate
from workbench.team.store.store import now
from workbench.team.store.tables import (
    Assignment,
    Comment,
    GalleryEntry,
    Guest,
    Member,
    Participant,
    Project,
    RegisteredProgram,
    Share,
    StoredJob,
    StoredRoom,
    User,
)


def verify_active(session: DatabaseSession, principal: Principal) -> User:
    """Return the user's row. Raises `NotSignedInError` if the account has been disabled."""
    user = session.get(User, principal.user_id)
    if user is None or not user.active:
        raise NotSignedInError
    return user


def role_in_project(session: DatabaseSession, user: User, project_id: str) -> ProjectRole | None:
    if user.admin:
        return ProjectRole.OWNER
    membership = session.get(Member, (project_id, user.id))
    return parse_role(membership.role) if membership else None


def role_in_room(session: DatabaseSession, user: User, room: StoredRoom) -> ProjectRole | None:
    """Return the highest role from project membership, opened links and work on the room's assignment."""
    project_role = role_in_project(session, user, room.project_id)
    conditions = (Share.room_id == room.id, Share.revoked.is_(None), Share.expires > now(), Guest.user_id == user.id)
    links = session.scalars(select(Share.role).join(Guest, Guest.share_id == Share.id).where(*conditions))
    work_roles = [ProjectRole.EDITOR] if takes_part(session, user, room) else []
    roles = [*map(parse_role, links), *([project_role] if project_role else []), *work_roles]
    return max(roles, default=None)


def takes_part(session: DatabaseSession, user: User, room: StoredRoom) -> bool:
    """Return whether a user works on an assignment in a room; false after leaving the project or becoming a viewer."""
    statement = select(Participant.user_id).where(Participant.room_id == room.id, Participant.user_id == user.id)
    return role_in_project(session, user, room.project_id) not in (None, ProjectRole.VIEWER) and session.scalar(statement) is not None


def find(session: DatabaseSession, action: Action, user: User, name: str) -> Found:
    """Find and authorize a resource. Raises `MissingError`, `ForbiddenError`, `ConflictError` if archived."""
    gate = action.gate
    resource = _FINDERS[gate.of](session, name)
    project = _project_of(session, gate, resource)
    if resource is None or project is None:
        raise MissingError(gate.of, name)
    role = role_in_room(session, user, _room_of(session, resource)) if gate.guests else role_in_project(session, user, project.id)
    if role is None:
        raise MissingError(gate.of, name)
    assert gate.role is not None
    require(role, gate.role, _to_do(action))
    if not gate.admits(role):
        raise ForbiddenError(f"To {_to_do(action)} takes {gate}, and you are a {role}.", ["ask an owner of the project for another role"])
    if action.changes and project.archived is not None and action.name != "projects.update":
        raise ConflictError(f"The project `{project.slug}` is archived and cannot be changed.", ["ask an owner to open it again"])
    return Found(resource, project, role)


def project_of_slug(session: DatabaseSession, slug: str) -> Project | None:
    return session.scalars(select(Project).where(Project.slug == slug)).first()


def _to_do(action: Action) -> str:
    return action.summary[0].lower() + action.summary[1:]


def _project_of(session: DatabaseSession, gate: Gate, resource: Any) -> Project | None:
    if resource is None or gate.of == "project":
        return resource
    return session.get(Project, (_room_of(session, resource) if isinstance(resource, Comment) else resource).project_id)


def _room_of(session: DatabaseSession, resource: StoredRoom | Comment) -> StoredRoom:
    return session.get_one(StoredRoom, resource.room_id) if isinstance(resource, Comment) else resource


def _by_id(kind: type[Any], ended: str = "") -> Callable[[DatabaseSession, str], Any]:
    """Return a finder by primary key; rows whose `ended` column is set count as missing."""

    def find_row(session: DatabaseSession, name: str) -> Any:
        row = session.get(kind, name)
        return None if ended and getattr(row, ended, None) is not None else row

    return find_row


_FINDERS: dict[str, Callable[[DatabaseSession, str], Any]] = {
    "project": project_of_slug,
    "entry": _by_id(GalleryEntry),
    "room": _by_id(StoredRoom),
    "comment": _by_id(Comment, "removed"),
    "share": _by_id(Share),
    "program": _by_id(RegisteredProgram),
    "job": _by_id(StoredJob),
    "assignment": _by_id(Assignment, "withdrawn"),
}
