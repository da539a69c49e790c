"""Passwords: argon2id, with work that does not depend on whether there is an account.

Whoever asks for a name that there is not waits for one hash, as for one that there is: names cannot be found out by the clock.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from sqlalchemy.orm import Session

from workbench.errors import WorkbenchError
from workbench.team.accounts.user_accounts import find_user
from workbench.team.store.database_errors import DatabaseProblemError
from workbench.team.store.store import Store, new_secret, now
from workbench.team.store.tables import Password, User

SHORTEST, LONGEST = 12, 512
_ADVICE = "use four random words"


class WrongPasswordError(WorkbenchError):
    """No such account, or not its password, or it is disabled: it is never said which."""

    def __init__(self) -> None:
        super().__init__("Wrong name or password.", ["try again", "ask an administrator for a new invitation"])


def verify_rules(name: str, password: str) -> None:
    """Raises `WorkbenchError` for a password that may not be one."""
    if not SHORTEST <= len(password) <= LONGEST:
        raise WorkbenchError(f"A password has {SHORTEST} to {LONGEST:,} characters; this has {len(password):,}.", [_ADVICE])
    if name.lower() in password.lower() and len(password) < len(name) + SHORTEST:
        raise WorkbenchError("This password is too similar to the name.", [_ADVICE])
    if len(set(password)) < 5:
        raise WorkbenchError("This password has fewer than five different characters.", [_ADVICE])


@dataclass(frozen=True)
class LocalAccounts:
    """The accounts with a password in this server's store."""

    store: Store
    hasher: PasswordHasher = field(default_factory=PasswordHasher)

    @cached_property
    def _decoy(self) -> str:
        """A hash that no password has."""
        return self.hasher.hash(new_secret())

    def hash(self, name: str, password: str) -> str:
        """The hash to store; it takes tens of milliseconds. Raises `WorkbenchError` for a password that may not be one."""
        verify_rules(name, password)
        return self.hasher.hash(password)

    def verify(self, name: str, password: str) -> str:
        """The id of the person. Raises `WrongPasswordError`. One hash is computed in any case."""
        with self.store.read() as session:
            user = find_user(session, name)
            stored = session.get(Password, user.id) if user and user.active else None
        known = stored.hash if stored else self._decoy
        if not self._matches(known, password[:LONGEST]) or stored is None or len(password) > LONGEST:
            raise WrongPasswordError
        if self.hasher.check_needs_rehash(known):
            self._rehash(stored.user_id, known, password)
        return stored.user_id

    def set(self, session: Session, user: User, hashed: str) -> None:
        session.merge(Password(user_id=user.id, hash=hashed, changed=now()))

    def _matches(self, known: str, password: str) -> bool:
        try:
            return self.hasher.verify(known, password.encode("utf-8", "surrogatepass"))
        except (VerificationError, InvalidHashError):
            return False

    def _rehash(self, user_id: str, known: str, password: str) -> None:
        """Store the hash anew with the parameters of today, unless the password was changed meanwhile."""
        fresh = self.hasher.hash(password)
        with suppress(DatabaseProblemError), self.store.write() as session:  # the old hash is good, too
            stored = session.get(Password, user_id)
            if stored is not None and stored.hash == known:
                stored.hash = fresh
