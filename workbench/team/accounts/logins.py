"""Logins: the cookie of a browser in which somebody is signed in.

**Invariants**

- A cookie is 256 random bits, and the store has its SHA-256 only.
- A login is good until it expires, is revoked, or its person is disabled; each request asks the store, so that none outlives that.
- Whoever holds something open for a login (a websocket) hears from `Revocations` when it has ended.
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
"""Seconds that a login lasts after it was used last."""
RENEWED_AFTER = 86_400.0
"""Seconds after which a login that is used is prolonged: not each request is to write."""
LONGEST_SECRET = 128
"""Characters of the longest cookie or token that is looked up: ours have 43."""
_LONGEST_AGENT = 200


def issue_login(session: Session, user_id: str, way: str, agent: str = "") -> str:
    """Sign a person in; `way` is "local", "oidc" or "hub", `agent` what the browser calls itself. The secret goes into the cookie, and is
    kept nowhere else."""
    secret, shown = new_secret(), "".join(filter(str.isprintable, agent))[:_LONGEST_AGENT]
    session.add(Login(digest=digest_of(secret), user_id=user_id, way=way, agent=shown, expires=now() + LASTS))
    return secret


def principal_of_login(store: Store, secret: str) -> Principal | None:
    """The person of a cookie that is still good. A login in use is prolonged, unless a provider vouched for it: that is
    to be asked again."""
    if not 0 < len(secret) <= LONGEST_SECRET:
        return None
    with store.read() as session:
        found = session.execute(_live().where(Login.digest == digest_of(secret))).first()
    if found is None:
        return None
    login, user = found
    if login.way == "local" and login.expires < now() + LASTS - RENEWED_AFTER:
        _prolong(store, login.digest)
    return Principal(user.id, user.name, user.display, user.admin, "login", login.digest)


def live_digests(session: Session, digests: set[str]) -> set[str]:
    """Those of the logins that are still good."""
    return set(session.scalars(_live().with_only_columns(Login.digest).where(Login.digest.in_(digests)))) if digests else set()


def logins_of(session: Session, user_id: str) -> list[Login]:
    """The logins of a person that are still good, the newest first."""
    live = _live().with_only_columns(Login)
    return list(session.scalars(live.where(Login.user_id == user_id).order_by(Login.created.desc(), Login.digest)))


def revoke_login(session: Session, digest: str) -> list[str]:
    """End one login; the digests of those that ended by it."""
    return _revoke(session, Login.digest == digest)


def revoke_logins_of(session: Session, user_id: str, but: str = "") -> list[str]:
    """End all logins of a person, but the one with a given digest; the digests of those that ended by it."""
    return _revoke(session, (Login.user_id == user_id) & (Login.digest != but))


def forget_ended(session: Session, before: float) -> None:
    session.query(Login).filter((Login.expires < before) | (Login.revoked < before)).delete()


def _revoke(session: Session, condition: Any) -> list[str]:
    statement = update(Login).where(condition, Login.revoked.is_(None)).values(revoked=now()).returning(Login.digest)
    return list(session.scalars(statement))


def _live() -> Any:
    good = (Login.revoked.is_(None), Login.expires > now(), User.active)
    return select(Login, User).join(User, User.id == Login.user_id).where(*good)


def _prolong(store: Store, digest: str) -> None:
    with suppress(DatabaseProblemError), store.write() as session:  # on a full disk it is good for as long as it was
        session.execute(update(Login).where(Login.digest == digest, Login.revoked.is_(None)).values(expires=now() + LASTS))
