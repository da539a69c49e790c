"""Projects, which group plans, rooms, programs and jobs; and their members with their roles. A project always has an active
owner.
"""

from typing import Annotated, Any

from msgspec import Meta
from sqlalchemy import func, select

from workbench.team.access import ConflictError, MissingError, ProjectRole, parse_role
from workbench.team.accounts.user_accounts import add_project
from workbench.team.actions.action import PERSON, Call, action, member
from workbench.team.actions.me import verify_owner_remains
from workbench.team.actions.rooms import show_in_rooms
from workbench.team.actions.schemas import Count, Named, Note, Record, RoleName, Slug, Time, user_of_name
from workbench.team.store.store import now
from workbench.team.store.tables import Assignment, GalleryEntry, Member, Project, StoredRoom, StudentWork, User


class ProjectRecord(Record, frozen=True):
    slug: Slug
    name: str
    description: str
    personal: bool
    role: RoleName
    members: Count
    plans: Count
    rooms: Count
    assignments: Count
    created: Time
    archived: Time | None


@action("projects.list", "GET /projects", PERSON, "read")
def _list(call: Call, *, archived: bool = False) -> Annotated[list[ProjectRecord], Meta(max_length=10_000)]:
    """List my projects."""
    statement = select(Project, Member.role).join(Member, Member.project_id == Project.id).where(Member.user_id == call.person.user_id)
    if not archived:
        statement = statement.where(Project.archived.is_(None))
    return [_record(call, project, parse_role(role)) for project, role in call.session.execute(statement.order_by(Project.slug))]


@action("projects.create", "POST /projects", PERSON, "manage", status=201, subject="slug")
def _create(call: Call, slug: Slug, name: Named, description: Note = "") -> ProjectRecord:
    """Create a project."""
    project = add_project(call.session, slug, name, description, owner=call.person.user_id)
    call.note(project=project)
    return _record(call, project, ProjectRole.OWNER)


@action("projects.get", "GET /projects/{project}", member(ProjectRole.STUDENT), "read")
def _get(call: Call) -> ProjectRecord:
    """Show a project."""
    return _record(call, call.project, call.found.role)


@action("projects.update", "PATCH /projects/{project}", member(ProjectRole.OWNER), "manage")
def _update(call: Call, *, name: Named | None = None, description: Note | None = None, archived: bool | None = None) -> ProjectRecord:
    """Rename, describe or archive a project."""
    project = call.project
    project.name = (name or project.name).strip()
    project.description = project.description if description is None else description
    if archived is not None:
        project.archived = (project.archived or now()) if archived else None
    call.note(changed=sorted(call.body))
    return _record(call, project, call.found.role)


def _record(call: Call, project: Project, role: ProjectRole | None) -> ProjectRecord:
    def count(table: Any, *where: Any) -> int:
        return call.session.scalar(select(func.count()).select_from(table).where(table.project_id == project.id, *where)) or 0

    return ProjectRecord.of(
        project,
        personal=project.personal_of is not None,
        role=str(role),
        members=count(Member),
        plans=count(GalleryEntry, GalleryEntry.withdrawn.is_(None)),
        rooms=count(StoredRoom, StoredRoom.closed.is_(None), StoredRoom.id.not_in(select(StudentWork.room_id))),
        assignments=count(Assignment, Assignment.withdrawn.is_(None)),
    )


_OWNER = member(ProjectRole.OWNER)


class MemberRecord(Record, frozen=True):
    name: str
    display: str
    role: RoleName
    since: Time
    active: bool


async def _announce(call: Call, _answer: Any) -> None:
    """Apply the new role to users in open rooms of the project."""
    await show_in_rooms(call, StoredRoom.project_id == call.project.id, StoredRoom.closed.is_(None))


@action("members.list", "GET /projects/{project}/members", member(ProjectRole.VIEWER), "read")
def _list_members(call: Call) -> Annotated[list[MemberRecord], Meta(max_length=100_000)]:
    """List the members of a project."""
    statement = select(Member, User).join(User, User.id == Member.user_id).where(Member.project_id == call.project.id)
    return [_member_record(membership, user) for membership, user in call.session.execute(statement.order_by(User.name))]


@action("members.set", "PUT /projects/{project}/members/{person}", _OWNER, "manage", afterwards=_announce)
def _set(call: Call, person: str, role: RoleName) -> MemberRecord:
    """Add a member to a project, or change a role."""
    user = user_of_name(call.session, person)
    if call.project.personal_of is not None and call.project.personal_of == user.id:
        raise ConflictError("The owner of a personal project cannot change.", ["make another project"])
    membership = call.session.get(Member, (call.project.id, user.id))
    if membership is None:
        if not user.active:
            raise ConflictError(f"`{user.name}` is disabled.", ["ask an administrator"])
        membership = Member(project_id=call.project.id, user_id=user.id, role=role)
        call.session.add(membership)
        call.session.flush()
    elif membership.role == str(ProjectRole.OWNER) and role != membership.role:
        verify_owner_remains(call, user.id)
    membership.role = role
    call.note(role=role)
    return _member_record(membership, user)


@action("members.remove", "DELETE /projects/{project}/members/{person}", _OWNER, "manage", afterwards=_announce)
def _remove(call: Call, person: str) -> None:
    """Remove a member from a project."""
    user = user_of_name(call.session, person)
    membership = call.session.get(Member, (call.project.id, user.id))
    if membership is None:
        raise MissingError("member", user.name)
    if membership.role == str(ProjectRole.OWNER):
        verify_owner_remains(call, user.id)
    call.session.delete(membership)


def _member_record(held: Member, user: User) -> MemberRecord:
    return MemberRecord.of(user, role=held.role, since=held.since)
