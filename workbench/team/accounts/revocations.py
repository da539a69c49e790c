"""Close the connections of ended logins, and manage API tokens.

Websockets do not send their cookie again, so they must be closed from here. Revocations of this process are announced
at once; those of other processes (`workbench team user disable`) are found by polling the store twice a second about
logins with open connections.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from workbench.errors import WorkbenchError, unknown_name
from workbench.team.access import SCOPES, Principal
from workbench.team.accounts.invitations import delete_expired_invitations
from workbench.team.accounts.logins import LONGEST_SECRET, delete_ended_logins, live_digests
from workbench.team.store.database_errors import DatabaseProblemError
from workbench.team.store.store import Store, digest_of, new_id, new_secret, now
from workbench.team.store.tables import Token, User

POLLED_EVERY = 0.5
"""Seconds between polls of the store."""
TIDIED_EVERY, KEPT = 3600.0, 30 * 86_400.0
"""Seconds between cleanups of ended logins and invitations, and how long these are kept."""

Close = Callable[[], None]
_log = logging.getLogger(__name__)


class Revocations:
    """Open connections by login digest. Used only from the event loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._open: dict[str, list[Close]] = {}
        self._task: asyncio.Task[None] | None = None

    def listen(self, digest: str, close: Close) -> Callable[[], None]:
        """Call `close` once when the login ends; returns the function that unsubscribes."""
        listeners = self._open.setdefault(digest, [])
        listeners.append(close)
        return lambda: self._forget(digest, close)

    def announce(self, digests: list[str]) -> None:
        for digest in digests:
            for close in self._open.pop(digest, []):
                _call(close)

    def count(self) -> int:
        return sum(map(len, self._open.values()))

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._poll())

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def check(self) -> None:
        digests = set(self._open)
        live = await asyncio.to_thread(self._ask, digests)
        self.announce(sorted(digests - live))

    def _ask(self, digests: set[str]) -> set[str]:
        with self._store.read() as session:
            return live_digests(session, digests)

    def _tidy(self) -> None:
        with self._store.write() as session:
            delete_ended_logins(session, now() - KEPT)
            delete_expired_invitations(session, now() - KEPT)

    async def _poll(self) -> None:
        tidied = time.monotonic() - TIDIED_EVERY
        while True:
            await asyncio.sleep(POLLED_EVERY)
            try:
                await self.check()
                if time.monotonic() > tidied + TIDIED_EVERY:
                    tidied = time.monotonic()
                    await asyncio.to_thread(self._tidy)
            except Exception:  # noqa: BLE001 - polling continues after any failure
                _log.exception("The store did not list the ended logins; next attempt in %s s.", POLLED_EVERY)

    def _forget(self, digest: str, close: Close) -> None:
        listeners = self._open.get(digest, [])
        if close in listeners:
            listeners.remove(close)
        if not listeners:
            self._open.pop(digest, None)


def _call(close: Close) -> None:
    try:
        close()
    except Exception:  # noqa: BLE001 - the other connections must still be closed
        _log.exception("A connection of an ended login did not close.")


# API tokens. The store has only their SHA-256; the secret is shown once.

PREFIX = "wbt_"
"""Prefix of all tokens, so that people and secret scanners recognize them."""
NOTED_AFTER = 60.0
"""Seconds between updates of a token's last use."""
LONGEST_NAME = 100


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A new token; its `secret` is not stored."""

    id: str
    secret: str


def issue_token(session: Session, user_id: str, name: str, scopes: tuple[str, ...], expires: float | None = None) -> IssuedToken:
    """Create a token with `scopes`. Raises `WorkbenchError` for an unknown scope, or an empty or long name."""
    for scope in scopes:
        if scope not in SCOPES:
            raise WorkbenchError(*unknown_name("scope", scope, SCOPES))
    if not scopes or not 0 < len(name.strip()) <= LONGEST_NAME:
        raise WorkbenchError(
            f"A token has a name of 1 to {LONGEST_NAME} characters and at least one scope.", [f"scopes are {', '.join(SCOPES)}"]
        )
    issued = IssuedToken(new_id(), PREFIX + new_secret())
    values = {"id": issued.id, "digest": digest_of(issued.secret), "user_id": user_id, "name": name.strip(), "scopes": sorted(set(scopes))}
    session.add(Token(**values, expires=expires))
    return issued


def principal_of_token(store: Store, secret: str) -> Principal | None:
    """Return the user of a valid token, restricted to its scopes."""
    if not 0 < len(secret) <= LONGEST_SECRET:
        return None
    conditions = (Token.revoked.is_(None), (Token.expires.is_(None)) | (Token.expires > now()), User.active)
    with store.read() as session:
        statement = select(Token, User).join(User, User.id == Token.user_id).where(Token.digest == digest_of(secret), *conditions)
        row = session.execute(statement).first()
    if row is None:
        return None
    token, user = row
    if token.used is None or token.used < now() - NOTED_AFTER:
        with suppress(DatabaseProblemError), store.write() as session:  # on a full disk tokens still work
            session.execute(update(Token).where(Token.id == token.id).values(used=now()))
    return Principal(user.id, user.name, user.display, user.admin, "token", token.id, frozenset(token.scopes))


def revoke_token(session: Session, token_id: str, user_id: str) -> bool:
    """Revoke a user's token; returns whether it existed."""
    conditions = (Token.id == token_id, Token.user_id == user_id, Token.revoked.is_(None))
    return bool(session.scalars(update(Token).where(*conditions).values(revoked=now()).returning(Token.id)).all())
