"""Forms: a post to an address carries out one action, and leads back to a page that says what was done.

**Invariants**

- A form decides nothing: what it may send, and who may, is the action's to say.
- What went wrong is said on the page that the form is on, with the fields as they were typed.
"""

import asyncio
import base64
import re
from collections.abc import Iterator, Mapping, Sequence
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
from workbench.team.pages.page_handler import PageHandler, SaidMessage
from workbench.team.web.security import local_path

_PART = "[^/]{1,120}"


@dataclass(frozen=True, slots=True)
class PageForm:
    """A form at the address `path`, which carries out `action`, leads to `back` and says `says`.

    Parts in braces are those of the address, of the fields, and, in `back` and `says`, of the answer. `parts` are those of the path of the
    action that come from a field of another name, `given` is what the body has besides the fields. `once` is a template that shows the
    answer at once, for a secret that is in it. `several` is a field with several texts, with commas between: the
    action is carried out for each. A form whose `says` is empty leads to where nothing would show it.
    """

    path: str
    action: str
    back: str
    says: str
    parts: Mapping[str, str] = field(default_factory=dict)
    given: Mapping[str, str] = field(default_factory=dict)
    once: str = ""
    several: str = ""

    @property
    def pattern(self) -> str:
        return re.sub(r"\{(\w+)\}", rf"(?P<\1>{_PART})", self.path)


class FormHandler(PageHandler):
    """Carries out the action of one form."""

    form: PageForm

    def initialize(self, form: PageForm) -> None:  # type: ignore[override]
        super().initialize()
        self.form = form

    @property
    def largest_body(self) -> int:
        return action_of(self.form.action).largest_body

    async def prepare(self) -> None:
        """Refuse a large body, before it is read, of a person who may not do this; a small one is refused with its fields."""
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
            self.say(SaidMessage("good", fill(self.form.says, values)))
        self.redirect_to(fill(self.form.back, values))

    async def carry_out(self, fields: Mapping[str, list[str]], values: Mapping[str, Any]) -> Any:
        """The answer of the action. Raises its `WorkbenchError`s."""
        action = action_of(self.form.action)
        given = {key: [fill(text, values)] for key, text in self.form.given.items()}
        body = body_of_form(action.body, {**fields, **given}) if action.body is not None else None
        found = {name: fill(self.form.parts.get(name, f"{{{name}}}"), values) for name in action.parameters}
        return await self.perform(action, Inputs(found, {}, body))

    async def _carry_out_each(self, fields: Mapping[str, list[str]], values: Mapping[str, Any]) -> Any:
        """The last answer, in which the texts that the answers have in common with the others are joined."""
        texts = [each.strip() for each in re.split(r"[,;\s]+", values.get(self.form.several, "")) if each.strip()] or [""]
        answers = [await self.carry_out(fields, {**values, self.form.several: each}) for each in texts]
        return {name: ", ".join(dict.fromkeys(str(each[name]) for each in answers)) for name in answers[0]}

    async def get(self, **path: str) -> None:
        """Somebody loads the address of a form again: the page that it leads to, or the project's first."""
        back = fill(self.form.back, path)
        self.redirect_to(back if "{" not in back else fill("/p/{project}/", path) if "project" in path else "/")

    def fields(self) -> dict[str, list[str]]:
        return {key: self.get_body_arguments(key, strip=False) for key in self.request.body_arguments}

    def _refuse(self, error: WorkbenchError, fields: Mapping[str, list[str]]) -> None:
        typed = {key: texts[-1] for key, texts in fields.items()}
        self.say(SaidMessage("bad", error.message, error.ways_out, self.request.path, typed))
        self.redirect(self._page_of_form())

    def _page_of_form(self) -> str:
        """The page that the form is on, by what the browser says; never one of another server."""
        parts = urlsplit(self.request.headers.get("Referer", ""))
        return local_path(parts.path + (f"?{parts.query}" if parts.query else ""), self.server.prefix)


def fill(template: str, values: Mapping[str, Any]) -> str:
    """A template with its parts in braces filled in; what has no value, and what braces are in a value, stays.

    >>> fill("/p/{project}/rooms/{id}", {"project": "gpt", "id": "{x}"})
    '/p/gpt/rooms/{x}'
    """
    return re.sub(r"\{(\w+)\}", lambda found: str(values.get(found[1], found[0])), template)


WHEEL_FORM = PageForm(
    "/p/{project}/programs/wheel", "programs.add", "/p/{project}/programs", "{name} is registered and waits for approval."
)

LARGEST_WHEEL = WHEEL * 3 // 4  # bytes


