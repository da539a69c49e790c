"""Projects: plans, rooms, programs and jobs that belong together."""

from typing import Annotated, Any

from msgspec import Meta
from sqlalchemy import func, select

from workbench.team.access import ProjectRole, parse_role
from workbench.team.accounts.user_accounts import add_project
from workbench.team.actions.action import PERSON, Call, action, member
from workbench.team.actions.schemas import Count, Named, Note, Record, RoleName, Slug, Time
from workbench.team.store.store import now
from workbench.team.store.tables import Assignment, GalleryEntry, Member, Project, StoredRoom, StudentWork


class ProjectRecord(Record, frozen=True):
    """A project, how much is in it, and the person's role there."""

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
    joined = select(Project, Member.role).join(Member, Member.project_id == Project.id).where(Member.user_id == call.person.user_id)
    if not archived:
        joined = joined.where(Project.archived.is_(None))
    return [_record(call, each, parse_role(role)) for each, role in call.session.execute(joined.order_by(Project.slug))]


@action("projects.create", "POST /projects", PERSON, "manage", status=201, subject="slug")
def _create(call: Call, slug: Slug, name: Named, description: Note = "") -> ProjectRecord:
    """Make a project."""
    found = add_project(call.session, slug, name, description, owner=call.person.user_id)
    call.note(project=found)
    return _record(call, found, ProjectRole.OWNER)


@action("projects.get", "GET /projects/{project}", member(ProjectRole.STUDENT), "read")
def _get(call: Call) -> ProjectRecord:
    """See a project."""
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
