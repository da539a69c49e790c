"""The audit log: of the whole server for administrators, of a project for its owners."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Select, select
from sqlalchemy.orm import Session as DatabaseSession

from workbench.team.access import ProjectRole
from workbench.team.actions import schemas
from workbench.team.actions.action import ADMIN, Call, action, member
from workbench.team.store.tables import AuditEntry, User


class AuditRecord(schemas.Record, frozen=True):
    id: schemas.Count
    created: schemas.Time
    person: schemas.PersonRecord | None
    project: schemas.Slug | None
    action: str
    subject: str
    details: dict[str, Any]
    address: str


class AuditQuery(schemas.PageQuery, frozen=True):
    person: schemas.Word | None = None
    action: schemas.Word | None = None
    subject: schemas.Word | None = None


@action("audit.list", "GET /audit", ADMIN, "manage")
def _of_server(call: Call, query: AuditQuery) -> schemas.ListPage[AuditRecord]:
    """List all changes on the server."""
    return _page(call.session, select(AuditEntry), query)


@action("audit.of_project", "GET /projects/{project}/audit", member(ProjectRole.OWNER), "manage")
def _of_project(call: Call, query: AuditQuery) -> schemas.ListPage[AuditRecord]:
    """List all changes in a project."""
    return _page(call.session, select(AuditEntry).where(AuditEntry.project_id == call.project.id), query)


def _page(session: DatabaseSession, found: Select[Any], query: AuditQuery) -> schemas.ListPage[AuditRecord]:
    for column, value in ((AuditEntry.action, query.action), (AuditEntry.subject, query.subject)):
        if value is not None:
            found = found.where(column == value)
    if query.person is not None:
        found = found.where(AuditEntry.user_id.in_(select(User.id).where(User.name == query.person)))
    return schemas.list_page(session, found, AuditEntry.created, AuditEntry.id, query, lambda entries: _records(session, entries))


def _records(session: DatabaseSession, entries: Sequence[AuditEntry]) -> list[AuditRecord]:
    people = schemas.people_by_id(session, (entry.user_id for entry in entries))
    slugs = schemas.project_slugs(session, (entry.project_id for entry in entries))
    return [AuditRecord.of(entry, person=people.get(entry.user_id or ""), project=slugs.get(entry.project_id or "")) for entry in entries]
