"""Signing in with JupyterHub, as a service of it: `HubOAuth` begins the sign-in and says who came back; the login is the server's own. And
all ways to sign in that a server offers, as one record.

The hub's administrator adds to `jupyterhub_config.py`:

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
    """What a hub gives to a service of its own. The token is a secret."""

    environment: Mapping[str, str]
    rules: GroupRules = field(default_factory=lambda: GroupRules(anyone=True))
    label: str = "JupyterHub"

    @classmethod
    def from_environment(cls, rules: GroupRules | None = None) -> "HubSettings":
        """Of this process. Raises `WorkbenchError` where it was not started by a hub."""
        missing = [each for each in _NEEDED if not os.environ.get(each)]
        if missing:
            ways_out = ["add the workbench to `c.JupyterHub.services` with a `command`", "set these variables as JupyterHub does"]
            raise WorkbenchError(f"No JupyterHub started this server: there is no {', '.join(missing)}.", ways_out)
        found = {name: value for name, value in os.environ.items() if name.startswith("JUPYTERHUB_")}
        return cls(found, rules or GroupRules(anyone=True))

    def __repr__(self) -> str:
        return f"HubSettings({self.environment.get('JUPYTERHUB_API_URL')!r})"


class HubProvider:
    """One hub. The `HubOAuth` of `jupyterhub`, which must be installed, does what OAuth takes."""

    def __init__(self, settings: HubSettings) -> None:
        from jupyterhub.services.auth import HubOAuth

        self.settings = settings
        given = settings.environment
        self._oauth = HubOAuth(
            api_url=given["JUPYTERHUB_API_URL"],
            api_token=given["JUPYTERHUB_API_TOKEN"],
            base_url=given["JUPYTERHUB_SERVICE_PREFIX"],
            oauth_client_id=given["JUPYTERHUB_CLIENT_ID"],
            access_scopes=_access_scopes(given),
            hub_host=given.get("JUPYTERHUB_HOST", ""),
            hub_prefix=given.get("JUPYTERHUB_BASE_URL", "/").rstrip("/") + "/hub/",
            cache_max_age=0,  # a login begins with what the hub says now
        )

    async def authorization_url(self, flow: SignInFlow, _redirect_uri: str) -> str:
        challenge = {"code_challenge": create_s256_code_challenge(flow.verifier), "code_challenge_method": "S256"}
        return f"{self._oauth.login_url}&{urlencode({'state': flow.state, **challenge})}"

    async def vouched_person(self, flow: SignInFlow, code: str, _redirect_uri: str) -> VouchedPerson:
        """Whom the hub vouches for with a code. Raises `SignInError`, also for somebody who may not use this service."""
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
        groups = tuple(each for each in model.get("groups") or () if isinstance(each, str))
        issuer = f"jupyterhub:{self._oauth.hub_host or self.settings.environment['JUPYTERHUB_API_URL']}"
        return VouchedPerson(issuer, model["name"], model["name"], model["name"], None, groups)


def _access_scopes(environment: Mapping[str, str]) -> set[str]:
    """Those of which a person must have one to use this service."""
    given = environment.get("JUPYTERHUB_OAUTH_ACCESS_SCOPES")
    return set(json.loads(given)) if given else {f"access:services!service={environment.get('JUPYTERHUB_SERVICE_NAME', 'workbench')}"}


# The ways to sign in that a server offers, as one record.


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

    def provider(self, name: str) -> OidcProvider | HubProvider:
        """The provider of a name, the JupyterHub of an empty one. Raises `MissingError`."""
        found = next((each for each in self.oidc if each.settings.name == name), None) if name else self.hub
        if found is None:
            raise MissingError("way to sign in", name or HUB)
        return found
