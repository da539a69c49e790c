"""The ways to sign in that a server offers, as one record."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from workbench.team.access import MissingError
from workbench.team.accounts.hub import HubProvider
from workbench.team.accounts.oidc import OidcProvider
from workbench.team.accounts.passwords import LocalAccounts
from workbench.team.accounts.rate_limit import SignInLimits, TooManyAttemptsError
from workbench.team.accounts.sign_in_flow import FlowCookies

_HASHED_AT_ONCE, _MOST_WAITING = 2, 64
Answer = TypeVar("Answer")


class HashingThreads:
    """Computes hashes off the event loop: each takes 64 MiB and tens of milliseconds of a core, so that few are computed at once, and not
    many wait."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_HASHED_AT_ONCE, thread_name_prefix="hashing")
        self._waiting = 0

    async def run(self, work: Callable[[], Answer]) -> Answer:
        """What `work` gives. Raises `TooManyAttemptsError` if too much waits."""
        if self._waiting >= _MOST_WAITING:
            raise TooManyAttemptsError(5)
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._waiting -= 1


@dataclass(frozen=True)
class SignInWays:
    """Local accounts, providers of OpenID Connect, a JupyterHub: those that are there."""

    flows: FlowCookies
    local: LocalAccounts | None = None
    oidc: tuple[OidcProvider, ...] = ()
    hub: HubProvider | None = None
    limits: SignInLimits = field(default_factory=SignInLimits)
    hashing: HashingThreads = field(default_factory=HashingThreads)

    def provider(self, name: str) -> OidcProvider:
        """A provider by its name. Raises `MissingError`."""
        found = next((each for each in self.oidc if each.settings.name == name), None)
        if found is None:
            raise MissingError("way to sign in", name)
        return found
