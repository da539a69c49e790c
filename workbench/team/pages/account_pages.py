"""Pages about people: my account, its password, logins and tokens; for administrators people, limits, the audit and the server's state; and
the rooms of a project with who is in each."""

import asyncio
from functools import partial
from typing import Any
from urllib.parse import urlencode

from workbench import __version__
from workbench.errors import WorkbenchError
from workbench.team.access import MissingError
from workbench.team.accounts.logins import revoke_logins_of
from workbench.team.accounts.passwords import LocalAccounts
from workbench.team.accounts.user_accounts import note
from workbench.team.actions.all_actions import ALL_ACTIONS
from workbench.team.pages.page_handler import PageHandler, ProjectPageHandler, SaidMessage, gather
from workbench.team.pages.plan_cards import plan_words
from workbench.team.sandbox.resource_limits import SandboxLevel
from workbench.team.store.tables import Password, User


class AccountPage(PageHandler):
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
            self.say(SaidMessage("good", "Password changed; other browsers are signed out."))
        self.redirect_to("/account")

    async def _change(self, old: str, new: str) -> None:
        person, ways = self.require_principal(), self.server.sign_in
        if ways is None or ways.local is None:
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


# For administrators: people, limits, the audit, and how the server is.

_AUDIT = ("person", "action", "subject")


class AdminPage(PageHandler):
    """A page that only administrators see; the actions hold it, too."""

    async def prepare(self) -> None:
        await super().prepare()
        if not self._finished:
            self.require_admin()

    def show(self, template: str, status: int = 200, **values: object) -> None:
        """A page, with a warning where programs run with the server's rights."""
        warning = self.sandbox_text if self.sandbox_level is SandboxLevel.SEPARATE_PROCESS else ""
        super().show(template, status, **{"sandbox_warning": warning, **values})

    def argument(self, name: str) -> str:
        """A word of the address, without spaces around it."""
        return self.get_query_argument(name, "").strip()[:80]


class AdminPeoplePage(AdminPage):
    """Who has an account."""

    async def get(self) -> None:
        asked = {key: value for key in ("q", "cursor") if (value := self.argument(key))}
        found = await self.ask("people.list", asked)
        later = urlencode({**asked, "cursor": found["next"]}) if found["next"] else ""
        self.show(
            "admin_people.html", title="People", place="admin", section="people", people=found["items"], q=asked.get("q", ""), next=later
        )


class AdminLimitsPage(AdminPage):
    """Limits of the whole server."""

    async def get(self) -> None:
        found = await self.ask("settings.list")
        self.show("admin_limits.html", title="Limits", place="admin", section="limits", settings=found["items"])


class AuditPage(AdminPage):
    """Who did what to what."""

    async def get(self) -> None:
        asked = {key: value for key in _AUDIT if (value := self.argument(key))}
        cursor = {"cursor": value} if (value := self.get_query_argument("cursor", "")) else {}
        found, people = await gather(self.ask("audit.list", {**asked, **cursor}), self.ask("people.list", {"limit": "100"}))
        later = urlencode({**asked, "cursor": found["next"]}) if found["next"] else ""
        actions = sorted({each.name for each in ALL_ACTIONS if each.changes} | {"sign_in", "sign_in_failed", "sign_out"})
        self.show(
            "admin_audit.html",
            title="Audit",
            place="admin",
            section="audit",
            entries=found["items"],
            asked=asked,
            next=later,
            people=[each["name"] for each in people["items"]],
            actions=[(each, each) for each in actions],
        )


class StatusPage(AdminPage):
    """Whether the parts of the server work, and how far programs are walled off."""

    async def get(self) -> None:
        server = self.server
        store = await asyncio.to_thread(server.store.is_ready)
        states = (
            ("Store", store, "keeps people, plans, rooms and jobs"),
            ("Planner", server.planner.is_ready() if server.planner else None, "reads plan documents and computes their figures"),
            ("Jobs", server.jobs.is_ready() if server.jobs else None, "runs and compiles plans"),
            ("Rooms", None if server.rooms is None else True, "lets several people edit one plan"),
            ("Programs", None if server.programs is None else True, "keeps the team's own models"),
        )
        facts = [
            ("Version", __version__),
            ("Address", server.address),
            ("Store", "SQLite" if server.store.is_sqlite else "PostgreSQL"),
            ("Open rooms", str(server.rooms.count()) if server.rooms else "0"),
            ("Open pages", str(server.revocations.count())),
        ]
        self.show(
            "admin_status.html",
            title="Status",
            place="admin",
            section="status",
            states=states,
            facts=facts,
            sandbox=self.sandbox_text,
            is_sandboxed=self.sandbox_level is SandboxLevel.SANDBOXED,
            waiting=(await self.ask("programs.waiting"))["items"],
        )


# The rooms of a project: who is in each now, and what was changed last.

MOST_ROOMS = 100
_MOST_PLANS = 200
_WORDS = {
    "undo": "took a change back",
    "redo": "made a change again",
    "go": "went to another plan",
    "name": "named a plan",
    "pin": "pinned a plan",
}


class RoomsPage(ProjectPageHandler):
    async def get(self, project: str) -> None:
        rooms, plans = await gather(
            self.ask_all("rooms.list", MOST_ROOMS, {"closed": "true"}, project=project),
            self.ask_all("plans.list", _MOST_PLANS, project=project),
        )
        opened = await gather(*(self._with_last(each) for each in rooms if not each["closed"]))
        await self.show_in_project(
            "rooms.html",
            project,
            "rooms",
            title="Rooms",
            rooms=opened,
            closed=[each for each in rooms if each["closed"]],
            plans=[(each["id"], plan_words(each)) for each in plans],
        )

    async def _with_last(self, room: Any) -> Any:
        """The room with the last entry of its log, which says who did what."""
        if not room["edits"]:
            return {**room, "last": None}
        found = (await self.ask("rooms.log", {"after": str(room["edits"] - 1), "limit": "1"}, room=room["id"]))["items"]
        return {**room, "last": {**found[0], "what": change_text(found[0])} if found else None}


def change_text(entry: Any) -> str:
    """What an entry of a room's log did, in a few words.

    >>> change_text({"kind": "undo", "body": {}})
    'took a change back'
    >>> change_text({"kind": "edit", "body": {"added": [{"edit": {"edit": "shard_dim", "dim": "d_ff", "axes": ["model"]}}]}})
    'shard dim d_ff'
    """
    if entry["kind"] in _WORDS:
        return _WORDS[entry["kind"]]
    edits = [each.get("edit", {}) for each in entry["body"].get("added", ()) if isinstance(each, dict)]
    return ", ".join(_edit_text(each) for each in edits[:2] if isinstance(each, dict)) or "a change"


def _edit_text(edit: dict[str, Any]) -> str:
    subject = next((edit[key] for key in ("dim", "axis", "pattern", "place", "name") if isinstance(edit.get(key), str)), "")
    return f"{str(edit.get('edit', 'edit')).replace('_', ' ')} {subject}".strip()[:80]
