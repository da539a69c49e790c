"""For administrators: people, limits, the audit, and how the server is."""

import asyncio
from urllib.parse import urlencode

from workbench import __version__
from workbench.team.actions.all_actions import ALL_ACTIONS
from workbench.team.pages.page_handler import PageHandler, gather
from workbench.team.sandbox.levels import SandboxLevel

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
