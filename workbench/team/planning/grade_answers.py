"""Describe exercises and grade answers. An answer is planned, never run.

Baselines of a class's ranking are plain data parallelism and the best recipe, graded like answers.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from workbench import __version__
from workbench.analysis.analyze import analyze
from workbench.core.layout import Layout
from workbench.core.remat import AS_TRACED
from workbench.documents import dump_plan, parse_plan
from workbench.errors import DocumentError, WorkbenchError
from workbench.exercises import Exercise, PlanQuestion, Verdict
from workbench.exercises.grading import verdict_record
from workbench.exercises.parse_questions import kind_of
from workbench.exercises.variants import parse_answer
from workbench.exercises.verify_exercise import verify_exercise
from workbench.pipeline.balance import apply_edit
from workbench.plan.mesh_edits import RemoveAxis
from workbench.plan.plan import Plan
from workbench.recipes.choose_dims import batch_dim
from workbench.recipes.recipe_list import ALL_RECIPES
from workbench.reports.report import Report
from workbench.team.store.store import digest_of
from workbench.team.web.team_services import DescribedPlan
from workbench.visualize.layout_thumbnail import thumbnail


@lru_cache(maxsize=16)
def parse_exercise(text: str) -> Exercise:
    """Parse and cache an exercise document. Raises `DocumentError`."""
    return Exercise.parse(text, "The exercise")


def describe_exercise(text: str) -> dict[str, Any]:
    """Return title, questions and initial plan. Raises `DocumentError` if it cannot be handed out."""
    exercise = parse_exercise(text)
    verify_exercise(exercise)  # reports invalid plans and variants to the teacher instead of students
    first = exercise.first_plan
    questions = [
        {"name": question.name, "kind": kind_of(question), "points": question.points, "ask": question.ask}
        for question in exercise.questions
    ]
    outline = {"name": exercise.name, "title": exercise.title, "points": exercise.points, "questions": questions}
    return {"outline": outline, "first": description_record(describe_plan(first, analyze(first)))}


def grade_answer(exercise: str, question: str, answer: Any, attempt: int) -> dict[str, Any]:
    """Grade an answer and describe its plan; the verdict rejects unreadable ones. Raises `DocumentError`."""
    graded_question = parse_exercise(exercise)[question]
    try:
        parsed: Any = parse_answer(answer) if isinstance(graded_question, PlanQuestion) else answer
    except WorkbenchError as error:
        raise WorkbenchError(f"`{question}` asks for a plan. {error.message}", error.ways_out) from None
    return answer_record(question, parsed, attempt, graded_question.check(parsed, attempt))


def answer_record(question: str, answer: Any, attempt: int, verdict: Verdict) -> dict[str, Any]:
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


# Plan descriptions of the gallery: canonical document, search fields, figures and thumbnail.


def describe_plan(plan: Plan, report: Report) -> DescribedPlan:
    """Describe a plan for the store. Raises `DocumentError` if it cannot be written as a document."""
    document = dump_plan(plan)
    reference = plan.program.reference
    assert reference is not None, "a plan without one has no document"
    reports = (report,) if report.tier == "planned" else (analyze(plan), report)  # so that any two plans have a tier in common
    return DescribedPlan(
        document=document,
        digest=digest_of(document),
        target=reference.target,
        mesh=str(plan.mesh),
        devices=plan.mesh.size,
        hardware=str(plan.hardware or ""),
        layout=str(plan.layout),
        dims=tuple(plan.program.dims),
        figures={each.tier: figures_of(each) for each in reports},
        thumbnail=thumbnail(report),
    )


def figures_of(report: Report) -> Mapping[str, Any]:
    """Return peak and sent bytes of the fullest device, step seconds, and whether the plan fits."""
    sent = report.most(lambda stage: stage.sent).sent
    planned = report.staged_pipeline or report.memory
    fits = planned.fits if report.hardware is not None else None
    return {"peak_bytes": report.peak, "sent_bytes": sent, "step_seconds": report.seconds, "fits": fits}


def description_record(described: DescribedPlan) -> dict[str, Any]:
    return {**asdict(described), "version": __version__}


PATIENCE = 20.0
"""Seconds after which no further recipe is tried."""
_SEARCHED = ("data", "model", "stage", "expert", "context")  # mesh axes that a search can change


def find_baselines(exercise: str, question: str) -> dict[str, Any]:
    """Return the initial plan, its search pins and the baselines. Raises `DocumentError` for other questions."""
    plan_question = _question(exercise, question)
    start = plan_question.plan
    baselines = [
        _judged("start", "", start, plan_question),
        _judged("data_parallel", "", _data_parallel(start), plan_question),
        _best_recipe(plan_question),
    ]
    return {"start": description_record(describe_plan(start, analyze(start))), "pins": _pins(plan_question), "found": baselines}


def judge_baseline(exercise: str, question: str, document: str) -> dict[str, Any]:
    """Grade a searched plan, without axes of size 1 that the initial plan lacks."""
    plan_question = _question(exercise, question)
    plan = parse_plan(document, "What the search found")
    for axis, size in plan.mesh.axes:
        if size == 1 and axis not in dict(plan_question.plan.mesh.axes):
            plan = RemoveAxis(axis).apply(plan)
    return _judged("search", "", plan, plan_question)


def _question(exercise: str, question: str) -> PlanQuestion:
    match = parse_exercise(exercise)[question]
    if not isinstance(match, PlanQuestion):
        raise DocumentError(f"`{question}` does not ask for a plan.", ["rank a question about a plan"])
    return match


def _data_parallel(start: Plan) -> Plan | str:
    batch = batch_dim(start.program)
    if batch is None:
        return f"No input of `{start.program.name}` has a batch dimension."
    try:
        return start.updated(layout=Layout().with_rule(batch, tuple(axis for axis, _ in start.mesh.axes)))
    except WorkbenchError as error:
        return str(error)


def _best_recipe(asked: PlanQuestion) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE
    candidates: list[tuple[tuple[bool, bool, float], str, Plan]] = []
    for title, plan in _recipe_plans(asked.plan):
        if time.monotonic() > deadline:
            break
        try:
            report = analyze(plan)
            candidates.append((_order(asked, plan, report), title, plan))
        except WorkbenchError:
            continue
    if not candidates:
        return _judged("recipe", "", "No recipe applies to the start plan.", asked)
    _, title, plan = min(candidates, key=lambda candidate: candidate[0])
    return _judged("recipe", title, plan, asked)


def _order(asked: PlanQuestion, plan: Plan, report: Report) -> tuple[bool, bool, float]:
    return not asked.check(plan), not report.memory.fits, report.seconds or float("inf")


def _recipe_plans(start: Plan) -> Iterator[tuple[str, Plan]]:
    """Yield each recipe with default axes and each axis, on the plan with and without its layout, once each."""
    seen: set[str] = set()
    for kind in ALL_RECIPES:
        for axes in ((), *((axis,) for axis, _ in start.mesh.axes)):
            for plan in dict.fromkeys((start, start.updated(layout=""))):
                try:
                    edited = apply_edit(plan, kind(axes).edit(plan))
                except WorkbenchError:
                    continue
                if str(edited.layout) not in seen:
                    seen.add(str(edited.layout))
                    yield kind.title, edited


def _judged(name: str, detail: str, plan: Plan | str, asked: PlanQuestion) -> dict[str, Any]:
    names = {"name": name, "detail": detail}
    if isinstance(plan, str):
        return {**names, "plan": None, "right": False, "reason": plan}
    verdict = asked.check(plan)
    description = description_record(describe_plan(plan, analyze(plan)))
    return {**names, "plan": description, "right": bool(verdict), "reason": next(iter(verdict.reasons), "")}


def _pins(asked: PlanQuestion) -> Mapping[str, str]:
    pins: dict[str, str] = {}
    if "mesh" not in asked.may_change and "devices" not in asked.may_change:
        pins |= {axis: str(size) for axis, size in asked.plan.mesh.axes if axis in _SEARCHED}
    if "pipeline" not in asked.may_change and asked.plan.pipeline is None:
        pins.setdefault("stage", "1")
    if "remat" not in asked.may_change and asked.plan.program.remat == AS_TRACED:
        pins["remat"] = "none"
    return pins
