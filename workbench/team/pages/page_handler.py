"""Base handlers of the pages, which run actions and render their answers."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from tornado.web import create_signed_value, decode_signed_value

from workbench.team.access import MissingError, ProjectRole
from workbench.team.accounts.sign_in_flow import derive_key
from workbench.team.actions.action import Action, Inputs
from workbench.team.actions.all_actions import action_of
from workbench.team.actions.perform import Context, perform
from workbench.team.sandbox.resource_limits import SandboxLevel
from workbench.team.web.base_handler import TeamHandler, page_environment

# The outcome of a form, shown once on the next page; it is stored in a signed cookie.
#
# **Invariants**
#
# - Messages cannot be forged: the cookie is signed with the server's key, for one user.
# - Typed fields are included so that a rejected form keeps them, except passwords.

SAID_COOKIE = "workbench-said"
LASTS = 60.0
"""Lifetime of the cookie in seconds; the next page deletes it."""
_MOST_TEXT, _MOST_FIELDS, _MOST_COOKIE = 900, 1_200, 3_600
_HIDDEN = ("password", "secret")


@dataclass(frozen=True, slots=True)
class FlashMessage:
    kind: Literal["good", "bad"]
    text: str
    ways_out: tuple[str, ...] = ()
    form: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)


def encode_flash_message(message: FlashMessage, key: bytes, person: str) -> str:
    fields = {name: text for name, text in message.fields.items() if not any(word in name for word in _HIDDEN)}
    ways_out = tuple(hint[:200] for hint in message.ways_out[:4])
    for typed in (fields if len(json.dumps(fields)) <= _MOST_FIELDS else {}, {}):
        record = asdict(replace(message, text=message.text[:_MOST_TEXT], ways_out=ways_out, fields=typed))
        cookie = create_signed_value(derive_key(key, "said"), person, json.dumps(record)).decode("ascii")
        if len(cookie) <= _MOST_COOKIE:
            return cookie
    return ""


def decode_flash_message(cookie: str, key: bytes, person: str) -> FlashMessage | None:
    text = decode_signed_value(derive_key(key, "said"), person, cookie, max_age_days=1)
    record = json.loads(text) if text else None
    return FlashMessage(**{**record, "ways_out": tuple(record["ways_out"])}) if record else None


PICTURE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
"""Content security policy of a standalone picture: it loads and runs nothing."""


class PageHandler(TeamHandler):
    """Base of pages: `self.ask("rooms.list", project=slug)` runs an action, `self.show("rooms.html")` renders."""

    async def prepare(self) -> None:
        await super().prepare()
        if self._finished:
            return
        self.require_principal()

    async def ask(self, name: str, /, query: Mapping[str, Any] | None = None, body: Any = None, **path: str) -> Any:
        """Run an action for this user and return its answer; raises the action's errors."""
        return await self.perform(action_of(name), Inputs(path, query or {}, body))

    async def perform(self, action: Action, inputs: Inputs) -> Any:
        return await perform(action, Context.of(self), inputs)

    async def ask_all(self, name: str, /, most: int = 1000, query: Mapping[str, Any] | None = None, **path: str) -> list[Any]:
        items: list[Any] = []
        cursor: dict[str, str] = {}
        while len(items) < most:
            page = await self.ask(name, {**(query or {}), "limit": "100", **cursor}, **path)
            items += page["items"]
            if page["next"] is None:
                break
            cursor = {"cursor": page["next"]}
        return items[:most]

    def say(self, message: FlashMessage) -> None:
        value = encode_flash_message(message, self.server.secret_key, self.require_principal().user_id)
        self.set_cookie(SAID_COOKIE, value, max_age=int(LASTS), **self.server.cookie_options)

    def show(self, template: str, status: int = 200, **values: object) -> None:
        message = self._take_said()
        typed = {message.form: message.fields} if message else {}
        foot = [f"Programs of the team: {self.sandbox_level}"] if self.sandbox_level else []
        shared: dict[str, Any] = {"said": message, "typed": lambda form: typed.get(form, {}), "foot": foot}
        self.write_page(template, status, **{**shared, **values})

    @property
    def sandbox_text(self) -> str:
        return "" if self.server.sandbox is None else str(self.server.sandbox)

    @property
    def sandbox_level(self) -> SandboxLevel | None:
        """The isolation of team programs; `None` if the server runs none."""
        return None if self.server.sandbox is None else self.server.sandbox.level

    def _take_said(self) -> FlashMessage | None:
        cookie = self.get_cookie(SAID_COOKIE)
        if not cookie or self.principal is None:
            return None
        self.clear_cookie(SAID_COOKIE, path=self.server.cookie_options["path"])
        return decode_flash_message(cookie, self.server.secret_key, self.principal.user_id)


class ProjectPageHandler(PageHandler):
    async def show_in_project(self, template: str, slug: str, section: str, **values: object) -> None:
        self.show(template, 200, section=section, **await self.project_values(slug), **values)

    async def project_values(self, slug: str) -> dict[str, Any]:
        project = await self.ask("projects.get", project=slug)
        roles = tuple(map(str, ProjectRole))
        rank = roles.index(project["role"])
        may = {role: rank >= place for place, role in enumerate(roles)}
        return {"project": project, "may": may, "here": f"/p/{slug}"}

    def show_picture(self, svg: str | None, name: str, seconds: int) -> None:
        """Write a picture that browsers cache for `seconds`. Raises `MissingError` without one."""
        if not svg:
            raise MissingError("picture", name)
        self.set_header("Content-Type", "image/svg+xml")
        self.set_header("Content-Security-Policy", PICTURE_POLICY)
        self.set_header("Cache-Control", f"private, max-age={seconds}")
        self.finish(svg)

    def write_part(self, template: str, over: bool, **values: object) -> None:
        shared = {"path": self.path_to, "principal": self.principal}
        html = page_environment().get_template(template).render({**shared, **values})
        self.set_header("Content-Type", "application/json; charset=utf-8")
        self.finish(json.dumps({"html": html, "over": over}))


async def gather(*questions: Any) -> list[Any]:
    return list(await asyncio.gather(*questions))
