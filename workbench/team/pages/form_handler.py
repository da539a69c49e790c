"""Forms: a post to an address carries out one action, and leads back to a page that says what was done.

**Invariants**

- A form decides nothing: what it may send, and who may, is the action's to say.
- What went wrong is said on the page that the form is on, with the fields as they were typed.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from workbench.errors import WorkbenchError
from workbench.team.actions.action import Inputs
from workbench.team.actions.perform import admit
from workbench.team.pages.form_bodies import body_of_form
from workbench.team.pages.page_handler import PageHandler, action_named
from workbench.team.pages.said_messages import SaidMessage
from workbench.team.web.addresses import local_path

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
        """The regular expression of its address."""
        return re.sub(r"\{(\w+)\}", rf"(?P<\1>{_PART})", self.path)


class FormHandler(PageHandler):
    """Carries out the action of one form."""

    form: PageForm

    def initialize(self, form: PageForm) -> None:  # type: ignore[override]
        super().initialize()
        self.form = form

    @property
    def largest_body(self) -> int:
        return action_named(self.form.action).largest_body

    async def prepare(self) -> None:
        """Refuse a large body, before it is read, of a person who may not do this; a small one is refused with its fields."""
        await super().prepare()
        if self.is_long:
            await admit(action_named(self.form.action), self.context, self.path_kwargs)

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
        action = action_named(self.form.action)
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
        """What was typed."""
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
