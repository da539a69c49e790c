"""How people and projects are named in answers."""

from collections.abc import Iterable

from sqlalchemy import select
from sqlalchemy.orm import Session as DatabaseSession

from workbench.team.access import MissingError
from workbench.team.actions.schemas import PersonRecord
from workbench.team.store.tables import Project, User


def people_by_id(session: DatabaseSession, ids: Iterable[str | None]) -> dict[str, PersonRecord]:
    """Name and display name of each, by id."""
    wanted = {each for each in ids if each}
    found = session.execute(select(User.id, User.name, User.display).where(User.id.in_(wanted))) if wanted else ()
    return {user_id: PersonRecord(name=name, display=display) for user_id, name, display in found}


def project_slugs(session: DatabaseSession, ids: Iterable[str | None]) -> dict[str, str]:
    """The name in addresses of each project, by id."""
    wanted = {each for each in ids if each}
    found = session.execute(select(Project.id, Project.slug).where(Project.id.in_(wanted))) if wanted else ()
    return {project_id: slug for project_id, slug in found}  # noqa: C416 - rows are no pairs for the type checker


def user_of_name(session: DatabaseSession, name: str) -> User:
    """The person whom colleagues type as this. Raises `MissingError`."""
    found = session.scalars(select(User).where(User.name == name)).first()
    if found is None:
        raise MissingError("person", name)
    return found
