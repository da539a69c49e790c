"""Administrators' view of the people of the server: who there is, who is invited, disabled, or an administrator.

**Invariants**

- One who is disabled is signed in nowhere: logins and tokens are good only for those who are active, and open pages end within a second.
- There is always an administrator who is active.
"""

from typing import Annotated

from msgspec import Meta
from sqlalchemy import func, or_, select

from workbench.team.access import ProjectRole, parse_role
from workbench.team.accounts.invitations import invite
from workbench.team.accounts.user_accounts import disable_user, enable_user, set_admin
from workbench.team.actions.action import ADMIN, Call, action, member
from workbench.team.actions.persons.me import close_ended_logins
from workbench.team.actions.schemas import NAME, Days, Id, ListPage, PageQuery, Record, RoleName, Time, Word, list_page, user_of_name
from workbench.team.store.store import now
from workbench.team.store.tables import User

_DAY = 86_400.0
_INVITED_DAYS = 7
InvitationNote = Annotated[str, Meta(max_length=200)]


class AccountRecord(Record, frozen=True):
    """A person of the server, as its administrators see them."""

    id: Id
    name: str
    display: str
    email: str | None
    admin: bool
    active: bool
    created: Time


class PeopleQuery(PageQuery, frozen=True):
    """What people can be searched by."""

    q: Word | None = None
    active: bool | None = None


class InvitationRecord(Record, frozen=True):
    """An invitation, and the link that is shown this once."""

    address: str
    expires: Time
    admin: bool
    role: RoleName | None


@action("people.list", "GET /people", ADMIN, "manage")
def _list(call: Call, query: PeopleQuery) -> ListPage[AccountRecord]:
    """List the people of the server."""
    found = select(User)
    if query.q is not None:
        part = f"%{escape_like(query.q.lower())}%"
        found = found.where(or_(*(func.lower(each).like(part, escape="\\") for each in (User.name, User.display, User.email))))
    if query.active is not None:
        found = found.where(User.active == query.active)
    return list_page(call.session, found, User.created, User.id, query, lambda users: list(map(AccountRecord.of, users)))


@action("people.invite", "POST /people/invitations", ADMIN, "manage", status=201)
def _invite(call: Call, *, admin: bool = False, note: InvitationNote = "", days: Days = _INVITED_DAYS) -> InvitationRecord:
    """Invite somebody who has no account; the link is shown this once."""
    return _invitation(call, days, admin=admin, note=note)


@action("people.update", "PATCH /people/{person}", ADMIN, "manage", afterwards=close_ended_logins)
def _update(
    call: Call, person: str, *, active: bool | None = None, admin: bool | None = None, display: Annotated[str, Meta(max_length=NAME)] = ""
) -> AccountRecord:
    """Disable or enable somebody, or make somebody an administrator."""
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
    """Invite somebody who has no account into a project; the link is shown this once."""
    return _invitation(call, days, project_id=call.project.id, role=parse_role(role), note=note)


def _invitation(call: Call, days: int, *, admin: bool = False, role: ProjectRole | None = None, **more: str) -> InvitationRecord:
    secret = invite(call.session, by=call.person.user_id, admin=admin, role=role, lasts=days * _DAY, **more)
    shown = str(role) if role else None
    call.note(admin=admin, role=shown)
    return InvitationRecord(address=call.services.url(f"/invite/{secret}"), expires=now() + days * _DAY, admin=admin, role=shown)


def escape_like(words: str) -> str:
    """Words as they are within `LIKE`.

    >>> escape_like("50%_")
    '50\\\\%\\\\_'
    """
    return words.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
