"""From the entries of an exercise's document to its questions."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from workbench.errors import DocumentError, WorkbenchError, unknown_name
from workbench.exercises.choice_question import Choice, ChoiceQuestion
from workbench.exercises.goals import parse_goal
from workbench.exercises.number_question import TOLERANCE, FigureOf, NumberQuestion
from workbench.exercises.plan_figures import parse_quantity
from workbench.exercises.plan_question import PlanQuestion, ScoredGoal
from workbench.exercises.variants import Variant

Question = PlanQuestion | NumberQuestion | ChoiceQuestion
Plans = Mapping[str, Any]  # documents of plans, by the names that questions call them


def kind_of(question: Question) -> str:
    """What is asked for: a "plan", a "number" or a "choice"."""
    return {PlanQuestion: "plan", NumberQuestion: "number", ChoiceQuestion: "choice"}[type(question)]


def parse_question(entry: Mapping[str, Any], plans: Plans, whose: str) -> Question:
    """The question of an entry that keeps the schema; `whose` is what errors call the exercise. Raises `DocumentError`."""
    try:
        return _PARSERS[entry["question"]](entry, plans)
    except WorkbenchError as error:
        raise DocumentError(f"{whose}, question `{entry['name']}`: {error.message}", error.ways_out) from None


def _plan_question(entry: Mapping[str, Any], plans: Plans) -> PlanQuestion:
    return PlanQuestion(
        _plan_text(entry["start"], plans),
        *(_scored_goal(each) for each in entry["goals"]),
        name=entry["name"],
        ask=entry["ask"],
        may_change=entry["may_change"],
        variants=[_variant(each) for each in entry.get("variants", ())],
        hints=entry.get("hints", ()),
    )


def _scored_goal(entry: Mapping[str, Any]) -> ScoredGoal:
    goal = {name: value for name, value in entry.items() if name not in ("points", "hint")}
    return ScoredGoal(parse_goal(goal), entry.get("points", 1.0), entry.get("hint", ""))


def _variant(entry: Mapping[str, Any]) -> Variant:
    goals = tuple(parse_goal(each) for each in entry.get("goals", ()))
    return Variant(**{**entry, "goals": goals})


def _number_question(entry: Mapping[str, Any], plans: Plans) -> NumberQuestion:
    unit, answer = entry["unit"], entry["answer"]
    return NumberQuestion(
        entry["name"],
        entry["ask"],
        _figure_of(answer, plans) if isinstance(answer, Mapping) else parse_quantity(answer, unit),
        unit,
        entry.get("tolerance", TOLERANCE),
        entry.get("devices", 0),
        tuple((parse_quantity(each["answer"], unit), each["hint"]) for each in entry.get("mistakes", ())),
        tuple(entry.get("hints", ())),
        entry.get("points", 1.0),
        entry.get("why", ""),
    )


def _figure_of(entry: Mapping[str, Any], plans: Plans) -> FigureOf:
    return FigureOf(entry["figure"], _plan_text(entry["plan"], plans), entry.get("change", {}), entry.get("times", 1.0))


def _choice_question(entry: Mapping[str, Any], plans: Plans) -> ChoiceQuestion:
    del plans
    choices = tuple(Choice(each["text"], each.get("right", False), each.get("why", "")) for each in entry["choices"])
    return ChoiceQuestion(entry["name"], entry["ask"], choices, tuple(entry.get("hints", ())), entry.get("points", 1.0))


def _plan_text(name: str, plans: Plans) -> str:
    """The document of a plan of the exercise, by its name."""
    if name not in plans:
        raise DocumentError(*unknown_name("plan", name, plans, " in the exercise"))
    return json.dumps(plans[name])


_PARSERS: Mapping[str, Callable[[Mapping[str, Any], Plans], Question]] = {
    "plan": _plan_question,
    "number": _number_question,
    "choice": _choice_question,
}
