"""Forms: a POST runs one action and redirects to a page that shows the outcome.

**Invariants**

- A form decides nothing: the action validates the input and authorizes the user.
- Errors are shown on the form's page, with the fields as they were typed.
"""

import asyncio
import base64
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from workbench.app.page.request_policy import SMALL_BODY
from workbench.errors import WorkbenchError
from workbench.team.actions.action import Inputs
from workbench.team.actions.all_actions import action_of
from workbench.team.actions.check_inputs import typed_text
from workbench.team.actions.perform import Context, admit
from workbench.team.actions.programs import WHEEL
from workbench.team.actions.schemas import Schema
from workbench.team.pages.page_handler import FlashMessage, PageHandler
from workbench.team.web.security import local_path

_PART = "[^/]{1,120}"


@dataclass(frozen=True, slots=True)
class PageForm:
    """A form at `path` that runs `action`, redirects to `back` and shows the message `says`; an empty `says` shows
    nothing.

    Parts in braces are filled from the path, the fields, and, in `back` and `says`, the answer. `parts` maps the
    action's path parameters to fields of other names; `given` has body values besides the fields, or functions
    of the fields. `once` is a template that shows an answer directly, because it contains a secret. `several` is a
    field with comma-separated texts: the action runs for each.
    """

    path: str
    action: str
    back: str
    says: str
    parts: Mapping[str, str] = field(default_factory=dict)
    given: Mapping[str, str | Callable[[Mapping[str, Any]], str]] = field(default_factory=dict)
    once: str = ""
    several: str = ""

    @property
    def pattern(self) -> str:
        return re.sub(r"\{(\w+)\}", rf"(?P<\1>{_PART})", self.path)


class FormHandler(PageHandler):
    form: PageForm

    def initialize(self, form: PageForm) -> None:  # type: ignore[override]
        super().initialize()
        self.form = form

    @property
    def largest_body(self) -> int:
        return action_of(self.form.action).largest_body

    async def prepare(self) -> None:
        """Reject large bodies of unauthorized requests before reading them; small ones are rejected with their fields."""
        await super().prepare()
        if self.is_long:
            await admit(action_of(self.form.action), Context.of(self), self.path_kwargs)

    async def post(self, **path: str) -> None:
        await self.read_form()
        fields = self.fields()
        values: dict[str, Any] = {**{key: texts[-1] for key, texts in fields.items()}, **path}
        try:
            answer = await (self._carry_out_each(fields, values) if self.form.several else self.carry_out(fields, values))
        except WorkbenchError as error:
            self._refuse(error, fields)
            return
        values |= answer if isinstance(answer, Mapping) else {}
        if self.form.once:
            self.show(self.form.once, answer=values, back=self.path_to(fill(self.form.back, values)), title=fill(self.form.says, values))
            return
        if self.form.says:
            self.say(FlashMessage("good", fill(self.form.says, values)))
        self.redirect_to(fill(self.form.back, values))

    async def carry_out(self, fields: Mapping[str, list[str]], values: Mapping[str, Any]) -> Any:
        """Run the action and return its answer. Raises the action's `WorkbenchError`s."""
        action = action_of(self.form.action)
        fixed = {key: [fill(given, values) if isinstance(given, str) else given(values)] for key, given in self.form.given.items()}
        body = body_of_form(action.body, {**fields, **fixed}) if action.body is not None else None
        parameters = {name: fill(self.form.parts.get(name, f"{{{name}}}"), values) for name in action.parameters}
        return await self.perform(action, Inputs(parameters, {}, body))

    async def _carry_out_each(self, fields: Mapping[str, list[str]], values: Mapping[str, Any]) -> Any:
        texts = [part.strip() for part in re.split(r"[,;\s]+", values.get(self.form.several, "")) if part.strip()] or [""]
        answers = [await self.carry_out(fields, {**values, self.form.several: text}) for text in texts]
        return {name: ", ".join(dict.fromkeys(str(answer[name]) for answer in answers)) for name in answers[0]}

    async def get(self, **path: str) -> None:
        """Redirect a reloaded form address to its target page, or to the project's first page."""
        back = fill(self.form.back, path)
        self.redirect_to(back if "{" not in back else fill("/p/{project}/", path) if "project" in path else "/")

    def fields(self) -> dict[str, list[str]]:
        return {key: self.get_body_arguments(key, strip=False) for key in self.request.body_arguments}

    def _refuse(self, error: WorkbenchError, fields: Mapping[str, list[str]]) -> None:
        typed = {key: texts[-1] for key, texts in fields.items()}
        self.say(FlashMessage("bad", error.message, error.ways_out, self.request.path, typed))
        self.redirect(self._page_of_form())

    def _page_of_form(self) -> str:
        parts = urlsplit(self.request.headers.get("Referer", ""))
        return local_path(parts.path + (f"?{parts.query}" if parts.query else ""), self.server.prefix)


def fill(template: str, values: Mapping[str, Any]) -> str:
    """Fill in the parts in braces; unknown parts and braces within values stay.

    >>> fill("/p/{project}/rooms/{id}", {"project": "gpt", "id": "{x}"})
    '/p/gpt/rooms/{x}'
    """
    return re.sub(r"\{(\w+)\}", lambda match: str(values.get(match[1], match[0])), template)


