"""Pages: functions that ask actions for what a template shows, and the handler that renders them."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TypeVar

from tornado.web import create_signed_value, decode_signed_value

from workbench.team.access import MissingError, ProjectRole
from workbench.team.accounts.sign_in_flow import derive_key
from workbench.team.actions.action import Action, Inputs
from workbench.team.actions.all_actions import action_of
from workbench.team.actions.perform import Context, perform
from workbench.team.sandbox.resource_limits import SandboxLevel
from workbench.team.web.base_handler import TeamHandler

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

    def initialize(self) -> None:
        super().initialize()
        self._of_project: dict[str, Any] = {}

    async def prepare(self) -> None:
        await super().prepare()
        if not self._finished:
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
    def sandbox_warning(self) -> str:
        return self.sandbox_text if self.sandbox_level is SandboxLevel.SEPARATE_PROCESS else ""

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

    async def project_values(self, slug: str) -> dict[str, Any]:
        """Return the project of the page, and what the user may do there."""
        if not self._of_project:
            project = await self.ask("projects.get", project=slug)
            roles = tuple(map(str, ProjectRole))
            rank = roles.index(project["role"])
            may = {role: rank >= place for place, role in enumerate(roles)}
            self._of_project = {"project": project, "may": may, "here": f"/p/{slug}"}
        return self._of_project

    def show_picture(self, svg: str | None, name: str, seconds: int) -> None:
        """Write a picture that browsers cache for `seconds`. Raises `MissingError` without one."""
        if not svg:
            raise MissingError("picture", name)
        self.set_header("Content-Type", "image/svg+xml")
        self.set_header("Content-Security-Policy", PICTURE_POLICY)
        self.set_header("Cache-Control", f"private, max-age={seconds}")
        self.finish(svg)


async def gather(*questions: Any) -> list[Any]:
    return list(await asyncio.gather(*questions))


Values = Mapping[str, Any]
Function = TypeVar("Function", bound=Callable[..., Awaitable[Values | None]])
PAGES = "team_pages"
_PARTS = {"project": "[a-z0-9-]{1,40}", "job": "[a-z0-9]{4,40}", "place": "[0-9]{1,4}", "form": "csv|json"}
_ID = "[a-z0-9]{4,64}"


@dataclass(frozen=True, slots=True)
class RegisteredPage:
    """A page at `path`: the function `values` returns what its `template` shows, or answers by itself and returns `None`.

    Pages of a project also get the project and the user's permissions there. `fixed` are the `title`, unless it is among the values, and
    the `place` and `section` that the navigation marks. A part of a page at `.../live` is polled as JSON until its value `over` is true.
    """

    path: str
    template: str
    values: Callable[..., Awaitable[Values | None]]
    fixed: Mapping[str, str]

    @property
    def pattern(self) -> str:
        parts = re.split(r"\{(\w+)\}", self.path)
        return "".join(f"(?P<{part}>{_PARTS.get(part, _ID)})" if place % 2 else re.escape(part) for place, part in enumerate(parts))

    @property
    def is_of_admin(self) -> bool:
        return self.path.startswith("/admin")

    @property
    def is_live(self) -> bool:
        return self.path.endswith("/live")


def page(path: str, template: str = "", **fixed: str) -> Callable[[Function], Function]:
    """Register a function of the handler and of the path's parts in braces as a page."""

    def decorate(values: Function) -> Function:
        vars(values)[PAGES] = (RegisteredPage(path, template, values, fixed), *vars(values).get(PAGES, ()))
        return values

    return decorate
