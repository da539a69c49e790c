"""Sign in through JupyterHub as one of its services, and the record of all sign-in methods.

`HubOAuth` handles OAuth; the login afterwards is the server's own. The hub's administrator adds to
`jupyterhub_config.py`:

c.JupyterHub.services = [{"name": "workbench", "url": "http://127.0.0.1:5007", "command": ["workbench", "team", "serve"],
                          "oauth_client_allowed_scopes": ["read:users:name!user", "read:users:groups!user"]}]
"""

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlencode

from authlib.oauth2.rfc7636 import create_s256_code_challenge
from tornado.web import HTTPError

from workbench.errors import WorkbenchError
from workbench.team.access import MissingError
from workbench.team.accounts.identities import GroupRules, SignInError, VouchedPerson
from workbench.team.accounts.oidc import OidcProvider
from workbench.team.accounts.passwords import LocalAccounts
from workbench.team.accounts.rate_limit import SignInLimits, TooManyAttemptsError
from workbench.team.accounts.sign_in_flow import FlowCookies, SignInFlow

HUB = "hub"
_NEEDED = ("JUPYTERHUB_API_TOKEN", "JUPYTERHUB_API_URL", "JUPYTERHUB_SERVICE_PREFIX", "JUPYTERHUB_CLIENT_ID")


@dataclass(frozen=True, slots=True)
class HubSettings:
    """Settings that a hub passes to its service. The token is a secret."""

    environment: Mapping[str, str]
    rules: GroupRules = field(default_factory=lambda: GroupRules(anyone=True))
    label: str = "JupyterHub"

    @classmethod
    def from_environment(cls, rules: GroupRules | None = None) -> "HubSettings":
        """Read the settings of this process. Raises `WorkbenchError` if no hub started it."""
        missing = [variable for variable in _NEEDED if not os.environ.get(variable)]
        if missing:
            ways_out = ["add the workbench to `c.JupyterHub.services` with a `command`", "set these variables as JupyterHub does"]
            raise WorkbenchError(f"No JupyterHub started this server: there is no {', '.join(missing)}.", ways_out)
        environment = {name: value for name, value in os.environ.items() if name.startswith("JUPYTERHUB_")}
        return cls(environment, rules or GroupRules(anyone=True))

    def __repr__(self) -> str:
        return f"HubSettings({self.environment.get('JUPYTERHUB_API_URL')!r})"


class HubProvider:
    def __init__(self, settings: HubSettings) -> None:
        from jupyterhub.services.auth import HubOAuth

        self.settings = settings
        environment = settings.environment
        self._oauth = HubOAuth(
            api_url=environment["JUPYTERHUB_API_URL"],
            api_token=environment["JUPYTERHUB_API_TOKEN"],
            base_url=environment["JUPYTERHUB_SERVICE_PREFIX"],
            oauth_client_id=environment["JUPYTERHUB_CLIENT_ID"],
            access_scopes=_access_scopes(environment),
            hub_host=environment.get("JUPYTERHUB_HOST", ""),
            hub_prefix=environment.get("JUPYTERHUB_BASE_URL", "/").rstrip("/") + "/hub/",
            cache_max_age=0,  # always asks the hub at sign-in
        )

    async def authorization_url(self, flow: SignInFlow, _redirect_uri: str) -> str:
        challenge = {"code_challenge": create_s256_code_challenge(flow.verifier), "code_challenge_method": "S256"}
        return f"{self._oauth.login_url}&{urlencode({'state': flow.state, **challenge})}"

    async def vouched_person(self, flow: SignInFlow, code: str, _redirect_uri: str) -> VouchedPerson:
        """Exchange a code for the person. Raises `SignInError`, also if they may not use this service."""
        try:
            token = await self._oauth.token_for_code(code, code_verifier=flow.verifier, sync=False)
            model = await self._oauth.user_for_token(token, use_cache=False, sync=False)
        except (HTTPError, KeyError, OSError) as error:
            raise SignInError(
                f"{self.settings.label} does not vouch for this sign-in ({type(error).__name__}).", ["sign in again"]
            ) from None
        if not model or not self._oauth.check_scopes(self._oauth.access_scopes, model):
            raise SignInError(f"{self.settings.label} does not let you use this service.", ["ask an administrator of the hub"])
        return self._describe(model)

    def _describe(self, model: Mapping[str, Any]) -> VouchedPerson:
        groups = tuple(group for group in model.get("groups") or () if isinstance(group, str))
        issuer = f"jupyterhub:{self._oauth.hub_host or self.settings.environment['JUPYTERHUB_API_URL']}"
        return VouchedPerson(issuer, model["name"], model["name"], model["name"], None, groups)


def _access_scopes(environment: Mapping[str, str]) -> set[str]:
    scopes = environment.get("JUPYTERHUB_OAUTH_ACCESS_SCOPES")
    return set(json.loads(scopes)) if scopes else {f"access:services!service={environment.get('JUPYTERHUB_SERVICE_NAME', 'workbench')}"}


# The server's sign-in methods.


_HASHED_AT_ONCE, _MOST_WAITING = 2, 64
Answer = TypeVar("Answer")


class HashingThreads:
    """Hashes passwords in a few threads with a bounded queue: a hash takes 64 MiB and tens of ms of a core."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_HASHED_AT_ONCE, thread_name_prefix="hashing")
        self._waiting = 0

    async def run(self, work: Callable[[], Answer]) -> Answer:
        """Run `work` in a thread. Raises `TooManyAttemptsError` if the queue is full."""
        if self._waiting >= _MOST_WAITING:
            raise TooManyAttemptsError(5)
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._waiting -= 1


@dataclass(frozen=True)
class SignInWays:
    flows: FlowCookies
    local: LocalAccounts | None = None
    oidc: tuple[OidcProvider, ...] = ()
    hub: HubProvider | None = None
    limits: SignInLimits = field(default_factory=SignInLimits)
    hashing: HashingThreads = field(default_factory=HashingThreads)

    def provider(self, name: str) -> OidcProvider | HubProvider:
        """Return a provider by name; the empty name is JupyterHub. Raises `MissingError`."""
        match = next((candidate for candidate in self.oidc if candidate.settings.name == name), None) if name else self.hub
        if match is None:
            raise MissingError("way to sign in", name or HUB)
        return match
