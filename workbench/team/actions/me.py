"""The signed-in user: account, projects, display name, quotas, logins, and API tokens that users create for scripts.

**Invariants**

- A token cannot create a token with more scopes or a later expiry than its own.
- A token's secret is in one response only.
"""

from typing import Annotated, Any

from msgspec import Meta
from sqlalchemy import func, select

from workbench.team.access import SCOPES, ConflictError, ForbiddenError, MissingError, ProjectRole
from workbench.team.accounts.logins import logins_of, revoke_login
from workbench.team.accounts.revocations import issue_token, revoke_token
from workbench.team.actions.action import PERSON, Call, action, member
from workbench.team.actions.quotas import QuotaRecord, quota_records
from workbench.team.actions.schemas import Days, Id, Named, Record, RoleName, Slug, Time, Word, one_of
from workbench.team.store.store import now
from workbench.team.store.tables import Login, Member, Project, Token, User


class MembershipRecord(Record, frozen=True):
    project: Slug
    name: str
    role: RoleName
    personal: bool
    archived: bool


class MeRecord(Record, frozen=True):
    """The signed-in user; `scopes` are the token's, `None` for a login."""

    id: Id
    name: str
    display: str
    email: str | None
    admin: bool
    way: str
    scopes: list[str] | None
    projects: Annotated[list[MembershipRecord], Meta(max_length=10_000)]


class LoginRecord(Record, frozen=True):
    id: str
    way: str
    agent: str
    created: Time
    expires: Time
    present: bool


_SHOWN = 20  # hexadecimal digits of a login's digest, enough to identify it


@action("me.get", "GET /me", PERSON, "read")
def _get(call: Call) -> MeRecord:
    """Show my account and my projects."""
    user = call.session.get_one(User, call.person.user_id)
    statement = select(Project, Member.role).join(Member, Member.project_id == Project.id).where(Member.user_id == user.id)
    projects = [
        MembershipRecord.of(
            project, project=project.slug, role=role, personal=project.personal_of == user.id, archived=bool(project.archived)
        )
        for project, role in call.session.execute(statement.order_by(Project.slug)).all()
    ]
    scopes = None if call.person.scopes is None else sorted(call.person.scopes)
    return MeRecord.of(user, way=call.person.way, scopes=scopes, projects=projects)


@action("me.update", "PATCH /me", PERSON, "edit", subject="id")
def _update(call: Call, display: Word) -> MeRecord:
    """Change my display name."""
    call.session.get_one(User, call.person.user_id).display = display.strip() or call.person.name
    call.session.flush()
    return _get(call)


@action("me.quota", "GET /me/quota", PERSON, "read")
def _quota(call: Call) -> list[QuotaRecord]:
    """Show my usage and limits."""
    return quota_records(call.session, call.person.user_id)


@action("me.logins", "GET /me/logins", PERSON, "manage")
def _logins(call: Call) -> list[LoginRecord]:
    """List where I am signed in."""
    current = call.person.key if call.person.way == "login" else None
    logins = logins_of(call.session, call.person.user_id)
    return [LoginRecord.of(login, id=login.digest[:_SHOWN], present=login.digest == current) for login in logins]


async def close_ended_logins(call: Call, _answer: Any) -> None:
    await call.services.revocations.check()


@action("me.sign_out", "DELETE /me/logins/{login}", PERSON, "manage", afterwards=close_ended_logins)
def _sign_out(call: Call, login: str) -> None:
    """End one of my logins."""
    statement = select(Login.digest).where(Login.user_id == call.person.user_id, func.substr(Login.digest, 1, _SHOWN) == login)
    if not [ended for digest in call.session.scalars(statement).all() for ended in revoke_login(call.session, digest)]:
        raise MissingError("login", login)


@action("me.leave", "DELETE /me/projects/{project}", member(ProjectRole.STUDENT), "manage")
def _leave(call: Call) -> None:
    """Leave a project."""
    if call.project.personal_of == call.person.user_id:
        raise ConflictError("You cannot leave your personal project.", ["archive it"])
    membership = call.session.get(Member, (call.project.id, call.person.user_id))
    if membership is None:
        raise MissingError("membership", call.project.slug)
    verify_owner_remains(call, call.person.user_id)
    call.session.delete(membership)


def verify_owner_remains(call: Call, without: str) -> None:
    """Raise `ConflictError` if the project would have no other active owner."""
    owners = select(Member.user_id).join(User, User.id == Member.user_id).where(User.active)
    owners = owners.where(Member.project_id == call.project.id, Member.role == str(ProjectRole.OWNER))
    if set(call.session.scalars(owners)) <= {without}:
        raise ConflictError(f"`{call.project.slug}` would have no owner.", ["first make another person an owner"])


_DAY = 86_400.0


Scopes = Annotated[list[Annotated[str, one_of(*SCOPES)]], Meta(min_length=1, max_length=len(SCOPES))]


class TokenRecord(Record, frozen=True):
    id: Id
    name: str
    scopes: list[Annotated[str, one_of(*SCOPES)]]
    created: Time
    expires: Time | None
    used: Time | None


class NewTokenRecord(Record, frozen=True):
    id: Id
    secret: str
    token: TokenRecord


@action("tokens.list", "GET /tokens", PERSON, "manage")
def _list(call: Call) -> list[TokenRecord]:
    """List my tokens."""
    statement = select(Token).where(Token.user_id == call.person.user_id, Token.revoked.is_(None)).order_by(Token.created.desc(), Token.id)
    return [TokenRecord.of(row) for row in call.session.scalars(statement)]


@action("tokens.create", "POST /tokens", PERSON, "manage", status=201, subject="id")
def _create(call: Call, name: Named, scopes: Scopes, days: Days | None = None) -> NewTokenRecord:
    """Create a token; its secret is shown once."""
    own_scopes = call.person.scopes
    if own_scopes is not None and not own_scopes >= set(scopes):
        missing = ", ".join(f"`{scope}`" for scope in scopes if scope not in own_scopes)
        raise ForbiddenError(f"A token cannot grant permissions that it lacks: {missing}.", ["create the token in the browser"])
    expires = None if days is None else now() + days * _DAY
    issued = issue_token(call.session, call.person.user_id, name, tuple(scopes), _not_after(call, expires))
    call.session.flush()
    call.note(scopes=sorted(set(scopes)))
    return NewTokenRecord(id=issued.id, secret=issued.secret, token=TokenRecord.of(call.session.get_one(Token, issued.id)))


def _not_after(call: Call, expires: float | None) -> float | None:
    creator = call.session.get(Token, call.person.key) if call.person.way == "token" else None
    limits = [limit for limit in (expires, creator.expires if creator else None) if limit is not None]
    return min(limits, default=None)


@action("tokens.revoke", "DELETE /tokens/{token}", PERSON, "manage")
def _revoke(call: Call, token: str) -> None:
    """Revoke one of my tokens."""
    if not revoke_token(call.session, token, call.person.user_id):
        raise MissingError("token", token)
