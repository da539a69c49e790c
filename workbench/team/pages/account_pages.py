"""My account: how I am shown, my password, where I am signed in, my tokens."""

import asyncio
from functools import partial

from workbench.errors import WorkbenchError
from workbench.team.access import MissingError
from workbench.team.accounts.logins import revoke_logins_of
from workbench.team.accounts.passwords import LocalAccounts
from workbench.team.accounts.people import note
from workbench.team.accounts.ways import SignInWays
from workbench.team.pages.page_handler import PageHandler, gather
from workbench.team.pages.said_messages import SaidMessage
from workbench.team.store.tables import Password, User


class AccountPage(PageHandler):
    """See the module."""

    async def get(self) -> None:
        me, logins, tokens = await gather(self.ask("me.get"), self.ask("me.logins"), self.ask("tokens.list"))
        has_password = await asyncio.to_thread(self._has_password)
        self.show(
            "account.html",
            title="My account",
            place="account",
            me=me,
            logins=logins["items"],
            tokens=tokens["items"],
            has_password=has_password,
        )

    def _has_password(self) -> bool:
        with self.server.store.read() as session:
            return session.get(Password, self.require_principal().user_id) is not None


class QuotaPage(PageHandler):
    """How much I have of what one person may have."""

    async def get(self) -> None:
        self.show("quota.html", title="What I use", place="account", quotas=(await self.ask("me.quota"))["items"])


class PasswordForm(PageHandler):
    """A new password for the person who knows the present one; other browsers are signed out. It is no action: no token may do this."""

    @property
    def ways(self) -> SignInWays:
        found: SignInWays | None = self.server.sign_in
        if found is None:
            raise MissingError("way to sign in", "password")
        return found

    async def post(self) -> None:
        person = self.require_principal("manage")
        if person.way != "login":
            raise MissingError("page", "of a token")
        await self.read_form()
        try:
            await self._change(
                self.get_body_argument("old_password", "", strip=False), self.get_body_argument("new_password", "", strip=False)
            )
        except WorkbenchError as error:
            self.say(SaidMessage("bad", error.message, error.ways_out))
        else:
            self.say(SaidMessage("good", "Your password is changed, and other browsers are signed out."))
        self.redirect_to("/account")

    async def _change(self, old: str, new: str) -> None:
        person, ways = self.require_principal(), self.ways
        if ways.local is None:
            raise MissingError("way to sign in", "password")
        with ways.limits.attempt(person.name, self.request.remote_ip or ""):
            await ways.hashing.run(partial(ways.local.verify, person.name, old))
        hashed = await ways.hashing.run(partial(ways.local.hash, person.name, new))
        self.server.revocations.announce(await asyncio.to_thread(self._store, ways.local, hashed))

    def _store(self, accounts: LocalAccounts, hashed: str) -> list[str]:
        """The digests of the logins that ended."""
        person = self.require_principal()
        with self.server.store.write() as session:
            accounts.set(session, session.get_one(User, person.user_id), hashed)
            note(session, "change_password", person.user_id, "", self.request.remote_ip or "")
            return revoke_logins_of(session, person.user_id, but=person.key)
