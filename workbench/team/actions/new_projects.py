"""How a project begins: with one owner. Each person has one alone, made with the account."""

import re

from sqlalchemy import select
from sqlalchemy.orm import Session as DatabaseSession

from workbench.team.access import ProjectRole
from workbench.team.actions.input_errors import ConflictError
from workbench.team.store.store import new_id, now
from workbench.team.store.tables import Member, Project, User


def make_personal_project(session: DatabaseSession, user: User) -> Project:
    """The project of a person alone, which is made if there is none yet."""
    found = session.scalars(select(Project).where(Project.personal_of == user.id)).first()
    return found or add_project(session, _free_slug(session, user.name), f"{user.display}'s own", owner=user.id, personal=True)


def add_project(session: DatabaseSession, slug: str, name: str, description: str = "", *, owner: str, personal: bool = False) -> Project:
    """A new project with one owner. Raises `ConflictError` for a slug that is taken."""
    if session.scalar(select(Project.id).where(Project.slug == slug)) is not None:
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
