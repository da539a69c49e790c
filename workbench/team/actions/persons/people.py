"""Administrators' view of the people of the server: who there is, who is invited, disabled, or an administrator.

**Invariants**

- One who is disabled is signed in nowhere: logins and tokens are good only for those who are active, and open pages end within a second.
- There is always an administrator who is active.
"""

from typing import Any

from sqlalchemy import func, or_, select

from workbench.team.access import ProjectRole, parse_role
from workbench.team.accounts.invitations import NewInvitation, invite
from workbench.team.accounts.people import disable_user, enable_user, set_admin
from workbench.team.actions.action import ADMIN, Action, Call, member
from workbench.team.actions.pages_of_lists import list_page
from workbench.team.actions.people_records import user_of_name
from workbench.team.actions.schemas import DAYS, FLAG, ID, NAME, PAGE, ROLE, TEXT, TIME, listing, or_none, record, text
from workbench.team.store.store import now
from workbench.team.store.tables import User

_PERSON = record({"id": ID, "name": TEXT, "display": TEXT, "email": or_none(TEXT), "admin": FLAG, "active": FLAG, "created": TIME})
_INVITATION = record({"address": TEXT, "expires": TIME, "admin": FLAG, "role": or_none(ROLE)})
_DAY = 86_400.0
_INVITED_DAYS = 7
_NOTE = 200


def _list(call: Call) -> dict[str, Any]:
    found = select(User)
    if words := call.query.get("q"):
        part = f"%{escape_like(words.lower())}%"
        found = found.where(or_(*(func.lower(each).like(part, escape="\\") for each in (User.name, User.display, User.email))))
    if "active" in call.query:
        found = found.where(User.active == call.query["active"])
    return list_page(call.session, found, User.created, User.id, call.query, _record)


def _update(call: Call) -> dict[str, Any]:
    user = user_of_name(call.session, call.inputs.path["person"])
    body = call.body
    if "display" in body:
        user.display = body["display"].strip() or user.name
    if "admin" in body:
        set_admin(call.session, user, admin=body["admin"])
    if "active" in body:
        enable_user(user) if body["active"] else disable_user(call.session, user)
    call.note(**{key: body[key] for key in ("admin", "active") if key in body})
    return _record(user)


async def _announce(call: Call, _answer: Any) -> None:
    """Close at once what is open for logins that have ended."""
    await call.services.revocations.check()


def _invite(call: Call) -> dict[str, Any]:
    return make_invitation(call, None, None, admin=call.body.get("admin", False))


def _invite_to_project(call: Call) -> dict[str, Any]:
    return make_invitation(call, call.project.id, call.body["role"], admin=False)


def make_invitation(call: Call, project_id: str | None, role: str | None, *, admin: bool) -> dict[str, Any]:
    """An invitation, and the link that is shown this once."""
    lasts = call.body.get("days", _INVITED_DAYS) * _DAY
    given = parse_role(role) if role else None
    wanted = NewInvitation(call.person.user_id, project_id, given, admin, note=call.body.get("note", ""), lasts=lasts)
    secret = invite(call.session, wanted)
    call.note(admin=admin, role=role)
    return {"address": call.services.url(f"/invite/{secret}"), "expires": now() + lasts, "admin": admin, "role": role}


def _record(user: User) -> dict[str, Any]:
    own = {"id": user.id, "name": user.name, "display": user.display, "email": user.email}
    return {**own, "admin": user.admin, "active": user.active, "created": user.created}


def escape_like(words: str) -> str:
    """Words as they are within `LIKE`.

    >>> escape_like("50%_")
    '50\\\\%\\\\_'
    """
    return words.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


ACTIONS = (
    Action(
        "people.list",
        "GET",
        "/people",
        "List the people of the server",
        ADMIN,
        "manage",
        listing(_PERSON),
        _list,
        query={**PAGE, "q": text(NAME, 1), "active": FLAG},
    ),
    Action(
        "people.invite",
        "POST",
        "/people/invitations",
        "Invite somebody who has no account; the link is shown this once",
        ADMIN,
        "manage",
        _INVITATION,
        _invite,
        body=record({}, {"admin": FLAG, "note": text(_NOTE), "days": DAYS}),
        status=201,
    ),
    Action(
        "people.update",
        "PATCH",
        "/people/{person}",
        "Disable or enable somebody, or make somebody an administrator",
        ADMIN,
        "manage",
        _PERSON,
        _update,
        body=record({}, {"active": FLAG, "admin": FLAG, "display": text(NAME)}),
        afterwards=_announce,
    ),
    Action(
        "members.invite",
        "POST",
        "/projects/{project}/invitations",
        "Invite somebody who has no account into a project; the link is shown this once",
        member(ProjectRole.OWNER),
        "manage",
        _INVITATION,
        _invite_to_project,
        body=record({"role": ROLE}, {"note": text(_NOTE), "days": DAYS}),
        status=201,
    ),
)
