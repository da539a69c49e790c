"""User administration: list, invite, disable, and grant administrator status.

**Invariants**

- Disabled users have no access: logins and tokens require an active account, and open pages close within a second.
- The server always has an active administrator.
"""

from typing import Annotated

from msgspec import Meta
from sqlalchemy import func, or_, select

from workbench.team.access import ProjectRole, parse_role
from workbench.team.accounts.invitations import invite
from workbench.team.accounts.user_accounts import disable_user, enable_user, set_admin
from workbench.team.actions.action import ADMIN, Call, action, member
from workbench.team.actions.me import close_ended_logins
from workbench.team.actions.schemas import NAME, Days, Id, ListPage, PageQuery, Record, RoleName, Time, Word, list_page, user_of_name
from workbench.team.store.store import now
from workbench.team.store.tables import User

_DAY = 86_400.0
_INVITED_DAYS = 7
InvitationNote = Annotated[str, Meta(max_length=200)]


class AccountRecord(Record, frozen=True):
    id: Id
    name: str
    display: str
    email: str | None
    admin: bool
    active: bool
    created: Time


class PeopleQuery(PageQuery, frozen=True):
    q: Word | None = None
    active: bool | None = None


class InvitationRecord(Record, frozen=True):
    address: str
    expires: Time
    admin: bool
    role: RoleName | None


@action("people.list", "GET /people", ADMIN, "manage")
def _list(call: Call, query: PeopleQuery) -> ListPage[AccountRecord]:
    """List the users of the server."""
    statement = select(User)
    if query.q is not None:
        part = f"%{escape_like(query.q.lower())}%"
        statement = statement.where(or_(*(func.lower(column).like(part, escape="\\") for column in (User.name, User.display, User.email))))
    if query.active is not None:
        statement = statement.where(User.active == query.active)
    return list_page(call.session, statement, User.created, User.id, query, lambda users: list(map(AccountRecord.of, users)))


@action("people.invite", "POST /people/invitations", ADMIN, "manage", status=201)
def _invite(call: Call, *, admin: bool = False, note: InvitationNote = "", days: Days = _INVITED_DAYS) -> InvitationRecord:
    """Invite somebody without an account; the link is shown once."""
    return _invitation(call, days, admin=admin, note=note)


@action("people.update", "PATCH /people/{person}", ADMIN, "manage", afterwards=close_ended_logins)
def _update(
    call: Call, person: str, *, active: bool | None = None, admin: bool | None = None, display: Annotated[str, Meta(max_length=NAME)] = ""
) -> AccountRecord:
    """Disable or enable a user, or change administrator status."""
    user = user_of_name(call.session, person)
    if "display" in call.body:
        user.display = display.strip() or user.name
    if admin is not None:
        set_admin(call.session, user, admin=admin)
    if active is not None:
        enable_user(user) if active else disable_user(call.session, user)
    call.note(**{key: call.body[key] for key in ("admin", "active") if key in call.body})
    return AccountRecord.of(user)


@action("members.invite", "POST /projects/{project}/invitations", member(ProjectRole.OWNER), "manage", status=201)
def _invite_to_project(call: Call, role: RoleName, note: InvitationNote = "", days: Days = _INVITED_DAYS) -> InvitationRecord:
    """Invite somebody without an account to a project; the link is shown once."""
    return _invitation(call, days, project_id=call.project.id, role=parse_role(role), note=note)


def _invitation(call: Call, days: int, *, admin: bool = False, role: ProjectRole | None = None, **more: str) -> InvitationRecord:
    secret = invite(call.session, by=call.person.user_id, admin=admin, role=role, lasts=days * _DAY, **more)
    role_name = str(role) if role else None
    call.note(admin=admin, role=role_name)
    return InvitationRecord(address=call.services.url(f"/invite/{secret}"), expires=now() + days * _DAY, admin=admin, role=role_name)


def escape_like(words: str) -> str:
    r"""Escape a text for a `LIKE` pattern.

    >>> escape_like("50%_")
    '50\\%\\_'
    """
    return words.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
