"""What the plans of a class are compared with: data parallelism alone, and the best of the recipes, each judged as an answer would be."""

import time
from collections.abc import Iterator, Mapping
from typing import Any

from workbench.analysis.analyze import analyze
from workbench.core.layout import Layout
from workbench.core.remat import AS_TRACED
from workbench.documents import parse_plan
from workbench.errors import DocumentError, WorkbenchError
from workbench.exercises import PlanQuestion
from workbench.pipeline.balance import apply_edit
from workbench.plan.mesh_edits import RemoveAxis
from workbench.plan.plan import Plan
from workbench.recipes.choose_dims import batch_dim
from workbench.recipes.recipe_list import ALL_RECIPES
from workbench.reports.report import Report
from workbench.team.planning.grade_answers import describe_plan, description_record, parse_exercise

PATIENCE = 20.0
"""Seconds after which no further recipe is tried."""
_SEARCHED = ("data", "model", "stage", "expert", "context")  # the axes that a search knows


def find_baselines(exercise: str, question: str) -> dict[str, Any]:
    """The plan that a question starts from, the decisions of it that may not change, as a search takes them, and the baselines. Raises
    `DocumentError` for a question that is not about a plan."""
    asked = _question(exercise, question)
    start = asked.plan
    found = [_judged("start", "", start, asked), _judged("data_parallel", "", _data_parallel(start), asked), _best_recipe(asked)]
    return {"start": description_record(describe_plan(start, analyze(start))), "pins": _pins(asked), "found": found}


def judge_baseline(exercise: str, question: str, document: str) -> dict[str, Any]:
    """What a search found, without the axes of one device that it has besides those of the start."""
    asked = _question(exercise, question)
    plan = parse_plan(document, "What the search found")
    for axis, size in plan.mesh.axes:
        if size == 1 and axis not in dict(asked.plan.mesh.axes):
            plan = RemoveAxis(axis).apply(plan)
    return _judged("search", "", plan, asked)


def _question(exercise: str, question: str) -> PlanQuestion:
    asked = parse_exercise(exercise)[question]
    if not isinstance(asked, PlanQuestion):
        raise DocumentError(f"`{question}` does not ask for a plan.", ["rank a question about a plan"])
    return asked


def _data_parallel(start: Plan) -> Plan | str:
    """Nothing but the examples split, over all axes; why not, where that cannot be."""
    batch = batch_dim(start.program)
    if batch is None:
        return f"No input of `{start.program.name}` has a batch dimension."
    try:
        return start.updated(layout=Layout().with_rule(batch, tuple(axis for axis, _ in start.mesh.axes)))
    except WorkbenchError as error:
        return str(error)


def _best_recipe(asked: PlanQuestion) -> dict[str, Any]:
    """The fastest recipe whose plan is right; without one the fastest that fits, or the fastest."""
    until = time.monotonic() + PATIENCE
    found: list[tuple[tuple[bool, bool, float], str, Plan]] = []
    for title, plan in _recipe_plans(asked.plan):
        if time.monotonic() > until:
            break
        try:
            report = analyze(plan)
            found.append((_order(asked, plan, report), title, plan))
        except WorkbenchError:
            continue
    if not found:
        return _judged("recipe", "", "No recipe applies to the start plan.", asked)
    _, title, plan = min(found, key=lambda each: each[0])
    return _judged("recipe", title, plan, asked)


def _order(asked: PlanQuestion, plan: Plan, report: Report) -> tuple[bool, bool, float]:
    return not asked.check(plan), not report.memory.fits, report.seconds or float("inf")


def _recipe_plans(start: Plan) -> Iterator[tuple[str, Plan]]:
    """Each recipe over the axes that it finds, and over each axis, on the plan as it is and on one without a layout; each plan once."""
    seen: set[str] = set()
    for kind in ALL_RECIPES:
        for axes in ((), *((axis,) for axis, _ in start.mesh.axes)):
            for plan in dict.fromkeys((start, start.updated(layout=""))):
                try:
                    made = apply_edit(plan, kind(axes).edit(plan))
                except WorkbenchError:
                    continue
                if str(made.layout) not in seen:
                    seen.add(str(made.layout))
                    yield kind.title, made


def _judged(name: str, detail: str, plan: Plan | str, asked: PlanQuestion) -> dict[str, Any]:
    """A baseline as the server keeps it: the first goal that it misses is the reason."""
    own = {"name": name, "detail": detail}
    if isinstance(plan, str):
        return {**own, "plan": None, "right": False, "reason": plan}
    verdict = asked.check(plan)
    description = description_record(describe_plan(plan, analyze(plan)))
    return {**own, "plan": description, "right": bool(verdict), "reason": next(iter(verdict.reasons), "")}


def _pins(asked: PlanQuestion) -> Mapping[str, str]:
    """What may not change of the start, as decisions of a search."""
    pins: dict[str, str] = {}
    if "mesh" not in asked.may_change and "devices" not in asked.may_change:
        pins |= {axis: str(size) for axis, size in asked.plan.mesh.axes if axis in _SEARCHED}
    if "pipeline" not in asked.may_change and asked.plan.pipeline is None:
        pins.setdefault("stage", "1")
    if "remat" not in asked.may_change and asked.plan.program.remat == AS_TRACED:
        pins["remat"] = "none"
    return pins
