"""Invitations: single-use links, valid for a week, that create an account, join a project or reset a password."""

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
"""Validity of an invitation in seconds."""
_LONGEST_NOTE = 200


class InvitationError(WorkbenchError):
    """The invitation is unknown, used or expired; the message does not tell which."""

    def __init__(self) -> None:
        super().__init__("Invalid invitation: already used, expired, or the address is incomplete.", ["ask for another"])


def invite(session: Session, *, role: ProjectRole | None = None, note: str = "", lasts: float = LASTS, **gives: Any) -> str:
    """Create an invitation and return the secret of its link `/invite/<secret>`, which is not stored.

    It creates an account, with `admin` an administrator's, and gives `role` in the project `project_id`. With
    `user_id`, it sets a new password of that user only. `by` is the inviting user.
    """
    secret = new_secret()
    role_name = str(role) if role else None
    session.add(Invitation(digest=digest_of(secret), role=role_name, note=note[:_LONGEST_NOTE], expires=now() + lasts, **gives))
    return secret


def open_invitation(session: Session, secret: str) -> Invitation:
    invitation = session.get(Invitation, digest_of(secret)) if 0 < len(secret) <= LONGEST_SECRET else None
    if invitation is None or invitation.used_by is not None or invitation.expires <= now():
        raise InvitationError
    return invitation


def accept_with_password(session: Session, accounts: LocalAccounts, secret: str, name: str, display: str, hashed: str) -> User:
    """Create an account or reset its password. Raises `InvitationError`, and `WorkbenchError` for an invalid name."""
    invitation = open_invitation(session, secret)
    if invitation.user_id is None:
        user = add_user(session, name, display, admin=invitation.admin)
    else:
        user = _invited_person(session, invitation)
        revoke_logins_of(session, user.id)  # signs out everybody who used the old password
    _use(session, invitation, user)
    accounts.set(session, user, hashed)
    return user


def accept_as(session: Session, secret: str, user: User) -> None:
    """Apply an invitation to an existing account. Raises `InvitationError`."""
    invitation = open_invitation(session, secret)
    if invitation.user_id not in (None, user.id):
        raise InvitationError
    _use(session, invitation, user)
    user.admin = user.admin or invitation.admin


def was_invited(session: Session, user: User) -> bool:
    return session.scalar(select(Invitation.digest).where(Invitation.used_by == user.id).limit(1)) is not None


def delete_expired_invitations(session: Session, before: float) -> None:
    """Delete unused invitations that expired before a time."""
    session.execute(delete(Invitation).where(Invitation.used_by.is_(None), Invitation.expires < before))


def _invited_person(session: Session, invitation: Invitation) -> User:
    user = session.get(User, invitation.user_id)
    if user is None or not user.active:
        raise InvitationError
    return user


def _use(session: Session, invitation: Invitation, user: User) -> None:
    """Mark an invitation as used, atomically, so that concurrent uses fail."""
    conditions = (Invitation.digest == invitation.digest, Invitation.used_by.is_(None), Invitation.expires > now())
    used = (
        update(Invitation)
        .where(*conditions)
        .values(used_by=user.id)
        .returning(Invitation.digest)
        .execution_options(synchronize_session=False)
    )
    if not session.scalars(used).all():
        raise InvitationError
    if invitation.project_id and invitation.role:
        raise_role(session, invitation.project_id, user.id, parse_role(invitation.role))
    note(session, "accept_invitation", user.id, invitation.project_id or "", admin=invitation.admin, by=invitation.by)
