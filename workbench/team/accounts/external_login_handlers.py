"""Signing in with a provider: away to it, and back with a code; and the addresses of all ways to sign in."""

import asyncio
from typing import Any

from workbench.team.accounts.identities import GroupRules, SignInError, VouchedPerson, sign_in_as
from workbench.team.accounts.jupyterhub_login import HUB, HubProvider
from workbench.team.accounts.login_handlers import AccountHandler, InvitationHandler, LoginHandler, LogoutHandler
from workbench.team.accounts.logins import LONGEST_SECRET
from workbench.team.accounts.oidc import OidcProvider
from workbench.team.accounts.sign_in_flow import LASTS, SignInFlow, new_flow

_LONGEST_CODE = 4096


class ExternalHandler(AccountHandler):
    """What the ways away and back share. The JupyterHub has no name."""

    def way_back(self, name: str) -> str:
        """The path that a provider sends the browser back to."""
        return f"/login/oidc/{name}/callback" if name else "/oauth_callback"

    @property
    def flow_cookie(self) -> str:
        return f"{self.server.cookie_name}-flow"

    def end(self, provider: str) -> tuple[SignInFlow, str]:
        """The flow that this browser began, and the code that came back. Raises `SignInError`."""
        cookie = self.get_cookie(self.flow_cookie, "") or ""
        flow = self.ways.flows.end(self.flow_cookie, cookie, provider, self.get_query_argument("state", ""))
        self.set_cookie(self.flow_cookie, "", max_age=0, **self.server.cookie_options)
        if (problem := self.get_query_argument("error", "")) != "":
            raise SignInError(f"The provider refused the sign-in: {problem[:100]}.", ["sign in again"])
        code = self.get_query_argument("code", "")
        if not 0 < len(code) <= _LONGEST_CODE:
            raise SignInError("The provider sent no code.", ["sign in again"])
        return flow, code

    async def finish_sign_in(self, flow: SignInFlow, person: VouchedPerson, way: str, rules: GroupRules) -> None:
        self.set_login_cookie(await asyncio.to_thread(self._sign_in, flow, person, way, rules))
        self.redirect(flow.next)

    def _sign_in(self, flow: SignInFlow, person: VouchedPerson, way: str, rules: GroupRules) -> str:
        with self.server.store.write() as session:
            user = sign_in_as(session, person, rules, flow.invitation)
            return self.issue(session, user.id, way)


class BeginHandler(ExternalHandler):
    """`/login/oidc/<name>` and `/login/hub`: away to the provider."""

    async def get(self, name: str = "") -> None:
        provider = self.ways.provider(name)
        flow = new_flow(name or HUB, self.next_path, self.get_query_argument("invitation", "")[:LONGEST_SECRET])
        written = self.ways.flows.write(self.flow_cookie, flow)
        self.set_cookie(self.flow_cookie, written, max_age=int(LASTS), **self.server.cookie_options)
        self.redirect(await provider.authorization_url(flow, self.server.url(self.way_back(name))))


class CallbackHandler(ExternalHandler):
    """`/login/oidc/<name>/callback`, and `/oauth_callback`, where JupyterHub sends its services' visitors to: back from the provider."""

    async def get(self, name: str = "") -> None:
        provider = self.ways.provider(name)
        flow, code = self.end(name or HUB)
        self._verify_issuer(provider)
        person = await provider.vouched_person(flow, code, self.server.url(self.way_back(name)))
        await self.finish_sign_in(flow, person, "oidc" if name else HUB, provider.settings.rules)

    def _verify_issuer(self, provider: OidcProvider | HubProvider) -> None:
        """A provider may say who it is (RFC 9207), so that none passes for another."""
        issuer = self.get_query_argument("iss", None)
        if isinstance(provider, OidcProvider) and issuer is not None and issuer != provider.settings.issuer:
            raise SignInError("The response came from a different provider.", ["sign in again"])


_NAME = r"([a-z0-9-]{1,40})"
_SECRET = r"([A-Za-z0-9_-]{1,128})"  # noqa: S105 - the shape of one


def account_routes() -> list[tuple[str, Any]]:
    return [
        (r"/login", LoginHandler),
        (r"/logout", LogoutHandler),
        (rf"/invite/{_SECRET}", InvitationHandler),
        (rf"/login/oidc/{_NAME}", BeginHandler),
        (rf"/login/oidc/{_NAME}/callback", CallbackHandler),
        (rf"/login/{HUB}", BeginHandler),
        (r"/oauth_callback", CallbackHandler),
    ]