WHEEL_FORM = PageForm(
    "/p/{project}/programs/wheel", "programs.add", "/p/{project}/programs", "{name} is registered and waits for approval."
)

LARGEST_WHEEL = WHEEL * 3 // 4  # bytes


class WheelFormHandler(FormHandler):
    @property
    def largest_body(self) -> int:
        return LARGEST_WHEEL + SMALL_BODY

    async def carry_out(self, fields: Mapping[str, list[str]], values: Mapping[str, Any]) -> Any:
        upload = next(iter(self.request.files.get("wheel", ())), None)
        wheel = await asyncio.to_thread(base64.b64encode, upload["body"]) if upload else b""
        sent = {"wheel": [wheel.decode()], "locator": [upload["filename"]]} if upload else {}
        return await super().carry_out({**fields, **sent, "kind": ["wheel"]}, values)


_AT = "/p/{project}/assignments/{assignment}"
LARGEST_GRADES = 1 << 20  # bytes of the remarks of a whole class
GRADES_FORM = PageForm(f"{_AT}/grades", "work.grade", _AT, "Saved: {saved}.")


class GradesFormHandler(FormHandler):
    """Grades of a class in fields `points.ROOM` and `remark.ROOM`; group members have a row each for one room."""

    @property
    def largest_body(self) -> int:
        return LARGEST_GRADES

    async def carry_out(self, fields: Mapping[str, list[str]], values: Mapping[str, Any]) -> Any:
        scores = (await self.ask("assignments.scores", assignment=values["assignment"]))["items"]
        saved: list[str] = []
        for work, body in changed_grades(scores, fields):
            answer = await self.perform(action_of("work.grade"), Inputs({"assignment": values["assignment"], "work": work}, {}, body))
            saved.append(" and ".join(person["display"] for person in answer["people"]))
        return {"saved": ", ".join(saved) or "nothing was changed"}


def changed_grades(scores: Sequence[Mapping[str, Any]], fields: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, dict[str, Any]]]:
    rows = {score["room"]: score for score in scores if score["room"]}
    for room, row in rows.items():
        body: dict[str, Any] = {}
        for name, previous in (("points", shown_points(row)), ("remark", row["remark"])):
            typed = [text.strip() for text in fields.get(f"{name}.{room}", ()) if text.strip() != previous]
            if typed:
                body[name] = typed[0] if name == "remark" else _number(typed[0])
        if body:
            yield room, body


def shown_points(row: Mapping[str, Any]) -> str:
    """Return the points that a teacher set to override the reached score; empty if none."""
    return "" if row["points"] == row["reached"] else f"{row['points']:g}"


def _number(text: str) -> float | str | None:
    """Convert a text to a number; invalid texts are returned unchanged, so that the action reports them."""
    try:
        return float(text) if text else None
    except ValueError:
        return text


# Convert form fields to an action's body, by the action's schema.
#
# An object is read from fields `key.name`, or from one field with lines `name=value`. An empty field is omitted unless it is
# required; an unchecked box is false if the form declares the box (a hidden field `has` with its name).

Fields = Mapping[str, Sequence[str]]
BOXES = "has"


def body_of_form(schema: Schema, fields: Fields) -> dict[str, Any]:
    """Return the body; values that cannot be converted stay texts, so that the action reports them."""
    properties: Mapping[str, Schema] = schema.get("properties", {})
    body = {key: _value(properties[key], fields[key]) for key in properties if key in fields}
    body |= {key: _table(kind, key, fields) for key, kind in properties.items() if _type_of(kind) == "object"}
    for box in fields.get(BOXES, ()):
        if box in properties and box not in fields:
            body[box] = [] if _type_of(properties[box]) == "array" else False
    required = schema.get("required", ())
    return {key: value for key, value in body.items() if value is not None or key in required or _takes_none(properties[key])}


def _value(schema: Schema, texts: Sequence[str]) -> Any:
    kind, text = _type_of(schema), next(filter(None, reversed(texts)), "").replace("\r\n", "\n")  # of two fields, the one that is filled in
    if kind == "array":
        return [part.strip() for entry in texts for part in (entry.split(",") if len(texts) == 1 else [entry]) if part.strip()]
    if kind == "boolean":
        return text in ("true", "on", "1", "yes")
    if kind == "string":
        return text if text or not schema.get("minLength") else None
    if not text.strip():
        return None
    return typed_text(kind, text.strip())


def _table(schema: Schema, key: str, fields: Fields) -> dict[str, Any] | None:
    of_values: Schema = schema.get("additionalProperties", {})
    entries = {name.removeprefix(f"{key}."): texts[-1] for name, texts in fields.items() if name.startswith(f"{key}.")}
    lines = [line.partition("=") for line in fields.get(key, ("",))[-1].splitlines() if line.strip()]
    entries |= {name.strip(): value.strip() for name, _, value in lines}
    return {name: _value(of_values, [text]) for name, text in entries.items()} if entries or key in fields else None


def _type_of(schema: Schema) -> str:
    choices = schema.get("anyOf")
    return str(choices[0].get("type", "string") if choices else schema.get("type", "string"))


def _takes_none(schema: Schema) -> bool:
    return any(option.get("type") == "null" for option in schema.get("anyOf", ()))
