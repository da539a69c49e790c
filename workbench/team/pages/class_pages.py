"""Pages of a class: assignments, one assignment for students and teachers, and the wall of everybody's work."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from workbench.team.access import MissingError
from workbench.team.pages.page_handler import PageHandler, Values, gather, page
from workbench.team.pages.plan_charts import ChartPoint, draw_memory_by_time
from workbench.widgets.glossary.lessons import COURSES

MOST_IN_CHART = 60


_ASSIGNMENTS = "/p/{project}/assignments"
_ASSIGNMENT = f"{_ASSIGNMENTS}/{{assignment}}"


@page(_ASSIGNMENTS, "class.html", title="Assignments", section="class")
async def _class(handler: PageHandler, project: str) -> Values:
    return {"assignments": (await handler.ask("assignments.list", project=project))["items"], "courses": COURSES}


async def assignment_of(handler: PageHandler, project: str, assignment: str) -> Any:
    record = await handler.ask("assignments.get", assignment=assignment)
    if record["project"] != project:
        raise MissingError("assignment", assignment)
    return record


async def ranking_of(handler: PageHandler, assignment: str) -> dict[str, Any]:
    ranking = await handler.ask("assignments.ranking", assignment=assignment)
    pending = any(item["compiling"] for item in ranking["items"]) or any(item["searching"] for item in ranking["baselines"])
    return {**ranking, "pending": pending}


@page(_ASSIGNMENT, "assignment.html", section="class")
async def _assignment(handler: PageHandler, project: str, assignment: str) -> Values:
    record, values = await gather(assignment_of(handler, project, assignment), handler.project_values(project))
    ranking = await ranking_of(handler, assignment) if record["ranked"] else None
    answers = (await handler.ask("answers.list", assignment=assignment))["items"] if record["work"] else []
    scores = (await handler.ask("assignments.scores", assignment=assignment))["items"] if values["may"]["editor"] else []
    return {
        "title": record["name"],
        "assignment": record,
        "ranking": ranking,
        "last": {answer["question"]: answer for answer in answers},
        "scores": scores,
        "plan_questions": [question["name"] for question in record["questions"] if question["kind"] == "plan"],
    }


@page(f"{_ASSIGNMENT}/ranking/live", "ranking_live.html")
async def _live_ranking(handler: PageHandler, project: str, assignment: str) -> Values:
    record, ranking = await gather(assignment_of(handler, project, assignment), ranking_of(handler, assignment))
    return {"assignment": record, "ranking": ranking, "over": not ranking["pending"]}


@page(f"{_ASSIGNMENT}/ranking/{{place}}", "replay.html", section="class")
async def _replay(handler: PageHandler, project: str, assignment: str, place: str) -> Values:
    record = await assignment_of(handler, project, assignment)
    replay = await handler.ask("assignments.replay", assignment=assignment, place=place)
    return {"title": f"Replay of {'the winner' if place == '1' else f'place {place}'}", "assignment": record, "replay": replay}


@page(f"{_ASSIGNMENT}/scores.{{form}}")
async def _scores(handler: PageHandler, project: str, assignment: str, form: str) -> None:
    record = await assignment_of(handler, project, assignment)
    scores = (await handler.ask("assignments.scores", assignment=assignment))["items"]
    names = [question["name"] for question in record["questions"]]
    content = scores_csv(scores, names) if form == "csv" else json.dumps(gradescope_results(scores, record["questions"]), indent=1)
    handler.set_header("Content-Type", "text/csv; charset=utf-8" if form == "csv" else "application/json; charset=utf-8")
    handler.set_header("Content-Disposition", f'attachment; filename="scores.{form}"')
    handler.finish(content)


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


@page(f"{_ASSIGNMENT}/wall", "wall.html", section="class")
@page(f"{_ASSIGNMENT}/wall/live", "wall_live.html")
async def _wall(handler: PageHandler, project: str, assignment: str) -> Values:
    record, wall, shown = await gather(
        assignment_of(handler, project, assignment),
        handler.ask("work.wall", assignment=assignment),
        handler.project_values(project),
    )
    all_work = [{**work, "letter": str(place)} for place, work in enumerate(wall["items"], 1)]
    return {
        "title": f"Wall of {record['name']}",
        "assignment": record,
        "all_work": all_work,
        "without": wall["without"],
        "chart": draw_memory_by_time(_points(all_work)),
        "sends": shown["may"]["editor"],
        "over": False,
    }


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


@page(f"{_ASSIGNMENT}/submissions/{{work}}/thumbnail.svg")
async def _thumbnail(handler: PageHandler, project: str, assignment: str, work: str) -> None:
    await assignment_of(handler, project, assignment)
    picture = (await handler.ask("work.thumbnail", assignment=assignment, work=work))["svg"]
    handler.show_picture(picture, work, seconds=86_400)  # the address contains the time of the picture
