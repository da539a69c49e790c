"""The form with the grades of all: a remark and points for each work, of which those are saved that were changed."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from workbench.team.actions.action import Inputs
from workbench.team.pages.form_handler import FormHandler, PageForm
from workbench.team.pages.page_handler import action_named

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
            answer = await self.perform(action_named("work.grade"), Inputs({"assignment": values["assignment"], "work": work}, {}, body))
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