class WheelFormHandler(FormHandler):
    @property
    def largest_body(self) -> int:
        return LARGEST_WHEEL + SMALL_BODY

    async def carry_out(self, fields: Mapping[str, list[str]], values: Mapping[str, Any]) -> Any:
        found = next(iter(self.request.files.get("wheel", ())), None)
        wheel = await asyncio.to_thread(base64.b64encode, found["body"]) if found else b""
        sent = {"wheel": [wheel.decode()], "locator": [found["filename"]]} if found else {}
        return await super().carry_out({**fields, **sent, "kind": ["wheel"]}, values)


_AT = "/p/{project}/assignments/{assignment}"
LARGEST_GRADES = 1 << 20  # bytes of the remarks of a whole class
GRADES_FORM = PageForm(f"{_AT}/grades", "work.grade", _AT, "Saved: {saved}.")


class GradesFormHandler(FormHandler):
    """Fields are `points.ROOM` and `remark.ROOM`; who work together have a row each, of the same room."""

    @property
    def largest_body(self) -> int:
        return LARGEST_GRADES

    async def carry_out(self, fields: Mapping[str, list[str]], values: Mapping[str, Any]) -> Any:
        scores = (await self.ask("assignments.scores", assignment=values["assignment"]))["items"]
        saved: list[str] = []
        for work, body in changed_grades(scores, fields):
            answer = await self.perform(action_of("work.grade"), Inputs({"assignment": values["assignment"], "work": work}, {}, body))
            saved.append(" and ".join(each["display"] for each in answer["people"]))
        return {"saved": ", ".join(saved) or "nothing was changed"}


def changed_grades(scores: Sequence[Mapping[str, Any]], fields: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rooms whose points or remark were typed anew, with those."""
    rows = {each["room"]: each for each in scores if each["room"]}
    for room, row in rows.items():
        body: dict[str, Any] = {}
        for name, before in (("points", shown_points(row)), ("remark", row["remark"])):
            typed = [each.strip() for each in fields.get(f"{name}.{room}", ()) if each.strip() != before]
            if typed:
                body[name] = typed[0] if name == "remark" else _number(typed[0])
        if body:
            yield room, body


def shown_points(row: Mapping[str, Any]) -> str:
    """The points that a teacher gave in place of those that were reached; empty where none were given."""
    return "" if row["points"] == row["reached"] else f"{row['points']:g}"


def _number(text: str) -> float | str | None:
    """As the action takes it, which refuses what is no number in its own words."""
    try:
        return float(text) if text else None
    except ValueError:
        return text


# What a form sent, as the body that an action takes: the action's own schema says what each field is.
#
# An object is read from fields `key.name`, or from one field with lines `name=value`. A field that is left empty is left out, unless it has
# to be there; a box that is not ticked is false where the form says that it has the box (a hidden field `has` with its name).

Fields = Mapping[str, Sequence[str]]
BOXES = "has"


def body_of_form(schema: Schema, fields: Fields) -> dict[str, Any]:
    """The body; what cannot be read as its type stays a text, which the action refuses in its own words."""
    properties: Mapping[str, Schema] = schema.get("properties", {})
    found = {key: _value(properties[key], fields[key]) for key in properties if key in fields}
    found |= {key: _table(kind, key, fields) for key, kind in properties.items() if _type_of(kind) == "object"}
    for box in fields.get(BOXES, ()):
        if box in properties and box not in fields:
            found[box] = [] if _type_of(properties[box]) == "array" else False
    required = schema.get("required", ())
    return {key: value for key, value in found.items() if value is not None or key in required or _takes_none(properties[key])}


def _value(schema: Schema, texts: Sequence[str]) -> Any:
    kind, text = _type_of(schema), texts[-1].replace("\r\n", "\n")
    if kind == "array":
        return [part.strip() for each in texts for part in (each.split(",") if len(texts) == 1 else [each]) if part.strip()]
    if kind == "boolean":
        return text in ("true", "on", "1", "yes")
    if kind == "string":
        return text if text or not schema.get("minLength") else None
    if not text.strip():
        return None
    return typed_text(kind, text.strip())


def _table(schema: Schema, key: str, fields: Fields) -> dict[str, Any] | None:
    """An object of values that are alike; `None` if there is no field of it."""
    of_values: Schema = schema.get("additionalProperties", {})
    found = {name.removeprefix(f"{key}."): texts[-1] for name, texts in fields.items() if name.startswith(f"{key}.")}
    lines = [line.partition("=") for line in fields.get(key, ("",))[-1].splitlines() if line.strip()]
    found |= {name.strip(): value.strip() for name, _, value in lines}
    return {name: _value(of_values, [text]) for name, text in found.items()} if found or key in fields else None


def _type_of(schema: Schema) -> str:
    """The type of a schema, of the first choice where it has several."""
    choices = schema.get("anyOf")
    return str(choices[0].get("type", "string") if choices else schema.get("type", "string"))


def _takes_none(schema: Schema) -> bool:
    return any(each.get("type") == "null" for each in schema.get("anyOf", ()))
