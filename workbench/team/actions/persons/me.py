"""The person who asks: who they are here, which projects they are in, how they show themselves, and where they are signed in."""

from typing import Annotated, Any

from msgspec import Meta
from sqlalchemy import func, select

from workbench.team.access import ConflictError, MissingError, ProjectRole
from workbench.team.accounts.logins import logins_of, revoke_login
from workbench.team.actions.action import PERSON, Call, action, member
from workbench.team.actions.quotas import QuotaRecord, quota_records
from workbench.team.actions.schemas import Id, Record, RoleName, Slug, Time, Word
from workbench.team.store.tables import Login, Member, Project, User


class MembershipRecord(Record, frozen=True):
    """A project that somebody is in."""

    project: Slug
    name: str
    role: RoleName
    personal: bool
    archived: bool


class MeRecord(Record, frozen=True):
    """Who somebody is here; `scopes` are those of the token, if one is the key."""

    id: Id
    name: str
    display: str
    email: str | None
    admin: bool
    way: str
    scopes: list[str] | None
    projects: Annotated[list[MembershipRecord], Meta(max_length=10_000)]


class LoginRecord(Record, frozen=True):
    """A browser in which somebody is signed in."""

    id: str
    way: str
    agent: str
    created: Time
    expires: Time
    present: bool


_SHOWN = 20  # hexadecimal digits of a login's digest: enough to name it


@action("me.get", "GET /me", PERSON, "read")
def _get(call: Call) -> MeRecord:
    """See who I am here, and my projects."""
    user = call.session.get_one(User, call.person.user_id)
    joined = select(Project, Member.role).join(Member, Member.project_id == Project.id).where(Member.user_id == user.id)
    projects = [
        MembershipRecord.of(each, project=each.slug, role=role, personal=each.personal_of == user.id, archived=bool(each.archived))
        for each, role in call.session.execute(joined.order_by(Project.slug)).all()
    ]
    scopes = None if call.person.scopes is None else sorted(call.person.scopes)
    return MeRecord.of(user, way=call.person.way, scopes=scopes, projects=projects)


@action("me.update", "PATCH /me", PERSON, "edit", subject="id")
def _update(call: Call, display: Word) -> MeRecord:
    """Change how I am shown."""
    call.session.get_one(User, call.person.user_id).display = display.strip() or call.person.name
    call.session.flush()
    return _get(call)


@action("me.quota", "GET /me/quota", PERSON, "read")
def _quota(call: Call) -> list[QuotaRecord]:
    """See what I have, and how much I may."""
    return quota_records(call.session, call.person.user_id)


@action("me.logins", "GET /me/logins", PERSON, "manage")
def _logins(call: Call) -> list[LoginRecord]:
    """List where I am signed in."""
    own = call.person.key if call.person.way == "login" else None
    logins = logins_of(call.session, call.person.user_id)
    return [LoginRecord.of(each, id=each.digest[:_SHOWN], present=each.digest == own) for each in logins]


async def close_ended_logins(call: Call, _answer: Any) -> None:
    """Close at once what is open for logins that have ended."""
    await call.services.revocations.check()


@action("me.sign_out", "DELETE /me/logins/{login}", PERSON, "manage", afterwards=close_ended_logins)
def _sign_out(call: Call, login: str) -> None:
    """End one of my logins."""
    mine = select(Login.digest).where(Login.user_id == call.person.user_id, func.substr(Login.digest, 1, _SHOWN) == login)
    if not [each for digest in call.session.scalars(mine).all() for each in revoke_login(call.session, digest)]:
        raise MissingError("login", login)


@action("me.leave", "DELETE /me/projects/{project}", member(ProjectRole.STUDENT), "manage")
def _leave(call: Call) -> None:
    """Leave a project."""
    if call.project.personal_of == call.person.user_id:
        raise ConflictError("You cannot leave your personal project.", ["archive it"])
    held = call.session.get(Member, (call.project.id, call.person.user_id))
    if held is None:
        raise MissingError("membership", call.project.slug)
    verify_owner_remains(call, call.person.user_id)
    call.session.delete(held)


def verify_owner_remains(call: Call, without: str) -> None:
    """Raises `ConflictError` if nobody else than this person owns the project."""
    owners = select(Member.user_id).join(User, User.id == Member.user_id).where(User.active)
    owners = owners.where(Member.project_id == call.project.id, Member.role == str(ProjectRole.OWNER))
    if set(call.session.scalars(owners)) <= {without}:
        raise ConflictError(f"`{call.project.slug}` would have no owner.", ["first make another person an owner"])
