"""Pages of the account, server administration, and a project's rooms."""

import asyncio
from collections.abc import Mapping
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
from workbench.team.pages.page_handler import FlashMessage, PageHandler, Values, gather, page
from workbench.team.pages.plan_cards import plan_label
from workbench.team.sandbox.resource_limits import SandboxLevel
from workbench.team.store.tables import Password, User


@page("/account", "account.html", title="My account", place="account")
async def _account(handler: PageHandler) -> Values:
    me, logins, tokens = await gather(handler.ask("me.get"), handler.ask("me.logins"), handler.ask("tokens.list"))
    has_password = await asyncio.to_thread(_has_password, handler)
    return {"me": me, "logins": logins["items"], "tokens": tokens["items"], "has_password": has_password}


def _has_password(handler: PageHandler) -> bool:
    with handler.server.store.read() as session:
        return session.get(Password, handler.require_principal().user_id) is not None


@page("/account/quota", "quota.html", title="What I use", place="account")
async def _quota(handler: PageHandler) -> Values:
    return {"quotas": (await handler.ask("me.quota"))["items"]}


class PasswordForm(PageHandler):
    """Change the password and sign out other browsers. This is not an action, because no token may do it."""

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
            self.say(FlashMessage("bad", error.message, error.ways_out))
        else:
            self.say(FlashMessage("good", "Password changed; other browsers are signed out."))
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
        person = self.require_principal()
        with self.server.store.write() as session:
            accounts.set(session, session.get_one(User, person.user_id), hashed)
            note(session, "change_password", person.user_id, "", self.request.remote_ip or "")
            return revoke_logins_of(session, person.user_id, but=person.key)


# Administration: users, limits, audit log and server status.


@page("/admin", "admin_people.html", title="People", place="admin", section="people")
async def _people(handler: PageHandler) -> Values:
    filters = _filters(handler, "q", "cursor")
    found = await handler.ask("people.list", filters)
    return {"people": found["items"], "q": filters.get("q", ""), "next": _next_query(filters, found)}


@page("/admin/limits", "admin_limits.html", title="Limits", place="admin", section="limits")
async def _limits(handler: PageHandler) -> Values:
    return {"settings": (await handler.ask("settings.list"))["items"]}


@page("/admin/audit", "admin_audit.html", title="Audit", place="admin", section="audit")
async def _audit(handler: PageHandler) -> Values:
    filters = _filters(handler, "person", "action", "subject")
    cursor = {"cursor": value} if (value := handler.get_query_argument("cursor", "")) else {}
    found, people = await gather(handler.ask("audit.list", {**filters, **cursor}), handler.ask("people.list", {"limit": "100"}))
    actions = sorted({action.name for action in ALL_ACTIONS if action.changes} | {"sign_in", "sign_in_failed", "sign_out"})
    return {
        "entries": found["items"],
        "asked": filters,
        "next": _next_query(filters, found),
        "people": [person["name"] for person in people["items"]],
        "actions": [(name, name) for name in actions],
    }


def _filters(handler: PageHandler, *names: str) -> dict[str, str]:
    return {name: value for name in names if (value := handler.get_query_argument(name, "").strip()[:80])}


def _next_query(filters: Mapping[str, str], found: Mapping[str, Any]) -> str:
    return urlencode({**filters, "cursor": found["next"]}) if found["next"] else ""


@page("/admin/status", "admin_status.html", title="Status", place="admin", section="status")
async def _status(handler: PageHandler) -> Values:
    server = handler.server
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
    waiting = (await handler.ask("programs.waiting"))["items"]
    is_sandboxed = handler.sandbox_level is SandboxLevel.SANDBOXED
    return {"states": states, "facts": facts, "sandbox": handler.sandbox_text, "is_sandboxed": is_sandboxed, "waiting": waiting}


# The rooms of a project, with their users and latest changes.

MOST_ROOMS = 100
_MOST_PLANS = 200
_WORDS = {
    "undo": "took a change back",
    "redo": "made a change again",
    "go": "went to another plan",
    "name": "named a plan",
    "pin": "pinned a plan",
}


@page("/p/{project}/rooms", "rooms.html", title="Rooms", section="rooms")
async def _rooms(handler: PageHandler, project: str) -> Values:
    rooms, plans = await gather(
        handler.ask_all("rooms.list", MOST_ROOMS, {"closed": "true"}, project=project),
        handler.ask_all("plans.list", _MOST_PLANS, project=project),
    )
    opened = await gather(*(_with_last(handler, room) for room in rooms if not room["closed"]))
    closed = [room for room in rooms if room["closed"]]
    return {"rooms": opened, "closed": closed, "plans": [(plan["id"], plan_label(plan)) for plan in plans]}


async def _with_last(handler: PageHandler, room: Any) -> Any:
    if not room["edits"]:
        return {**room, "last": None}
    entries = (await handler.ask("rooms.log", {"after": str(room["edits"] - 1), "limit": "1"}, room=room["id"]))["items"]
    return {**room, "last": {**entries[0], "what": change_text(entries[0])} if entries else None}


def change_text(entry: Any) -> str:
    """Describe the change of a room's log entry in a few words.

    >>> change_text({"kind": "undo", "body": {}})
    'took a change back'
    >>> change_text({"kind": "edit", "body": {"added": [{"edit": {"edit": "shard_dim", "dim": "d_ff", "axes": ["model"]}}]}})
    'shard dim d_ff'
    """
    if entry["kind"] in _WORDS:
        return _WORDS[entry["kind"]]
    edits = [record.get("edit", {}) for record in entry["body"].get("added", ()) if isinstance(record, dict)]
    return ", ".join(_edit_text(record) for record in edits[:2] if isinstance(record, dict)) or "a change"


def _edit_text(edit: dict[str, Any]) -> str:
    subject = next((edit[key] for key in ("dim", "axis", "pattern", "place", "name") if isinstance(edit.get(key), str)), "")
    return f"{str(edit.get('edit', 'edit')).replace('_', ' ')} {subject}".strip()[:80]
