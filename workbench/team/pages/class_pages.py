"""Pages of a class: assignments, one assignment for students and teachers, and the wall of everybody's work."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from workbench.team.access import MissingError
from workbench.team.pages.page_handler import ProjectPageHandler, gather
from workbench.team.pages.plan_charts import ChartPoint, draw_memory_by_time
from workbench.widgets.glossary.lessons import COURSES

MOST_IN_CHART = 60


class ClassPage(ProjectPageHandler):
    async def get(self, project: str) -> None:
        assignments = (await self.ask("assignments.list", project=project))["items"]
        await self.show_in_project("class.html", project, "class", title="Assignments", assignments=assignments, courses=COURSES)


class AssignmentHandler(ProjectPageHandler):
    async def assignment_of(self, project: str, assignment: str) -> Any:
        record = await self.ask("assignments.get", assignment=assignment)
        if record["project"] != project:
            raise MissingError("assignment", assignment)
        return record

    async def ranking_of(self, assignment: str) -> dict[str, Any]:
        ranking = await self.ask("assignments.ranking", assignment=assignment)
        return {
            **ranking,
            "pending": any(item["compiling"] for item in ranking["items"]) or any(item["searching"] for item in ranking["baselines"]),
        }


class AssignmentPage(AssignmentHandler):
    async def get(self, project: str, assignment: str) -> None:
        record, values = await gather(self.assignment_of(project, assignment), self.project_values(project))
        ranking = await self.ranking_of(assignment) if record["ranked"] else None
        answers = (await self.ask("answers.list", assignment=assignment))["items"] if record["work"] else []
        scores = (await self.ask("assignments.scores", assignment=assignment))["items"] if values["may"]["editor"] else []
        await self.show_in_project(
            "assignment.html",
            project,
            "class",
            title=record["name"],
            assignment=record,
            ranking=ranking,
            last={answer["question"]: answer for answer in answers},
            scores=scores,
            plan_questions=[question["name"] for question in record["questions"] if question["kind"] == "plan"],
        )


class LiveRanking(AssignmentHandler):
    async def get(self, project: str, assignment: str) -> None:
        record, ranking = await gather(self.assignment_of(project, assignment), self.ranking_of(assignment))
        values = {**await self.project_values(project), "assignment": record, "ranking": ranking}
        self.write_part("ranking_live.html", over=not ranking["pending"], **values)


class ReplayPage(AssignmentHandler):
    async def get(self, project: str, assignment: str, place: str) -> None:
        record = await self.assignment_of(project, assignment)
        replay = await self.ask("assignments.replay", assignment=assignment, place=place)
        title = f"Replay of {'the winner' if place == '1' else f'place {place}'}"
        await self.show_in_project("replay.html", project, "class", title=title, assignment=record, replay=replay)


class ScoresTable(AssignmentHandler):
    async def get(self, project: str, assignment: str, form: str) -> None:
        record = await self.assignment_of(project, assignment)
        scores = (await self.ask("assignments.scores", assignment=assignment))["items"]
        names = [question["name"] for question in record["questions"]]
        content = scores_csv(scores, names) if form == "csv" else json.dumps(gradescope_results(scores, record["questions"]), indent=1)
        self.set_header("Content-Type", "text/csv; charset=utf-8" if form == "csv" else "application/json; charset=utf-8")
        self.set_header("Content-Disposition", f'attachment; filename="scores.{form}"')
        self.finish(content)


def scores_csv(scores: Sequence[Mapping[str, Any]], questions: Sequence[str]) -> str:
    """Format scores as CSV, with an apostrophe before names that start like a formula (OWASP, "CSV Injection")."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["name", "display", "student", *questions, "reached", "points", "of", "tries", "late", "remark"])
    for row in scores:
        person = row["person"]
        results = [f"{row['questions'].get(name, 0.0):g}" for name in questions]
        rest = [f"{row[key]:g}" for key in ("reached", "points", "most", "tries", "late")]
        texts = [_plain(person["name"]), _plain(person["display"]), "yes" if row["student"] else "no"]
        writer.writerow([*texts, *results, *rest, _plain(row["remark"])])
    return out.getvalue()


def _plain(text: str) -> str:
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def gradescope_results(scores: Sequence[Mapping[str, Any]], questions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return Gradescope's `results.json` by student name (gradescope-autograders.readthedocs.io, "Output Format")."""
    return {
        row["person"]["name"]: {
            "score": row["points"],
            "output": row["remark"],
            "tests": [
                {"name": question["name"], "score": row["questions"].get(question["name"], 0.0), "max_score": question["points"]}
                for question in questions
            ],
        }
        for row in scores
        if row["student"]
    }


class WallPage(AssignmentHandler):
    async def get(self, project: str, assignment: str) -> None:
        values = await self.values_of(project, assignment)
        await self.show_in_project("wall.html", project, "class", title=f"Wall of {values['assignment']['name']}", **values)

    async def values_of(self, project: str, assignment: str) -> dict[str, Any]:
        record, wall, shown = await gather(
            self.assignment_of(project, assignment), self.ask("work.wall", assignment=assignment), self.project_values(project)
        )
        all_work = [{**work, "letter": str(place)} for place, work in enumerate(wall["items"], 1)]
        return {
            "assignment": record,
            "all_work": all_work,
            "without": wall["without"],
            "chart": draw_memory_by_time(_points(all_work)),
            "sends": shown["may"]["editor"],
        }


class LiveWall(WallPage):
    async def get(self, project: str, assignment: str) -> None:
        self.write_part("wall_live.html", over=False, here=f"/p/{project}", **await self.values_of(project, assignment))


def _points(all_work: Sequence[Mapping[str, Any]]) -> list[ChartPoint]:
    pairs = [(work, work["card"].get("figures", {})) for work in all_work[:MOST_IN_CHART]]
    return [
        ChartPoint(
            work["letter"],
            ", ".join(one["display"] for one in work["people"]),
            figures["step_seconds"],
            figures["peak_bytes"],
            figures.get("fits") is not False,
        )
        for work, figures in pairs
        if figures.get("step_seconds") and figures.get("peak_bytes")
    ]


class WorkThumbnail(AssignmentHandler):
    async def get(self, project: str, assignment: str, work: str) -> None:
        await self.assignment_of(project, assignment)
        picture = (await self.ask("work.thumbnail", assignment=assignment, work=work))["svg"]
        self.show_picture(picture, work, seconds=86_400)  # the address contains the time of the picture
