"""Which plans somebody may read: those in galleries, rooms and jobs of their projects, and in rooms of their links and assignments;
and the registered program that a document names, which is read here as JSON alone: what is wrong with it, a planner says."""

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
    """An entry of a gallery by its name."""

    id: Id
    name: str


def project_ids_of(session: DatabaseSession, user: User) -> set[str]:
    """The projects whose plans somebody may read."""
    if user.admin:
        return set(session.scalars(select(Project.id)))
    return set(session.scalars(select(Member.project_id).where(Member.user_id == user.id, Member.role != str(ProjectRole.STUDENT))))


def plan_of_project(session: DatabaseSession, project_id: str, name: str) -> tuple[StoredPlan, GalleryEntry | None]:
    """The plan of a digest or of an entry's id within one project, and the newest entry that it is in. Raises `MissingError`."""
    entry = session.scalars(_entries(project_id, name).limit(1)).first()
    digest = entry.digest if entry else name
    plan = session.get(StoredPlan, digest) if len(digest) == _DIGEST else None
    if plan is None or not (
        entry or session.scalar(select(_is_in(StoredRoom.project_id == project_id, StoredJob.project_id == project_id, digest)))
    ):
        raise MissingError("plan", name)
    return plan, entry


def readable_plan(session: DatabaseSession, user: User, digest: str) -> StoredPlan:
    """The plan of a digest, if somebody may read it in any way. Raises `MissingError`."""
    plan = session.get(StoredPlan, digest)
    projects = project_ids_of(session, user)
    in_gallery = exists().where(GalleryEntry.digest == digest, GalleryEntry.project_id.in_(projects))
    links = select(Share.room_id).join(Guest, Guest.share_id == Share.id)
    links = links.where(Guest.user_id == user.id, Share.revoked.is_(None), Share.expires > now(), Share.room_id.is_not(None))
    own = select(Participant.room_id).where(Participant.user_id == user.id)
    rooms = or_(StoredRoom.project_id.in_(projects), StoredRoom.id.in_(links), StoredRoom.id.in_(own))
    if plan is None or not session.scalar(select(or_(in_gallery, _is_in(rooms, StoredJob.project_id.in_(projects), digest)))):
        raise MissingError("plan", digest)
    return plan


def newest_entries(session: DatabaseSession, plans: set[tuple[str, str]]) -> dict[tuple[str, str], NamedEntry]:
    """Id and name of the newest entry that a plan is in, by project and digest; none for a plan that is in no gallery there."""
    projects, digests = {each[0] for each in plans}, {each[1] for each in plans}
    entries = select(GalleryEntry).where(GalleryEntry.project_id.in_(projects), GalleryEntry.digest.in_(digests))
    found = session.scalars(entries.where(GalleryEntry.withdrawn.is_(None)).order_by(GalleryEntry.created)) if plans else ()
    return {(each.project_id, each.digest): NamedEntry.of(each) for each in found}


def _entries(project_id: str, name: str) -> Any:
    which = GalleryEntry.digest == name if len(name) == _DIGEST else GalleryEntry.id == name
    return select(GalleryEntry).where(GalleryEntry.project_id == project_id, which).order_by(GalleryEntry.created.desc())


def _is_in(rooms: ColumnElement[bool], jobs: ColumnElement[bool], digest: str) -> ColumnElement[bool]:
    """Whether the plan is, or was, in one of the rooms, or in one of the jobs."""
    first = exists().where(StoredRoom.first == digest, rooms)
    later = exists().where(LogEntry.digest == digest, LogEntry.room_id == StoredRoom.id, rooms)
    return or_(first, later, exists().where(StoredJob.digest == digest, jobs))


def program_of_document(session: DatabaseSession, project_id: str, text: str) -> RegisteredProgram | None:
    """The program of the project that a document names; `None` where it names one of the zoo, or is no document. Raises `InputError` for a
    program that nobody registered, or that is not approved: nothing of it is imported then."""
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
    """The approved program of a target, `module:function`. Raises `InputError`."""
    named = select(RegisteredProgram).where(RegisteredProgram.project_id == project_id, RegisteredProgram.target == target)
    found = session.scalars(named.order_by(RegisteredProgram.created.desc())).all()
    approved = [each for each in found if each.state == "approved"]
    if approved:
        return approved[0]
    shown = target[:80].encode("utf-8", "backslashreplace").decode()
    if found:
        why = _NOT_YET[found[0].state]
        raise InputError(f"`{shown}` {why}; it runs only after it is approved.", ["ask an owner of the project"])
    raise InputError(f"`{shown}` is not a program of this project.", ["have an owner add it to the programs", "use a model of the zoo"])


def _target_of(text: str) -> str | None:
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    program = document.get("program") if isinstance(document, dict) else None
    target = program.get("target") if isinstance(program, dict) else None
    return target if isinstance(target, str) and len(target) <= 400 and "\0" not in target and target.isprintable() else None
