"""Logins: browser cookies of signed-in users.

**Invariants**

- A cookie has 256 random bits, and the store has only its SHA-256.
- A login is valid until it expires, is revoked, or its user is disabled; every request checks the store.
- `Revocations` notifies open connections (websockets) when their login ends.
"""

from contextlib import suppress
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from workbench.team.access import Principal
from workbench.team.store.database_errors import DatabaseProblemError
from workbench.team.store.store import Store, digest_of, new_secret, now
from workbench.team.store.tables import Login, User

LASTS = 30 * 86_400.0
"""Lifetime of a login in seconds after its last use."""
RENEWED_AFTER = 86_400.0
"""Seconds between renewals of a login in use, to limit writes."""
LONGEST_SECRET = 128
"""Maximum length of cookies and tokens that are looked up, in characters; the server's own have 43."""
_LONGEST_AGENT = 200


def issue_login(session: Session, user_id: str, way: str, agent: str = "") -> str:
    """Sign in a user; returns the secret for the cookie, which is not stored. `way` is "local", "oidc" or "hub"."""
    secret, agent_text = new_secret(), "".join(filter(str.isprintable, agent))[:_LONGEST_AGENT]
    session.add(Login(digest=digest_of(secret), user_id=user_id, way=way, agent=agent_text, expires=now() + LASTS))
    return secret


def principal_of_login(store: Store, secret: str) -> Principal | None:
    """Return the user of a valid cookie. Only password logins are renewed; others ask the provider again."""
    if not 0 < len(secret) <= LONGEST_SECRET:
        return None
    with store.read() as session:
        row = session.execute(_live().where(Login.digest == digest_of(secret))).first()
    if row is None:
        return None
    login, user = row
    if login.way == "local" and login.expires < now() + LASTS - RENEWED_AFTER:
        _prolong(store, login.digest)
    return Principal(user.id, user.name, user.display, user.admin, "login", login.digest)


def live_digests(session: Session, digests: set[str]) -> set[str]:
    return set(session.scalars(_live().with_only_columns(Login.digest).where(Login.digest.in_(digests)))) if digests else set()


def logins_of(session: Session, user_id: str) -> list[Login]:
    live = _live().with_only_columns(Login)
    return list(session.scalars(live.where(Login.user_id == user_id).order_by(Login.created.desc(), Login.digest)))


def revoke_login(session: Session, digest: str) -> list[str]:
    return _revoke(session, Login.digest == digest)


def revoke_logins_of(session: Session, user_id: str, but: str = "") -> list[str]:
    """End a user's logins except `but`, and return the digests of the logins that ended."""
    return _revoke(session, (Login.user_id == user_id) & (Login.digest != but))


def delete_ended_logins(session: Session, before: float) -> None:
    session.query(Login).filter((Login.expires < before) | (Login.revoked < before)).delete()


def _revoke(session: Session, condition: Any) -> list[str]:
    statement = update(Login).where(condition, Login.revoked.is_(None)).values(revoked=now()).returning(Login.digest)
    return list(session.scalars(statement))


def _live() -> Any:
    conditions = (Login.revoked.is_(None), Login.expires > now(), User.active)
    return select(Login, User).join(User, User.id == Login.user_id).where(*conditions)


def _prolong(store: Store, digest: str) -> None:
    with suppress(DatabaseProblemError), store.write() as session:  # on a full disk the login keeps its expiry
        session.execute(update(Login).where(Login.digest == digest, Login.revoked.is_(None)).values(expires=now() + LASTS))
