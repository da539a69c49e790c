"""Projects: plans, rooms, programs and jobs that belong together. Each person has one alone, made at the first sign-in."""

import re
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session as DatabaseSession

from workbench.team.access import ProjectRole, parse_role
from workbench.team.actions.action import PERSON, Action, Call, member
from workbench.team.actions.held_roles import project_of_slug
from workbench.team.actions.input_errors import ConflictError
from workbench.team.actions.schemas import COUNT, FLAG, NAME, NOTE, ROLE, SLUG, TEXT, TIME, list_of, or_none, record, text
from workbench.team.actions.server_settings import read_setting
from workbench.team.store.store import new_id, now
from workbench.team.store.tables import GalleryEntry, Member, Project, StoredRoom, User

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
        "created": TIME,
        "archived": or_none(TIME),
    }
)
_NAMED = text(NAME, 1, pattern=r"^.*\S.*$")
_NEW = record({"slug": SLUG, "name": _NAMED}, {"description": text(NOTE)})
_CHANGED = record({}, {"name": _NAMED, "description": text(NOTE), "archived": FLAG})


def make_personal_project(session: DatabaseSession, user: User) -> Project:
    """The project of a person alone, which is made if there is none yet."""
    found = session.scalars(select(Project).where(Project.personal_of == user.id)).first()
    return found or add_project(session, _free_slug(session, user.name), f"{user.display}'s own", owner=user.id, personal=True)


def add_project(session: DatabaseSession, slug: str, name: str, description: str = "", *, owner: str, personal: bool = False) -> Project:
    """A new project with one owner. Raises `ConflictError` for a slug that is taken."""
    if project_of_slug(session, slug) is not None:
        raise ConflictError(f"The name `{slug}` is taken.", ["take another `slug`"])
    found = Project(
        id=new_id(),
        slug=slug,
        name=name.strip(),
        description=description,
        personal_of=owner if personal else None,
        created=now(),
        archived=None,
    )
    session.add(found)
    session.flush()
    session.add(Member(project_id=found.id, user_id=owner, role=str(ProjectRole.OWNER), since=now()))
    session.flush()
    return found


def _free_slug(session: DatabaseSession, name: str) -> str:
    """A slug like a person's name that no project has."""
    base = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:30] or "person"
    base = base if len(base) > 1 else f"{base}-own"
    taken = set(session.scalars(select(Project.slug).where(Project.slug.startswith(base, autoescape=True))))
    return next(slug for number in range(1, len(taken) + 2) if (slug := base if number == 1 else f"{base}-{number}") not in taken)


def _list(call: Call) -> dict[str, Any]:
    joined = select(Project, Member.role).join(Member, Member.project_id == Project.id).where(Member.user_id == call.person.user_id)
    if not call.query.get("archived", False):
        joined = joined.where(Project.archived.is_(None))
    return {"items": [_record(call, each, parse_role(role)) for each, role in call.session.execute(joined.order_by(Project.slug))]}


def _create(call: Call) -> dict[str, Any]:
    most = read_setting(call.session, "projects")["per_person"]
    owned = select(func.count()).select_from(Member).where(Member.user_id == call.person.user_id, Member.role == "owner")
    if call.session.scalar(owned) >= most + 1:  # and the personal one
        raise ConflictError(f"You own {most:,} projects, as many as one person may.", ["archive one", "ask an administrator"])
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
        "rooms": count(StoredRoom, StoredRoom.closed.is_(None)),
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
    Action("projects.get", "GET", "/projects/{project}", "See a project", member(ProjectRole.VIEWER), "read", _PROJECT, _get),
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
