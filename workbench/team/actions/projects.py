"""Projects: plans, rooms, programs and jobs that belong together."""

from typing import Any

from sqlalchemy import func, select

from workbench.team.access import ProjectRole, parse_role
from workbench.team.actions.action import PERSON, Action, Call, member
from workbench.team.actions.new_projects import add_project
from workbench.team.actions.schemas import COUNT, FLAG, NAME, NOTE, ROLE, SLUG, TEXT, TIME, list_of, or_none, record, text
from workbench.team.store.store import now
from workbench.team.store.tables import Assignment, GalleryEntry, Member, Project, StoredRoom, StudentWork

_PROJECT = record(
    {
        "slug": SLUG,
        "name": TEXT,
        "description": TEXT,
        "personal": FLAG,
        "role": ROLE,
        "members": COUNT,
        "plans": COUNT,
        "rooms": COUNT,
        "assignments": COUNT,
        "created": TIME,
        "archived": or_none(TIME),
    }
)
_NAMED = text(NAME, 1, pattern=r"^.*\S.*$")
_NEW = record({"slug": SLUG, "name": _NAMED}, {"description": text(NOTE)})
_CHANGED = record({}, {"name": _NAMED, "description": text(NOTE), "archived": FLAG})


def _list(call: Call) -> dict[str, Any]:
    joined = select(Project, Member.role).join(Member, Member.project_id == Project.id).where(Member.user_id == call.person.user_id)
    if not call.query.get("archived", False):
        joined = joined.where(Project.archived.is_(None))
    return {"items": [_record(call, each, parse_role(role)) for each, role in call.session.execute(joined.order_by(Project.slug))]}


def _create(call: Call) -> dict[str, Any]:
    found = add_project(call.session, call.body["slug"], call.body["name"], call.body.get("description", ""), owner=call.person.user_id)
    call.note(project=found)
    return _record(call, found, ProjectRole.OWNER)


def _get(call: Call) -> dict[str, Any]:
    return _record(call, call.project, call.found.role)


def _update(call: Call) -> dict[str, Any]:
    project, body = call.project, call.body
    project.name = body.get("name", project.name).strip()
    project.description = body.get("description", project.description)
    if "archived" in body:
        project.archived = (project.archived or now()) if body["archived"] else None
    call.note(changed=sorted(body))
    return _record(call, project, call.found.role)


def _record(call: Call, project: Project, role: ProjectRole | None) -> dict[str, Any]:
    def count(table: Any, *where: Any) -> int:
        return call.session.scalar(select(func.count()).select_from(table).where(table.project_id == project.id, *where)) or 0

    return {
        "slug": project.slug,
        "name": project.name,
        "description": project.description,
        "personal": project.personal_of is not None,
        "role": str(role),
        "members": count(Member),
        "plans": count(GalleryEntry, GalleryEntry.withdrawn.is_(None)),
        "rooms": count(StoredRoom, StoredRoom.closed.is_(None), StoredRoom.id.not_in(select(StudentWork.room_id))),
        "assignments": count(Assignment, Assignment.withdrawn.is_(None)),
        "created": project.created,
        "archived": project.archived,
    }


ACTIONS = (
    Action(
        "projects.list",
        "GET",
        "/projects",
        "List my projects",
        PERSON,
        "read",
        record({"items": list_of(_PROJECT, 10_000)}),
        _list,
        query={"archived": FLAG},
    ),
    Action(
        "projects.create", "POST", "/projects", "Make a project", PERSON, "manage", _PROJECT, _create, body=_NEW, status=201, subject="slug"
    ),
    Action("projects.get", "GET", "/projects/{project}", "See a project", member(ProjectRole.STUDENT), "read", _PROJECT, _get),
    Action(
        "projects.update",
        "PATCH",
        "/projects/{project}",
        "Rename, describe or archive a project",
        member(ProjectRole.OWNER),
        "manage",
        _PROJECT,
        _update,
        body=_CHANGED,
    ),
)
