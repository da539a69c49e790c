"""The pages of signing in and out: `/login`, `/logout`, `/invite/<secret>`."""

import asyncio
from functools import partial
from urllib.parse import quote

from sqlalchemy.orm import Session

from workbench.errors import WorkbenchError
from workbench.team.access import MissingError
from workbench.team.accounts.invitations import InvitationError, accept_as, accept_with_password, open_invitation
from workbench.team.accounts.jupyterhub_login import SignInWays
from workbench.team.accounts.logins import LASTS, issue_login, revoke_login, revoke_logins_of
from workbench.team.accounts.passwords import LONGEST, SHORTEST, LocalAccounts, WrongPasswordError
from workbench.team.accounts.rate_limit import TooManyAttemptsError
from workbench.team.accounts.user_accounts import LONGEST_DISPLAY, LONGEST_NAME, note, verify_name
from workbench.team.store.store import digest_of
from workbench.team.store.tables import Project, User
from workbench.team.web.base_handler import TeamHandler
from workbench.team.web.security import local_path

LARGEST_FORM = 16_384
_LONGEST_FIELD = 2000


class AccountHandler(TeamHandler):
    """What the pages of accounts share."""

    @property
    def ways(self) -> SignInWays:
        found: SignInWays | None = self.server.sign_in
        if found is None:
            raise MissingError("way to sign in", "any")
        return found

    @property
    def local(self) -> LocalAccounts:
        """The accounts with passwords. Raises `MissingError` where the server has none."""
        if self.ways.local is None:
            raise MissingError("way to sign in", "password")
        return self.ways.local

    @property
    def next_path(self) -> str:
        """Where to go afterwards: within this server."""
        return local_path(self.get_argument("next", ""), self.server.prefix)

    @property
    def largest_body(self) -> int:
        return LARGEST_FORM

    def provider_links(self, query: str) -> list[tuple[str, str]]:
        """What the buttons of the providers say, and where they lead."""
        links = [(each.settings.label, self.path_to(f"/login/oidc/{each.settings.name}{query}")) for each in self.ways.oidc]
        if self.ways.hub:
            links.append((self.ways.hub.settings.label, self.path_to(f"/login/hub{query}")))
        return links

    def field(self, name: str, *, strip: bool = True) -> str:
        """A field of the form. Raises `WorkbenchError` for one that is too long."""
        text = self.get_body_argument(name, "", strip=strip)
        if len(text) > _LONGEST_FIELD:
            raise WorkbenchError(f"`{name}` has {len(text):,} characters; the limit is {_LONGEST_FIELD:,}.", ["shorten it"])
        return text

    def issue(self, session: Session, user_id: str, way: str) -> str:
        """Sign a person in within a transaction; whoever was signed in in this browser is out."""
        if (former := self.get_cookie(self.server.cookie_name)) is not None:
            revoke_login(session, digest_of(former))
        note(session, "sign_in", user_id, way, self.request.remote_ip or "")
        return issue_login(session, user_id, way, self.request.headers.get("User-Agent", ""))

    def set_login_cookie(self, secret: str) -> None:
        """Give the browser the cookie of a login, and close what the former one had open."""
        if (former := self.get_cookie(self.server.cookie_name)) is not None:
            self.server.revocations.announce([digest_of(former)])
        self.set_cookie(self.server.cookie_name, secret, max_age=int(LASTS), **self.server.cookie_options)

    def clear_login_cookie(self) -> None:
        """Take the cookie from the browser; one that begins with `__Host-` is taken only as it was given."""
        self.set_cookie(self.server.cookie_name, "", max_age=0, **self.server.cookie_options)


class LoginHandler(AccountHandler):
    """Asks for a name and a password, or for a provider."""

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
        """The id of the person. Raises `WrongPasswordError`, and `TooManyAttemptsError`."""
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
    """Signs out: this browser, or with `everywhere` all of the person's."""

    def get(self) -> None:
        self.write_page("logout.html")

    async def post(self) -> None:
        await self.read_form()
        cookie, everywhere = self.get_cookie(self.server.cookie_name), self.field("everywhere") == "yes"
        if cookie:
            ended = await asyncio.to_thread(self._sign_out, digest_of(cookie), everywhere)
            self.server.revocations.announce(ended)
        self.clear_login_cookie()
        self.redirect_to("/login")

    def _sign_out(self, digest: str, everywhere: bool) -> list[str]:
        with self.server.store.write() as session:
            if self.principal is not None:
                note(session, "sign_out", self.principal.user_id, "everywhere" if everywhere else "", self.request.remote_ip or "")
            if everywhere and self.principal is not None:
                return revoke_logins_of(session, self.principal.user_id)
            return revoke_login(session, digest)


class InvitationHandler(AccountHandler):
    """Makes an account from an invitation, sets a new password, or lets somebody who is signed in join a project."""

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
            issued = await self._accept(secret, invited[1] or self.field("name"))
        except InvitationError:
            raise
        except WorkbenchError as error:
            self._show(secret, 400, error)
        else:
            self.set_login_cookie(issued)
            self.redirect_to("/")

    def _open(self, secret: str) -> tuple[str | None, str | None]:
        """The names of the project and of the person that an invitation is for; they are shown. Raises `InvitationError`."""
        with self.server.store.read() as session:
            found = open_invitation(session, secret)
            project = session.get(Project, found.project_id) if found.project_id else None
            person = session.get(User, found.user_id) if found.user_id else None
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
