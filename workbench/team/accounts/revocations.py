"""Ends what is open for a login that has ended: websockets are not asked again for their cookie, so somebody must tell them. And tokens,
the keys to the REST API.

What this process revokes it announces at once; what another process revokes (`workbench team user disable`) is found by asking the store
twice a second about the logins for which something is open.
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
from workbench.team.accounts.invitations import forget_old
from workbench.team.accounts.logins import LONGEST_SECRET, forget_ended, live_digests
from workbench.team.store.database_errors import DatabaseProblemError
from workbench.team.store.store import Store, digest_of, new_id, new_secret, now
from workbench.team.store.tables import Token, User

POLLED_EVERY = 0.5
"""Seconds between two questions to the store."""
TIDIED_EVERY, KEPT = 3600.0, 30 * 86_400.0
"""Seconds between two times that logins and invitations are deleted which ended, and for how long they are kept."""

Close = Callable[[], None]
_log = logging.getLogger(__name__)


class Revocations:
    """What is open, by the digest of the login that opened it. Used from the event loop alone."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._open: dict[str, list[Close]] = {}
        self._task: asyncio.Task[None] | None = None

    def listen(self, digest: str, close: Close) -> Callable[[], None]:
        """`close` is called once when the login has ended, in the event loop. The result is called when it is closed otherwise."""
        listeners = self._open.setdefault(digest, [])
        listeners.append(close)
        return lambda: self._forget(digest, close)

    def announce(self, digests: list[str]) -> None:
        """Logins have ended: close what is open for them."""
        for each in digests:
            for close in self._open.pop(each, []):
                _call(close)

    def count(self) -> int:
        return sum(map(len, self._open.values()))

    def start(self) -> None:
        """Ask the store from now on, in the running event loop."""
        self._task = asyncio.get_running_loop().create_task(self._poll())

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def check(self) -> None:
        """Ask the store once."""
        asked = set(self._open)
        live = await asyncio.to_thread(self._ask, asked)
        self.announce(sorted(asked - live))

    def _ask(self, digests: set[str]) -> set[str]:
        with self._store.read() as session:
            return live_digests(session, digests)

    def _tidy(self) -> None:
        with self._store.write() as session:
            forget_ended(session, now() - KEPT)
            forget_old(session, now() - KEPT)

    async def _poll(self) -> None:
        tidied = time.monotonic() - TIDIED_EVERY
        while True:
            await asyncio.sleep(POLLED_EVERY)
            try:
                await self.check()
                if time.monotonic() > tidied + TIDIED_EVERY:
                    tidied = time.monotonic()
                    await asyncio.to_thread(self._tidy)
            except Exception:  # noqa: BLE001 - it goes on asking, whatever failed
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
    except Exception:  # noqa: BLE001 - the others are closed in any case
        _log.exception("A connection of an ended login did not close.")


# Tokens: keys to the REST API that a person makes for a script. The store has their SHA-256 only; the secret is shown once.

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
    session.add(Token(**values, expires=expires))
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
