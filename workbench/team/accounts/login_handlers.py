"""Handlers of `/login`, `/logout`, `/invite/<secret>`, the OAuth redirect to a provider and the callback; and all their
routes.
"""

import asyncio
from functools import partial
from typing import Any
from urllib.parse import quote

from sqlalchemy.orm import Session

from workbench.errors import WorkbenchError
from workbench.team.access import MissingError
from workbench.team.accounts.identities import GroupRules, SignInError, VouchedPerson, sign_in_as
from workbench.team.accounts.invitations import InvitationError, accept_as, accept_with_password, open_invitation
from workbench.team.accounts.jupyterhub_login import HUB, HubProvider, SignInWays
from workbench.team.accounts.logins import LASTS, LONGEST_SECRET, issue_login, revoke_login, revoke_logins_of
from workbench.team.accounts.oidc import OidcProvider
from workbench.team.accounts.passwords import LONGEST, SHORTEST, LocalAccounts, WrongPasswordError
from workbench.team.accounts.rate_limit import TooManyAttemptsError
from workbench.team.accounts.sign_in_flow import LASTS as FLOW_LASTS
from workbench.team.accounts.sign_in_flow import SignInFlow, new_flow
from workbench.team.accounts.user_accounts import LONGEST_DISPLAY, LONGEST_NAME, note, verify_name
from workbench.team.store.store import digest_of
from workbench.team.store.tables import Project, User
from workbench.team.web.base_handler import TeamHandler
from workbench.team.web.security import local_path

LARGEST_FORM = 16_384
_LONGEST_FIELD = 2000


class AccountHandler(TeamHandler):
    @property
    def ways(self) -> SignInWays:
        sign_in: SignInWays | None = self.server.sign_in
        if sign_in is None:
            raise MissingError("way to sign in", "any")
        return sign_in

    @property
    def local(self) -> LocalAccounts:
        """Accounts with passwords. Raises `MissingError` if the server has none."""
        if self.ways.local is None:
            raise MissingError("way to sign in", "password")
        return self.ways.local

    @property
    def next_path(self) -> str:
        return local_path(self.get_argument("next", ""), self.server.prefix)

    @property
    def largest_body(self) -> int:
        return LARGEST_FORM

    def provider_links(self, query: str) -> list[tuple[str, str]]:
        links = [(provider.settings.label, self.path_to(f"/login/oidc/{provider.settings.name}{query}")) for provider in self.ways.oidc]
        if self.ways.hub:
            links.append((self.ways.hub.settings.label, self.path_to(f"/login/hub{query}")))
        return links

    def field(self, name: str, *, strip: bool = True) -> str:
        text = self.get_body_argument(name, "", strip=strip)
        if len(text) > _LONGEST_FIELD:
            raise WorkbenchError(f"`{name}` has {len(text):,} characters; the limit is {_LONGEST_FIELD:,}.", ["shorten it"])
        return text

    def issue(self, session: Session, user_id: str, way: str) -> str:
        """Sign in a user within a transaction, replacing the browser's former login."""
        if (former := self.get_cookie(self.server.cookie_name)) is not None:
            revoke_login(session, digest_of(former))
        note(session, "sign_in", user_id, way, self.request.remote_ip or "")
        return issue_login(session, user_id, way, self.request.headers.get("User-Agent", ""))

    def set_login_cookie(self, secret: str) -> None:
        if (former := self.get_cookie(self.server.cookie_name)) is not None:
            self.server.revocations.announce([digest_of(former)])
        self.set_cookie(self.server.cookie_name, secret, max_age=int(LASTS), **self.server.cookie_options)


class LoginHandler(AccountHandler):
    def get(self) -> None:
        if self.principal is not None:
            self.redirect(self.next_path)
            return
        self._show(200)

    async def post(self) -> None:
        await self.read_form()
        name, password = self.field("name"), self.get_body_argument("password", "", strip=False)
        try:
            user_id = await self._verify(name, password)
        except TooManyAttemptsError as error:
            self.set_header("Retry-After", str(error.seconds))
            self._show(429, error, name)
        except WrongPasswordError as error:
            await asyncio.to_thread(self._note_failure, name)
            self._show(403, error, name)
        else:
            self.set_login_cookie(await asyncio.to_thread(self._sign_in, user_id))
            self.redirect(self.next_path)

    async def _verify(self, name: str, password: str) -> str:
        with self.ways.limits.attempt(name[:LONGEST_NAME], self.request.remote_ip or ""):
            return await self.ways.hashing.run(partial(self.local.verify, name, password))

    def _sign_in(self, user_id: str) -> str:
        with self.server.store.write() as session:
            return self.issue(session, user_id, "local")

    def _note_failure(self, name: str) -> None:
        with self.server.store.write() as session:
            note(session, "sign_in_failed", None, name[:LONGEST_NAME], self.request.remote_ip or "")

    def _show(self, status: int, error: WorkbenchError | None = None, name: str = "") -> None:
        links = self.provider_links(f"?next={quote(self.next_path, safe='')}")
        values = {"error": error, "name": name[:LONGEST_NAME], "next": self.next_path}
        self.write_page("login.html", status, providers=links, local=self.ways.local is not None, **values)


