"""The handler that the pages begin with: they ask the actions, and show what those answer."""

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

# What a form did, said on the page that follows: it travels in one signed cookie, for that person and once.
#
# **Invariants**
#
# - Nobody can make a page of this server say something: the cookie is signed with the server's key, and for one person.
# - Fields that were typed travel along, so that a form that was refused is not typed again; passwords never.

SAID_COOKIE = "workbench-said"
LASTS = 60.0
"""Seconds that a browser keeps it; the next page takes it away."""
_MOST_TEXT, _MOST_FIELDS, _MOST_COOKIE = 900, 1_200, 3_600
_HIDDEN = ("password", "secret")


@dataclass(frozen=True, slots=True)
class SaidMessage:
    """`form` is the address that was posted to, `fields` are what was typed into it."""

    kind: Literal["good", "bad"]
    text: str
    ways_out: tuple[str, ...] = ()
    form: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)


def write_said(message: SaidMessage, key: bytes, person: str) -> str:
    """The value of the cookie."""
    fields = {name: text for name, text in message.fields.items() if not any(word in name for word in _HIDDEN)}
    ways_out = tuple(each[:200] for each in message.ways_out[:4])
    for kept in (fields if len(json.dumps(fields)) <= _MOST_FIELDS else {}, {}):
        said = asdict(replace(message, text=message.text[:_MOST_TEXT], ways_out=ways_out, fields=kept))
        cookie = create_signed_value(derive_key(key, "said"), person, json.dumps(said)).decode("ascii")
        if len(cookie) <= _MOST_COOKIE:
            return cookie
    return ""


def read_said(cookie: str, key: bytes, person: str) -> SaidMessage | None:
    """The inverse of `write_said`; `None` for what this server did not say to this person."""
    text = decode_signed_value(derive_key(key, "said"), person, cookie, max_age_days=1)
    said = json.loads(text) if text else None
    return SaidMessage(**{**said, "ways_out": tuple(said["ways_out"])}) if said else None


PICTURE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
"""Of a picture that is opened by itself: it loads nothing, runs nothing, and is no page of this server."""


class PageHandler(TeamHandler):
    """`await self.ask("rooms.list", project=slug)` is what the person may see of it; `self.show("rooms.html", ...)` is the page."""

    async def prepare(self) -> None:
        await super().prepare()
        if self._finished:
            return
        self.require_principal()

    async def ask(self, name: str, /, query: Mapping[str, Any] | None = None, body: Any = None, **path: str) -> Any:
        """What an action answers this person; raises what it raises."""
        return await self.perform(action_of(name), Inputs(path, query or {}, body))

    async def perform(self, action: Action, inputs: Inputs) -> Any:
        return await perform(action, Context.of(self), inputs)

    async def ask_all(self, name: str, /, most: int = 1000, query: Mapping[str, Any] | None = None, **path: str) -> list[Any]:
        """The items of a long list, from all its parts up to `most`."""
        items: list[Any] = []
        cursor: dict[str, str] = {}
        while len(items) < most:
            part = await self.ask(name, {**(query or {}), "limit": "100", **cursor}, **path)
            items += part["items"]
            if part["next"] is None:
                break
            cursor = {"cursor": part["next"]}
        return items[:most]

    def say(self, message: SaidMessage) -> None:
        """Say something on the next page that this person opens."""
        value = write_said(message, self.server.secret_key, self.require_principal().user_id)
        self.set_cookie(SAID_COOKIE, value, max_age=int(LASTS), **self.server.cookie_options)

    def show(self, template: str, status: int = 200, **values: object) -> None:
        """A page, with what the last form had to say."""
        said = self._take_said()
        typed = {said.form: said.fields} if said else {}
        foot = [f"Programs of the team: {self.sandbox_level}"] if self.sandbox_level else []
        shared: dict[str, Any] = {"said": said, "typed": lambda form: typed.get(form, {}), "foot": foot}
        self.write_page(template, status, **{**shared, **values})

    @property
    def sandbox_text(self) -> str:
        """What everybody should know of how the team's programs run here."""
        return "" if self.server.sandbox is None else str(self.server.sandbox)

    @property
    def sandbox_level(self) -> SandboxLevel | None:
        """What isolates the team's programs here; `None` where none runs."""
        return None if self.server.sandbox is None else self.server.sandbox.level

    def _take_said(self) -> SaidMessage | None:
        cookie = self.get_cookie(SAID_COOKIE)
        if not cookie or self.principal is None:
            return None
        self.clear_cookie(SAID_COOKIE, path=self.server.cookie_options["path"])
        return read_said(cookie, self.server.secret_key, self.principal.user_id)


class ProjectPageHandler(PageHandler):
    """A page within a project."""

    async def show_in_project(self, template: str, slug: str, section: str, **values: object) -> None:
        """The page with the project's head and sections."""
        self.show(template, 200, section=section, **await self.project_values(slug), **values)

    async def project_values(self, slug: str) -> dict[str, Any]:
        """The project, and what the person may do in it."""
        project = await self.ask("projects.get", project=slug)
        roles = tuple(map(str, ProjectRole))
        rank = roles.index(project["role"])
        may = {role: rank >= place for place, role in enumerate(roles)}
        return {"project": project, "may": may, "here": f"/p/{slug}"}

    def show_picture(self, svg: str | None, name: str, seconds: int) -> None:
        """A picture by itself, which browsers keep for so long. Raises `MissingError` where there is none of this name."""
        if not svg:
            raise MissingError("picture", name)
        self.set_header("Content-Type", "image/svg+xml")
        self.set_header("Content-Security-Policy", PICTURE_POLICY)
        self.set_header("Cache-Control", f"private, max-age={seconds}")
        self.finish(svg)

    def write_part(self, template: str, over: bool, **values: object) -> None:
        """A part of a page, for the script that shows it anew."""
        shared = {"path": self.path_to, "principal": self.principal}
        html = page_environment().get_template(template).render({**shared, **values})
        self.set_header("Content-Type", "application/json; charset=utf-8")
        self.finish(json.dumps({"html": html, "over": over}))


async def gather(*questions: Any) -> list[Any]:
    return list(await asyncio.gather(*questions))
