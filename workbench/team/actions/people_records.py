"""How people are named in answers."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session as DatabaseSession

from workbench.team.access import MissingError
from workbench.team.store.tables import User


def people_by_id(session: DatabaseSession, ids: Iterable[str | None]) -> dict[str, dict[str, Any]]:
    """Name and display name of each, by id."""
    wanted = {each for each in ids if each}
    found = session.execute(select(User.id, User.name, User.display).where(User.id.in_(wanted))) if wanted else ()
    return {user_id: {"name": name, "display": display} for user_id, name, display in found}


def user_of_name(session: DatabaseSession, name: str) -> User:
    """The person whom colleagues type as this. Raises `MissingError`."""
    found = session.scalars(select(User).where(User.name == name)).first()
    if found is None:
        raise MissingError("person", name)
    return found
