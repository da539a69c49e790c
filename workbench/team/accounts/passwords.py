"""Passwords with argon2id. Unknown names also cost one hash, so that timing does not reveal names."""

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
    """The account is unknown or disabled, or the password is wrong; the message does not tell which."""

    def __init__(self) -> None:
        super().__init__("Wrong name or password.", ["try again", "ask an administrator for a new invitation"])


def verify_rules(name: str, password: str) -> None:
    """Raise `WorkbenchError` for a password that breaks the rules."""
    if not SHORTEST <= len(password) <= LONGEST:
        raise WorkbenchError(f"A password has {SHORTEST} to {LONGEST:,} characters; this has {len(password):,}.", [_ADVICE])
    if name.lower() in password.lower() and len(password) < len(name) + SHORTEST:
        raise WorkbenchError("This password is too similar to the name.", [_ADVICE])
    if len(set(password)) < 5:
        raise WorkbenchError("This password has fewer than five different characters.", [_ADVICE])


@dataclass(frozen=True)
class LocalAccounts:
    store: Store
    hasher: PasswordHasher = field(default_factory=PasswordHasher)

    @cached_property
    def _decoy(self) -> str:
        """A hash that matches no password."""
        return self.hasher.hash(new_secret())

    def hash(self, name: str, password: str) -> str:
        """Check the password rules and return its hash, which takes tens of milliseconds. Raises `WorkbenchError`."""
        verify_rules(name, password)
        return self.hasher.hash(password)

    def verify(self, name: str, password: str) -> str:
        """Return the user ID, computing exactly one hash in any case. Raises `WrongPasswordError`."""
        with self.store.read() as session:
            user = find_user(session, name)
            stored = session.get(Password, user.id) if user and user.active else None
        stored_hash = stored.hash if stored else self._decoy
        if not self._matches(stored_hash, password[:LONGEST]) or stored is None or len(password) > LONGEST:
            raise WrongPasswordError
        if self.hasher.check_needs_rehash(stored_hash):
            self._rehash(stored.user_id, stored_hash, password)
        return stored.user_id

    def set(self, session: Session, user: User, hashed: str) -> None:
        session.merge(Password(user_id=user.id, hash=hashed, changed=now()))

    def _matches(self, known: str, password: str) -> bool:
        try:
            return self.hasher.verify(known, password.encode("utf-8", "surrogatepass"))
        except (VerificationError, InvalidHashError):
            return False

    def _rehash(self, user_id: str, known: str, password: str) -> None:
        """Update the hash to the current parameters unless the password has changed in the meantime."""
        fresh = self.hasher.hash(password)
        with suppress(DatabaseProblemError), self.store.write() as session:  # the old hash stays valid
            stored = session.get(Password, user_id)
            if stored is not None and stored.hash == known:
                stored.hash = fresh
