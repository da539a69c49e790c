"""The person who asks: who they are here, which projects they are in, how they show themselves, and where they are signed in."""

from typing import Any

from sqlalchemy import func, select

from workbench.team.access import MissingError, ProjectRole
from workbench.team.accounts.logins import logins_of, revoke_login
from workbench.team.actions.action import PERSON, Action, Call, member
from workbench.team.actions.input_errors import ConflictError
from workbench.team.actions.quotas import quota_records
from workbench.team.actions.schemas import COUNT, FLAG, ID, NAME, NOTHING, ROLE, SLUG, TEXT, TIME, list_of, one_of, or_none, record, text
from workbench.team.store.tables import Login, Member, Project, User

_MEMBERSHIP = record({"project": SLUG, "name": TEXT, "role": ROLE, "personal": FLAG, "archived": FLAG})
_ME = record(
    {
        "id": ID,
        "name": TEXT,
        "display": TEXT,
        "email": or_none(TEXT),
        "admin": FLAG,
        "way": TEXT,
        "scopes": or_none(list_of(TEXT)),
        "projects": list_of(_MEMBERSHIP, 10_000),
    }
)
_LOGIN = record({"id": TEXT, "way": TEXT, "agent": TEXT, "created": TIME, "expires": TIME, "present": FLAG})
_QUOTA = record({"name": TEXT, "about": TEXT, "used": COUNT, "limit": COUNT, "unit": one_of("count", "bytes")})
_SHOWN = 20  # hexadecimal digits of a login's digest: enough to name it


def _get(call: Call) -> dict[str, Any]:
    user = call.session.get_one(User, call.person.user_id)
    joined = select(Project, Member.role).join(Member, Member.project_id == Project.id).where(Member.user_id == user.id)
    mine = call.session.execute(joined.order_by(Project.slug)).all()
    projects = [
        {"project": each.slug, "name": each.name, "role": role, "personal": each.personal_of == user.id, "archived": bool(each.archived)}
        for each, role in mine
    ]
    scopes = None if call.person.scopes is None else sorted(call.person.scopes)
    own = {"id": user.id, "name": user.name, "display": user.display, "email": user.email, "admin": user.admin}
    return {**own, "way": call.person.way, "scopes": scopes, "projects": projects}


def _update(call: Call) -> dict[str, Any]:
    call.session.get_one(User, call.person.user_id).display = call.body["display"].strip() or call.person.name
    call.session.flush()
    return _get(call)


def _quota(call: Call) -> dict[str, Any]:
    return {"items": quota_records(call.session, call.person.user_id)}


def _logins(call: Call) -> dict[str, Any]:
    items = [
        {
            "id": each.digest[:_SHOWN],
            "way": each.way,
            "agent": each.agent,
            "created": each.created,
            "expires": each.expires,
            "present": call.person.way == "login" and each.digest == call.person.key,
        }
        for each in logins_of(call.session, call.person.user_id)
    ]
    return {"items": items}


def _sign_out(call: Call) -> dict[str, Any]:
    name = call.inputs.path["login"]
    mine = select(Login.digest).where(Login.user_id == call.person.user_id, func.substr(Login.digest, 1, _SHOWN) == name)
    ended = [each for digest in call.session.scalars(mine).all() for each in revoke_login(call.session, digest)]
    if not ended:
        raise MissingError("login", name)
    return {}


async def _announce(call: Call, _answer: Any) -> None:
    """Close at once what is open for logins that have ended."""
    await call.services.revocations.check()


def _leave(call: Call) -> dict[str, Any]:
    if call.project.personal_of == call.person.user_id:
        raise ConflictError("This is your own project; nobody leaves that.", ["archive it"])
    held = call.session.get(Member, (call.project.id, call.person.user_id))
    if held is None:
        raise MissingError("membership", call.project.slug)
    verify_owner_remains(call, call.person.user_id)
    call.session.delete(held)
    return {}


def verify_owner_remains(call: Call, without: str) -> None:
    """Raises `ConflictError` if nobody else than this person owns the project."""
    owners = select(Member.user_id).join(User, User.id == Member.user_id).where(User.active)
    owners = owners.where(Member.project_id == call.project.id, Member.role == str(ProjectRole.OWNER))
    if set(call.session.scalars(owners)) <= {without}:
        raise ConflictError(f"`{call.project.slug}` would have no owner.", ["make somebody else an owner first"])


ACTIONS = (
    Action("me.get", "GET", "/me", "See who I am here, and my projects", PERSON, "read", _ME, _get),
    Action(
        "me.update",
        "PATCH",
        "/me",
        "Change how I am shown",
        PERSON,
        "edit",
        _ME,
        _update,
        body=record({"display": text(NAME, 1)}),
        subject="id",
    ),
    Action(
        "me.quota", "GET", "/me/quota", "See what I have, and how much I may", PERSON, "read", record({"items": list_of(_QUOTA)}), _quota
    ),
    Action("me.logins", "GET", "/me/logins", "List where I am signed in", PERSON, "manage", record({"items": list_of(_LOGIN)}), _logins),
    Action(
        "me.sign_out", "DELETE", "/me/logins/{login}", "End one of my logins", PERSON, "manage", NOTHING, _sign_out, afterwards=_announce
    ),
    Action("me.leave", "DELETE", "/me/projects/{project}", "Leave a project", member(ProjectRole.STUDENT), "manage", NOTHING, _leave),
)