class LogoutHandler(AccountHandler):
    def get(self) -> None:
        self.write_page("logout.html")

    async def post(self) -> None:
        await self.read_form()
        cookie, everywhere = self.get_cookie(self.server.cookie_name), self.field("everywhere") == "yes"
        if cookie:
            ended = await asyncio.to_thread(self._sign_out, digest_of(cookie), everywhere)
            self.server.revocations.announce(ended)
        # browsers delete a `__Host-` cookie only with the attributes it was set with
        self.set_cookie(self.server.cookie_name, "", max_age=0, **self.server.cookie_options)
        self.redirect_to("/login")

    def _sign_out(self, digest: str, everywhere: bool) -> list[str]:
        with self.server.store.write() as session:
            if self.principal is not None:
                note(session, "sign_out", self.principal.user_id, "everywhere" if everywhere else "", self.request.remote_ip or "")
            if everywhere and self.principal is not None:
                return revoke_logins_of(session, self.principal.user_id)
            return revoke_login(session, digest)


class InvitationHandler(AccountHandler):
    async def get(self, secret: str) -> None:
        await asyncio.to_thread(self._open, secret)
        self._show(secret, 200)

    async def post(self, secret: str) -> None:
        await self.read_form()
        invited = await asyncio.to_thread(self._open, secret)
        if self.principal is not None and invited[1] is None:
            await asyncio.to_thread(self._join, secret)
            self.redirect_to("/")
            return
        try:
            cookie = await self._accept(secret, invited[1] or self.field("name"))
        except InvitationError:
            raise
        except WorkbenchError as error:
            self._show(secret, 400, error)
        else:
            self.set_login_cookie(cookie)
            self.redirect_to("/")

    def _open(self, secret: str) -> tuple[str | None, str | None]:
        with self.server.store.read() as session:
            invitation = open_invitation(session, secret)
            project = session.get(Project, invitation.project_id) if invitation.project_id else None
            person = session.get(User, invitation.user_id) if invitation.user_id else None
            self.invited = (project.name if project else None, person.name if person else None)
            return self.invited

    async def _accept(self, secret: str, name: str) -> str:
        password = self.get_body_argument("password", "", strip=False)
        if password != self.get_body_argument("again", "", strip=False):
            raise WorkbenchError("The two passwords differ.", ["type the password twice"])
        clean = verify_name(name)
        hashed = await self.ways.hashing.run(partial(self.local.hash, clean, password))
        display = self.field("display")[:LONGEST_DISPLAY]
        return await asyncio.to_thread(self._make_account, secret, clean, display, hashed)

    def _make_account(self, secret: str, name: str, display: str, hashed: str) -> str:
        with self.server.store.write() as session:
            user = accept_with_password(session, self.local, secret, name, display, hashed)
            return self.issue(session, user.id, "local")

    def _join(self, secret: str) -> None:
        person = self.require_principal("manage")
        with self.server.store.write() as session:
            accept_as(session, secret, session.get_one(User, person.user_id))

    def _show(self, secret: str, status: int, error: WorkbenchError | None = None) -> None:
        project, person = self.invited
        query = f"?invitation={quote(secret, safe='')}"
        typed = {name: self.field(name)[:LONGEST_DISPLAY] if error else "" for name in ("name", "display")}
        values = {
            "address": self.path_to(f"/invite/{secret}"),
            "project": project,
            "person": person,
            "providers": self.provider_links(query),
            "local": self.ways.local is not None,
            "shortest": SHORTEST,
            "longest": LONGEST,
            "error": error,
        }
        self.write_page("invitation.html", status, **typed, **values)


_LONGEST_CODE = 4096


class ExternalHandler(AccountHandler):
    def way_back(self, name: str) -> str:
        return f"/login/oidc/{name}/callback" if name else "/oauth_callback"

    @property
    def flow_cookie(self) -> str:
        return f"{self.server.cookie_name}-flow"

    def end(self, provider: str) -> tuple[SignInFlow, str]:
        """Return the flow that this browser started, and the authorization code. Raises `SignInError`."""
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
    async def get(self, name: str = "") -> None:
        provider = self.ways.provider(name)
        flow = new_flow(name or HUB, self.next_path, self.get_query_argument("invitation", "")[:LONGEST_SECRET])
        written = self.ways.flows.write(self.flow_cookie, flow)
        self.set_cookie(self.flow_cookie, written, max_age=int(FLOW_LASTS), **self.server.cookie_options)
        self.redirect(await provider.authorization_url(flow, self.server.url(self.way_back(name))))


class CallbackHandler(ExternalHandler):
    """`/login/oidc/<name>/callback` and JupyterHub's `/oauth_callback`: finish the sign-in."""

    async def get(self, name: str = "") -> None:
        provider = self.ways.provider(name)
        flow, code = self.end(name or HUB)
        self._verify_issuer(provider)
        person = await provider.vouched_person(flow, code, self.server.url(self.way_back(name)))
        await self.finish_sign_in(flow, person, "oidc" if name else HUB, provider.settings.rules)

    def _verify_issuer(self, provider: OidcProvider | HubProvider) -> None:
        """Check the optional issuer parameter (RFC 9207), which prevents mix-up attacks."""
        issuer = self.get_query_argument("iss", None)
        if isinstance(provider, OidcProvider) and issuer is not None and issuer != provider.settings.issuer:
            raise SignInError("The response came from a different provider.", ["sign in again"])


_NAME = r"([a-z0-9-]{1,40})"
_SECRET = r"([A-Za-z0-9_-]{1,128})"  # noqa: S105 - a pattern, not a secret


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
