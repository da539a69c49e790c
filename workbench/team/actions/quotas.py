"""Per-user quotas, checked before work starts; `ALL_QUOTAS` drives checks, `me.quota`, its page and tests."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from sqlalchemy import Text, cast, func, select, union
from sqlalchemy.orm import Session as DatabaseSession

from workbench.team.access import ConflictError, ProjectRole
from workbench.team.actions.jobs import ENDED
from workbench.team.actions.schemas import Count, Record, one_of
from workbench.team.actions.server_settings import read_setting
from workbench.team.store.tables import (
    Comment,
    GalleryEntry,
    GivenAnswer,
    LogEntry,
    Member,
    Project,
    RegisteredProgram,
    StoredFigures,
    StoredJob,
    StoredPlan,
    StoredRoom,
    StudentWork,
)
from workbench.units import format_bytes

MIB = 1 << 20


@dataclass(frozen=True)
class Quota:
    """A limit at `setting` and `key`: `used` counts, `actions` add, `unit` is the bytes per count or 0."""

    name: str
    about: str
    setting: str
    key: str
    way_out: str
    actions: tuple[str, ...]
    used: Callable[[DatabaseSession, str], int]
    unit: int = 0

    def limit(self, session: DatabaseSession) -> int:
        return int(read_setting(session, self.setting)[self.key]) * (self.unit or 1)

    def text(self, amount: int) -> str:
        return format_bytes(amount) if self.unit else f"{amount:,}"

    def verify(self, session: DatabaseSession, user_id: str) -> None:
        used, limit = self.used(session, user_id), self.limit(session)
        if used >= limit:
            ways_out = [self.way_out, "ask an administrator for more"]
            raise ConflictError(f"You have {self.text(used)} of {self.text(limit)}: {self.about}.", ways_out)


def verify_quotas(session: DatabaseSession, action: str, user_id: str) -> None:
    """Raise `ConflictError` if the user has reached a limit that this action adds to."""
    for quota in ALL_QUOTAS:
        if action in quota.actions:
            quota.verify(session, user_id)


class QuotaRecord(Record, frozen=True):
    name: str
    about: str
    used: Count
    limit: Count
    unit: Annotated[str, one_of("count", "bytes")]


def quota_records(session: DatabaseSession, user_id: str) -> list[QuotaRecord]:
    return [
        QuotaRecord.of(quota, used=quota.used(session, user_id), limit=quota.limit(session), unit="bytes" if quota.unit else "count")
        for quota in ALL_QUOTAS
    ]


def _rows(of: Callable[[str], tuple[Any, ...]]) -> Callable[[DatabaseSession, str], int]:
    return lambda session, user_id: session.scalar(select(func.count()).where(*of(user_id))) or 0


_OWNED = (Member.role == str(ProjectRole.OWNER), Project.id == Member.project_id, Project.archived.is_(None), Project.personal_of.is_(None))
_OPEN = (StoredRoom.closed.is_(None), StoredRoom.id.not_in(select(StudentWork.room_id)))
_projects = _rows(lambda user_id: (Member.user_id == user_id, *_OWNED))
_programs = _rows(lambda user_id: (RegisteredProgram.by == user_id, RegisteredProgram.state != "withdrawn"))
_plans = _rows(lambda user_id: (GalleryEntry.author_id == user_id, GalleryEntry.withdrawn.is_(None)))
_rooms = _rows(lambda user_id: (StoredRoom.by == user_id, *_OPEN))
_jobs = _rows(lambda user_id: (StoredJob.author_id == user_id, StoredJob.state.not_in(ENDED)))


def _bytes(session: DatabaseSession, user_id: str) -> int:
    """Return the bytes stored for a user, including hidden items. Characters are counted as bytes."""
    plans = union(
        *(select(table.digest).where(table.author_id == user_id, table.digest.is_not(None)) for table in (GalleryEntry, GivenAnswer))
    )
    digests = select(plans.subquery().c.digest)
    sums = (
        select(func.sum(RegisteredProgram.size)).where(RegisteredProgram.by == user_id, RegisteredProgram.state != "withdrawn"),
        select(func.sum(func.length(StoredPlan.document))).where(StoredPlan.digest.in_(digests)),
        select(func.sum(func.length(StoredFigures.thumbnail))).where(StoredFigures.digest.in_(digests)),
        select(func.sum(func.length(Comment.text))).where(Comment.author_id == user_id),
        select(func.sum(func.length(cast(LogEntry.body, Text)))).where(LogEntry.author_id == user_id),
    )
    return sum(int(session.scalar(statement) or 0) for statement in sums)


ALL_QUOTAS = (
    Quota("projects", "projects you own", "projects", "per_person", "archive one", ("projects.create",), _projects),
    Quota("programs", "programs you registered", "accounts", "programs", "withdraw one", ("programs.add",), _programs),
    Quota("plans", "plans in galleries", "accounts", "plans", "remove a plan from its gallery", ("plans.push", "plans.fork"), _plans),
    Quota("rooms", "open rooms", "accounts", "rooms", "close one", ("rooms.open",), _rooms),
    Quota(
        "jobs",
        "active jobs",
        "jobs",
        "per_person",
        "wait for a job, or cancel a job",
        ("jobs.submit", "assignments.search", "assignments.compile"),
        _jobs,
    ),
    Quota(
        "storage",
        "programs, plans, comments and room edits",
        "accounts",
        "mebibytes",
        "withdraw a program",
        ("programs.add", "plans.push", "comments.add", "rooms.open", "rooms.edit", "answers.hand_in"),
        _bytes,
        MIB,
    ),
)
