"""The class: what was handed out, one assignment as students and teachers see it, and the wall with the work of all."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from workbench.team.access import MissingError, ProjectRole, parse_role
from workbench.team.pages.page_handler import ProjectPageHandler, gather
from workbench.team.pages.plan_charts import ChartPoint, draw_memory_by_time

MOST_IN_CHART = 60


class ClassPage(ProjectPageHandler):
    """The assignments of a class."""

    async def get(self, project: str) -> None:
        found = (await self.ask("assignments.list", project=project))["items"]
        await self.show_in_project("class.html", project, "class", title="Assignments", assignments=found)


class AssignmentHandler(ProjectPageHandler):
    """What the pages of one assignment share."""

    async def assignment_of(self, project: str, assignment: str) -> Any:
        """The assignment. Raises `MissingError` for one of another project."""
        found = await self.ask("assignments.get", assignment=assignment)
        if found["project"] != project:
            raise MissingError("assignment", assignment)
        return found

    async def ranking_of(self, assignment: str) -> dict[str, Any]:
        """The ranking, and whether something of it is still on its way."""
        found = await self.ask("assignments.ranking", assignment=assignment)
        return {
            **found,
            "pending": any(each["compiling"] for each in found["items"]) or any(each["searching"] for each in found["baselines"]),
        }

    async def role_in(self, project: str) -> ProjectRole:
        """What the person may do here."""
        return parse_role((await self.ask("projects.get", project=project))["role"])


class AssignmentPage(AssignmentHandler):
    """What is asked, one's own work, the ranking; for teachers the scores of all."""

    async def get(self, project: str, assignment: str) -> None:
        found, role = await gather(self.assignment_of(project, assignment), self.role_in(project))
        ranking = await self.ranking_of(assignment) if found["ranked"] else None
        given = (await self.ask("answers.list", assignment=assignment))["items"] if found["work"] else []
        scores = (await self.ask("assignments.scores", assignment=assignment))["items"] if role >= ProjectRole.EDITOR else []
        await self.show_in_project(
            "assignment.html",
            project,
            "class",
            title=found["name"],
            assignment=found,
            ranking=ranking,
            last={each["question"]: each for each in given},
            scores=scores,
            plan_questions=[each["name"] for each in found["questions"] if each["kind"] == "plan"],
        )


class LiveRanking(AssignmentHandler):
    """The ranking, as a part of the page, until all of it is known."""

    async def get(self, project: str, assignment: str) -> None:
        found, ranking = await gather(self.assignment_of(project, assignment), self.ranking_of(assignment))
        values = {**await self.project_values(project), "assignment": found, "ranking": ranking}
        self.write_part("ranking_live.html", over=not ranking["pending"], **values)


class ReplayPage(AssignmentHandler):
    """How a plan of the ranking came to be, step by step."""

    async def get(self, project: str, assignment: str, place: str) -> None:
        found = await self.assignment_of(project, assignment)
        replay = await self.ask("assignments.replay", assignment=assignment, place=place)
        title = f"Replay of {'the winner' if place == '1' else f'place {place}'}"
        await self.show_in_project("replay.html", project, "class", title=title, assignment=found, replay=replay)


class ScoresTable(AssignmentHandler):
    """The scores as a table for spreadsheets, or as the results of Gradescope, a record for each student."""

    async def get(self, project: str, assignment: str, form: str) -> None:
        found = await self.assignment_of(project, assignment)
        scores = (await self.ask("assignments.scores", assignment=assignment))["items"]
        names = [each["name"] for each in found["questions"]]
        content = scores_csv(scores, names) if form == "csv" else json.dumps(gradescope_results(scores, found["questions"]), indent=1)
        self.set_header("Content-Type", "text/csv; charset=utf-8" if form == "csv" else "application/json; charset=utf-8")
        self.set_header("Content-Disposition", f'attachment; filename="scores.{form}"')
        self.finish(content)


def scores_csv(scores: Sequence[Mapping[str, Any]], questions: Sequence[str]) -> str:
    """A row for each person. A name that a spreadsheet would take for a formula gets an apostrophe before it (OWASP, "CSV Injection")."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["name", "display", "student", *questions, "reached", "points", "of", "tries", "late", "remark"])
    for each in scores:
        person = each["person"]
        own = [f"{each['questions'].get(name, 0.0):g}" for name in questions]
        rest = [f"{each[key]:g}" for key in ("reached", "points", "most", "tries", "late")]
        texts = [_plain(person["name"]), _plain(person["display"]), "yes" if each["student"] else "no"]
        writer.writerow([*texts, *own, *rest, _plain(each["remark"])])
    return out.getvalue()


def _plain(text: str) -> str:
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def gradescope_results(scores: Sequence[Mapping[str, Any]], questions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """By the name of each student what Gradescope reads from `results.json` (gradescope-autograders.readthedocs.io, "Output Format")."""
    return {
        each["person"]["name"]: {
            "score": each["points"],
            "output": each["remark"],
            "tests": [
                {"name": one["name"], "score": each["questions"].get(one["name"], 0.0), "max_score": one["points"]} for one in questions
            ],
        }
        for each in scores
        if each["student"]
    }


class WallPage(AssignmentHandler):
    """The work of all: who is there, what their plan is, and which goals it meets; those that are stuck first."""

    async def get(self, project: str, assignment: str) -> None:
        values = await self.values_of(project, assignment)
        await self.show_in_project("wall.html", project, "class", title=f"Wall of {values['assignment']['name']}", **values)

    async def values_of(self, project: str, assignment: str) -> dict[str, Any]:
        """What the wall shows."""
        found, wall = await gather(self.assignment_of(project, assignment), self.ask("work.wall", assignment=assignment))
        role = await self.role_in(project)
        all_work = [{**each, "letter": str(place)} for place, each in enumerate(wall["items"], 1)]
        return {
            "assignment": found,
            "all_work": all_work,
            "without": wall["without"],
            "chart": draw_memory_by_time(_points(all_work)),
            "sends": role >= ProjectRole.EDITOR,
        }


class LiveWall(WallPage):
    """The work, as a part of the page."""

    async def get(self, project: str, assignment: str) -> None:
        self.write_part("wall_live.html", over=False, here=f"/p/{project}", **await self.values_of(project, assignment))


def _points(all_work: Sequence[Mapping[str, Any]]) -> list[ChartPoint]:
    """Everybody's plan by the time of a step and the memory at the peak, where both are known."""
    known = [(each, each["card"].get("figures", {})) for each in all_work[:MOST_IN_CHART]]
    return [
        ChartPoint(each["letter"], _names(each), figures["step_seconds"], figures["peak_bytes"], figures.get("fits") is not False)
        for each, figures in known
        if figures.get("step_seconds") and figures.get("peak_bytes")
    ]


def _names(work: Mapping[str, Any]) -> str:
    return ", ".join(each["display"] for each in work["people"])


class WorkThumbnail(AssignmentHandler):
    """The picture of somebody's plan."""

    async def get(self, project: str, assignment: str, work: str) -> None:
        await self.assignment_of(project, assignment)
        picture = (await self.ask("work.thumbnail", assignment=assignment, work=work))["svg"]
        self.show_picture(picture, work, seconds=86_400)  # its address has the time when it was made
