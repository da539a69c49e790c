"""Who did what to what, and when: for administrators of the whole server, for owners of their project."""

from typing import Any

from sqlalchemy import Select, select
from sqlalchemy.orm import Session as DatabaseSession

from workbench.team.access import ProjectRole
from workbench.team.actions.action import ADMIN, Action, Call, member
from workbench.team.actions.pages_of_lists import list_page
from workbench.team.actions.people_records import people_by_id, project_slugs
from workbench.team.actions.schemas import ANYTHING, COUNT, NAME, PAGE, PERSON, SLUG, TEXT, TIME, listing, or_none, record, text
from workbench.team.store.tables import AuditEntry, User

_ENTRY = record(
    {
        "id": COUNT,
        "created": TIME,
        "person": or_none(PERSON),
        "project": or_none(SLUG),
        "action": TEXT,
        "subject": TEXT,
        "details": {"type": "object", "additionalProperties": ANYTHING},
        "address": TEXT,
    }
)
_QUERY = {**PAGE, "person": text(NAME, 1), "action": text(NAME, 1), "subject": text(NAME, 1)}


def _of_server(call: Call) -> dict[str, Any]:
    return _page(call, select(AuditEntry))


def _of_project(call: Call) -> dict[str, Any]:
    return _page(call, select(AuditEntry).where(AuditEntry.project_id == call.project.id))


def _page(call: Call, found: Select[Any]) -> dict[str, Any]:
    for key, column in (("action", AuditEntry.action), ("subject", AuditEntry.subject)):
        if key in call.query:
            found = found.where(column == call.query[key])
    if "person" in call.query:
        found = found.where(AuditEntry.user_id.in_(select(User.id).where(User.name == call.query["person"])))
    page = list_page(call.session, found, AuditEntry.created, AuditEntry.id, call.query, _record)
    return {**page, "items": _with_names(call.session, page["items"])}


def _with_names(session: DatabaseSession, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    people = people_by_id(session, (each["person"] for each in items))
    slugs = project_slugs(session, (each["project"] for each in items))
    return [{**each, "person": people.get(each["person"]), "project": slugs.get(each["project"])} for each in items]


def _record(entry: AuditEntry) -> dict[str, Any]:
    own = {"id": entry.id, "created": entry.created, "person": entry.user_id, "project": entry.project_id}
    return {**own, "action": entry.action, "subject": entry.subject, "details": entry.details, "address": entry.address}


ACTIONS = (
    Action("audit.list", "GET", "/audit", "List all that was changed", ADMIN, "manage", listing(_ENTRY), _of_server, query=_QUERY),
    Action(
        "audit.of_project",
        "GET",
        "/projects/{project}/audit",
        "List what was changed in a project",
        member(ProjectRole.OWNER),
        "manage",
        listing(_ENTRY),
        _of_project,
        query=_QUERY,
    ),
)
