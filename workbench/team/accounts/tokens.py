"""Tokens: keys to the REST API that a person makes for a script. The store has their SHA-256 only; the secret is shown once."""

from contextlib import suppress
from dataclasses import dataclass

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from workbench.errors import WorkbenchError, unknown_name
from workbench.team.access import SCOPES, Principal
from workbench.team.accounts.logins import LONGEST_SECRET
from workbench.team.store.database_errors import DatabaseProblemError
from workbench.team.store.store import Store, digest_of, new_id, new_secret, now
from workbench.team.store.tables import Token, User

PREFIX = "wbt_"
"""Begins each token, so that scanners of leaked secrets and people recognise one."""
NOTED_AFTER = 60.0
"""Seconds after which it is noted again that a token was used."""
LONGEST_NAME = 100


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A token that was made now: `secret` is kept nowhere else."""

    id: str
    secret: str


def issue_token(session: Session, user_id: str, name: str, scopes: tuple[str, ...], expires: float | None = None) -> IssuedToken:
    """Make a token that may do `scopes`. Raises `WorkbenchError` for one that there is not, or an empty or long name."""
    for each in scopes:
        if each not in SCOPES:
            raise WorkbenchError(*unknown_name("scope", each, SCOPES))
    if not scopes or not 0 < len(name.strip()) <= LONGEST_NAME:
        raise WorkbenchError(
            f"A token has a name of 1 to {LONGEST_NAME} characters and at least one scope.", [f"scopes are {', '.join(SCOPES)}"]
        )
    issued = IssuedToken(new_id(), PREFIX + new_secret())
    values = {"id": issued.id, "digest": digest_of(issued.secret), "user_id": user_id, "name": name.strip(), "scopes": sorted(set(scopes))}
    session.add(Token(**values, created=now(), expires=expires, used=None, revoked=None))
    return issued


def principal_of_token(store: Store, secret: str) -> Principal | None:
    """The person of a token that is still good, with no more than its scopes."""
    if not 0 < len(secret) <= LONGEST_SECRET:
        return None
    good = (Token.revoked.is_(None), (Token.expires.is_(None)) | (Token.expires > now()), User.active)
    with store.read() as session:
        wanted = select(Token, User).join(User, User.id == Token.user_id).where(Token.digest == digest_of(secret), *good)
        found = session.execute(wanted).first()
    if found is None:
        return None
    token, user = found
    if token.used is None or token.used < now() - NOTED_AFTER:
        with suppress(DatabaseProblemError), store.write() as session:  # on a full disk it still reads
            session.execute(update(Token).where(Token.id == token.id).values(used=now()))
    return Principal(user.id, user.name, user.display, user.admin, "token", token.id, frozenset(token.scopes))


def revoke_token(session: Session, token_id: str, user_id: str) -> bool:
    """End a token of a person; whether there was one."""
    mine = (Token.id == token_id, Token.user_id == user_id, Token.revoked.is_(None))
    return bool(session.scalars(update(Token).where(*mine).values(revoked=now()).returning(Token.id)).all())
