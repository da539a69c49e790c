"""Find the plans that a user may read, and the registered program that a document names.

Readable plans are those in galleries, rooms and jobs of the user's projects, and in rooms of their links and
assignments. The program is read from the JSON only; the planner reports invalid documents.
"""

import json
from typing import Any

from sqlalchemy import ColumnElement, exists, or_, select
from sqlalchemy.orm import Session as DatabaseSession

from workbench.team.access import InputError, MissingError, ProjectRole
from workbench.team.actions.schemas import Id, Record
from workbench.team.store.store import now
from workbench.team.store.tables import (
    GalleryEntry,
    Guest,
    LogEntry,
    Member,
    Participant,
    Project,
    RegisteredProgram,
    Share,
    StoredJob,
    StoredPlan,
    StoredRoom,
    User,
)

_DIGEST = 64  # characters


class NamedEntry(Record, frozen=True):
    id: Id
    name: str


def project_ids_of(session: DatabaseSession, user: User) -> set[str]:
    """Return the projects whose plans a user may read."""
    if user.admin:
        return set(session.scalars(select(Project.id)))
    return set(session.scalars(select(Member.project_id).where(Member.user_id == user.id, Member.role != str(ProjectRole.STUDENT))))


def plan_of_project(session: DatabaseSession, project_id: str, name: str) -> tuple[StoredPlan, GalleryEntry | None]:
    """Return a project's plan by digest or entry ID, with its newest entry. Raises `MissingError`."""
    entry = session.scalars(_entries(project_id, name).limit(1)).first()
    digest = entry.digest if entry else name
    plan = session.get(StoredPlan, digest) if len(digest) == _DIGEST else None
    if plan is None or not (
        entry or session.scalar(select(_is_in(StoredRoom.project_id == project_id, StoredJob.project_id == project_id, digest)))
    ):
        raise MissingError("plan", name)
    return plan, entry


def readable_plan(session: DatabaseSession, user: User, digest: str) -> StoredPlan:
    """Return a plan by digest if the user may read it. Raises `MissingError`."""
    plan = session.get(StoredPlan, digest)
    projects = project_ids_of(session, user)
    in_gallery = exists().where(GalleryEntry.digest == digest, GalleryEntry.project_id.in_(projects))
    links = select(Share.room_id).join(Guest, Guest.share_id == Share.id)
    links = links.where(Guest.user_id == user.id, Share.revoked.is_(None), Share.expires > now(), Share.room_id.is_not(None))
    work_rooms = select(Participant.room_id).where(Participant.user_id == user.id)
    rooms = or_(StoredRoom.project_id.in_(projects), StoredRoom.id.in_(links), StoredRoom.id.in_(work_rooms))
    if plan is None or not session.scalar(select(or_(in_gallery, _is_in(rooms, StoredJob.project_id.in_(projects), digest)))):
        raise MissingError("plan", digest)
    return plan


def newest_entries(session: DatabaseSession, plans: set[tuple[str, str]]) -> dict[tuple[str, str], NamedEntry]:
    """Return the newest entry of each plan by project and digest, omitting plans in no gallery."""
    projects, digests = {key[0] for key in plans}, {key[1] for key in plans}
    entries = select(GalleryEntry).where(GalleryEntry.project_id.in_(projects), GalleryEntry.digest.in_(digests))
    rows = session.scalars(entries.where(GalleryEntry.withdrawn.is_(None)).order_by(GalleryEntry.created)) if plans else ()
    return {(key.project_id, key.digest): NamedEntry.of(key) for key in rows}


def _entries(project_id: str, name: str) -> Any:
    which = GalleryEntry.digest == name if len(name) == _DIGEST else GalleryEntry.id == name
    return select(GalleryEntry).where(GalleryEntry.project_id == project_id, which).order_by(GalleryEntry.created.desc())


def _is_in(rooms: ColumnElement[bool], jobs: ColumnElement[bool], digest: str) -> ColumnElement[bool]:
    first = exists().where(StoredRoom.first == digest, rooms)
    later = exists().where(LogEntry.digest == digest, LogEntry.room_id == StoredRoom.id, rooms)
    return or_(first, later, exists().where(StoredJob.digest == digest, jobs))


def program_of_document(session: DatabaseSession, project_id: str, text: str) -> RegisteredProgram | None:
    """Return the program of the project that a document names. Returns `None` for a zoo model or an invalid document.
    Raises `InputError` for an unregistered or unapproved program; nothing of it is imported.
    """
    target = _target_of(text)
    if target is None or ":" not in target:
        return None
    return approved_program(session, project_id, target)


_NOT_YET = {
    "added": "has not been fetched yet",
    "fetched": "is fetched but not approved yet",
    "failed": "could not be fetched",
    "withdrawn": "was withdrawn",
}


def approved_program(session: DatabaseSession, project_id: str, target: str) -> RegisteredProgram:
    """Return the approved program of a target `module:function`. Raises `InputError`."""
    statement = select(RegisteredProgram).where(RegisteredProgram.project_id == project_id, RegisteredProgram.target == target)
    programs = session.scalars(statement.order_by(RegisteredProgram.created.desc())).all()
    approved = [program for program in programs if program.state == "approved"]
    if approved:
        return approved[0]
    printable_target = target[:80].encode("utf-8", "backslashreplace").decode()
    if programs:
        reason = _NOT_YET[programs[0].state]
        raise InputError(f"`{printable_target}` {reason}; it runs only after it is approved.", ["ask an owner of the project"])
    raise InputError(
        f"`{printable_target}` is not a program of this project.", ["have an owner add it to the programs", "use a model of the zoo"]
    )


def _target_of(text: str) -> str | None:
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    program = document.get("program") if isinstance(document, dict) else None
    target = program.get("target") if isinstance(program, dict) else None
    return target if isinstance(target, str) and len(target) <= 400 and "\0" not in target and target.isprintable() else None
