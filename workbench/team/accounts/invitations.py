"""Invitations: a link by which somebody makes an account, joins a project, or sets a new password. Each is good once, and for a week."""

from typing import Any

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from workbench.errors import WorkbenchError
from workbench.team.access import ProjectRole, parse_role
from workbench.team.accounts.logins import LONGEST_SECRET, revoke_logins_of
from workbench.team.accounts.passwords import LocalAccounts
from workbench.team.accounts.user_accounts import add_user, note, raise_role
from workbench.team.store.store import digest_of, new_secret, now
from workbench.team.store.tables import Invitation, User

LASTS = 7 * 86_400.0
"""Seconds that an invitation is good for."""
_LONGEST_NOTE = 200


class InvitationError(WorkbenchError):
    """An invitation that is not good (any more): never made, used, or too old; it is not said which."""

    def __init__(self) -> None:
        super().__init__("Invalid invitation: already used, expired, or the address is incomplete.", ["ask for another"])


def invite(session: Session, *, role: ProjectRole | None = None, note: str = "", lasts: float = LASTS, **gives: Any) -> str:
    """Make an invitation; the secret of its link `/invite/<secret>`, which is kept nowhere. It gives an account, of an administrator with
    `admin`, and a `role` in the project `project_id`; with `user_id` a new password to that person alone. `by` is who invites."""
    secret = new_secret()
    held = str(role) if role else None
    session.add(Invitation(digest=digest_of(secret), role=held, note=note[:_LONGEST_NOTE], expires=now() + lasts, **gives))
    return secret


def open_invitation(session: Session, secret: str) -> Invitation:
    """The invitation of a link. Raises `InvitationError`."""
    found = session.get(Invitation, digest_of(secret)) if 0 < len(secret) <= LONGEST_SECRET else None
    if found is None or found.used_by is not None or found.expires <= now():
        raise InvitationError
    return found


def accept_with_password(session: Session, accounts: LocalAccounts, secret: str, name: str, display: str, hashed: str) -> User:
    """Make an account with a password, or set a new one. Raises `InvitationError`, and `WorkbenchError` for a name that cannot be."""
    invitation = open_invitation(session, secret)
    if invitation.user_id is None:
        user = add_user(session, name, display, admin=invitation.admin)
    else:
        user = _invited_person(session, invitation)
        revoke_logins_of(session, user.id)  # whoever else had the old password is out
    _use(session, invitation, user)
    accounts.set(session, user, hashed)
    return user


def accept_as(session: Session, secret: str, user: User) -> None:
    """A person who has an account takes what the invitation gives. Raises `InvitationError`."""
    invitation = open_invitation(session, secret)
    if invitation.user_id not in (None, user.id):
        raise InvitationError
    _use(session, invitation, user)
    user.admin = user.admin or invitation.admin


def was_invited(session: Session, user: User) -> bool:
    return session.scalar(select(Invitation.digest).where(Invitation.used_by == user.id).limit(1)) is not None


def forget_old(session: Session, before: float) -> None:
    """Delete invitations that were never used and ended before a time."""
    session.execute(delete(Invitation).where(Invitation.used_by.is_(None), Invitation.expires < before))


def _invited_person(session: Session, invitation: Invitation) -> User:
    user = session.get(User, invitation.user_id)
    if user is None or not user.active:
        raise InvitationError
    return user


def _use(session: Session, invitation: Invitation, user: User) -> None:
    """Mark it as used, in the database's own order: of two at once one finds it used."""
    mine = (Invitation.digest == invitation.digest, Invitation.used_by.is_(None), Invitation.expires > now())
    used = update(Invitation).where(*mine).values(used_by=user.id).returning(Invitation.digest).execution_options(synchronize_session=False)
    if not session.scalars(used).all():
        raise InvitationError
    if invitation.project_id and invitation.role:
        raise_role(session, invitation.project_id, user.id, parse_role(invitation.role))
    note(session, "accept_invitation", user.id, invitation.project_id or "", admin=invitation.admin, by=invitation.by)
