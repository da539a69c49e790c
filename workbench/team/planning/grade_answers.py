"""What the server keeps of an exercise, and the verdicts on answers to it. An answer is planned, never run."""

from collections.abc import Mapping
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from workbench import __version__
from workbench.analysis.analyze import analyze
from workbench.documents import dump_plan
from workbench.errors import WorkbenchError
from workbench.exercises import Exercise, PlanQuestion, Verdict
from workbench.exercises.grading import verdict_record
from workbench.exercises.parse_questions import kind_of
from workbench.exercises.variants import parse_answer
from workbench.exercises.verify_exercise import verify_exercise
from workbench.plan.plan import Plan
from workbench.reports.report import Report
from workbench.team.store.store import digest_of
from workbench.team.web.team_services import DescribedPlan
from workbench.visualize.layout_thumbnail import thumbnail


@lru_cache(maxsize=16)
def parse_exercise(text: str) -> Exercise:
    """The exercise of a document, read once. Raises `DocumentError`."""
    return Exercise.parse(text, "The exercise")


def describe_exercise(text: str) -> dict[str, Any]:
    """Its title, points and questions, and the plan that it begins with. Raises `DocumentError` for one that cannot be handed out: no
    exercise, without a question about a plan, or with one that refuses every answer."""
    exercise = parse_exercise(text)
    verify_exercise(exercise)  # whoever hands it out hears now what is wrong with a plan or a variant, and not a student
    first = exercise.first_plan
    questions = [{"name": each.name, "kind": kind_of(each), "points": each.points, "ask": each.ask} for each in exercise.questions]
    outline = {"name": exercise.name, "title": exercise.title, "points": exercise.points, "questions": questions}
    return {"outline": outline, "first": description_record(describe_plan(first, analyze(first)))}


def grade_answer(exercise: str, question: str, answer: Any, attempt: int) -> dict[str, Any]:
    """The verdict on an answer to a question, and what the gallery keeps of a plan. Raises `DocumentError` for an exercise or a question
    that there is not; an answer that cannot be read is refused by the verdict."""
    asked = parse_exercise(exercise)[question]
    try:
        given: Any = parse_answer(answer) if isinstance(asked, PlanQuestion) else answer
    except WorkbenchError as error:
        raise WorkbenchError(f"`{question}` asks for a plan. {error.message}", error.ways_out) from None
    return answer_record(question, given, attempt, asked.check(given, attempt))


def answer_record(question: str, answer: Any, attempt: int, verdict: Verdict) -> dict[str, Any]:
    """An answer with its verdict, as the server keeps it: a plan as a description, anything else as a text."""
    is_plan = isinstance(answer, Plan)
    return {
        "question": question,
        "attempt": attempt,
        "text": "" if is_plan else str(answer)[:200],
        "plan": description_record(describe_plan(answer, analyze(answer))) if is_plan else None,
        "score": verdict.score,
        "most": verdict.most,
        "verdict": verdict_record(verdict),
    }


# What the gallery keeps of a plan: its canonical document, what it is searched by, its figures and a small picture.


def describe_plan(plan: Plan, report: Report) -> DescribedPlan:
    """A plan with its report, as the store keeps it. Raises `DocumentError` for one that cannot be written as a document."""
    document = dump_plan(plan)
    reference = plan.program.reference
    assert reference is not None, "a plan without one has no document"
    return DescribedPlan(
        document=document,
        digest=digest_of(document),
        target=reference.target,
        mesh=str(plan.mesh),
        devices=plan.mesh.size,
        hardware=str(plan.hardware or ""),
        layout=str(plan.layout),
        dims=tuple(plan.program.dims),
        figures={report.tier: figures_of(report)},
        thumbnail=thumbnail(report),
    )


def figures_of(report: Report) -> Mapping[str, Any]:
    """The figures of one tier: bytes at the peak and sent by the fullest device, seconds of a step, and whether it fits."""
    sent = report.most(lambda each: each.sent).sent
    planned = report.staged_pipeline or report.memory
    fits = planned.fits if report.hardware is not None else None
    return {"peak_bytes": report.peak, "sent_bytes": sent, "step_seconds": report.seconds, "fits": fits}


def description_record(described: DescribedPlan) -> dict[str, Any]:
    """As a message to the server."""
    return {**asdict(described), "version": __version__}
