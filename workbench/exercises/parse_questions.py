"""Parsing of the questions in an exercise document."""

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
Plans = Mapping[str, Any]  # plan documents by their name in the exercise


def kind_of(question: Question) -> str:
    """The kind of answer: "plan", "number" or "choice"."""
    return {PlanQuestion: "plan", NumberQuestion: "number", ChoiceQuestion: "choice"}[type(question)]


def parse_question(entry: Mapping[str, Any], plans: Plans, whose: str) -> Question:
    """Parse an entry that fits the schema; `whose` names the exercise in errors. Raises `DocumentError`."""
    try:
        return _PARSERS[entry["question"]](entry, plans)
    except WorkbenchError as error:
        raise DocumentError(f"{whose}, question `{entry['name']}`: {error.message}", error.ways_out) from None


def _plan_question(entry: Mapping[str, Any], plans: Plans) -> PlanQuestion:
    return PlanQuestion(
        _plan_text(entry["start"], plans),
        *(_scored_goal(item) for item in entry["goals"]),
        name=entry["name"],
        ask=entry["ask"],
        may_change=entry["may_change"],
        variants=[_variant(item) for item in entry.get("variants", ())],
        hints=entry.get("hints", ()),
    )


def _scored_goal(entry: Mapping[str, Any]) -> ScoredGoal:
    goal = {name: value for name, value in entry.items() if name not in ("points", "hint")}
    return ScoredGoal(parse_goal(goal), entry.get("points", 1.0), entry.get("hint", ""))


def _variant(entry: Mapping[str, Any]) -> Variant:
    goals = tuple(parse_goal(goal) for goal in entry.get("goals", ()))
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
        tuple((parse_quantity(mistake["answer"], unit), mistake["hint"]) for mistake in entry.get("mistakes", ())),
        tuple(entry.get("hints", ())),
        entry.get("points", 1.0),
        entry.get("why", ""),
    )


def _figure_of(entry: Mapping[str, Any], plans: Plans) -> FigureOf:
    return FigureOf(entry["figure"], _plan_text(entry["plan"], plans), entry.get("change", {}), entry.get("times", 1.0))


def _choice_question(entry: Mapping[str, Any], plans: Plans) -> ChoiceQuestion:
    del plans
    choices = tuple(_choice(choice) for choice in entry["choices"])
    return ChoiceQuestion(entry["name"], entry["ask"], choices, tuple(entry.get("hints", ())), entry.get("points", 1.0))


def _choice(entry: Mapping[str, Any]) -> Choice:
    return Choice(entry["text"], entry.get("right", False), entry.get("why", ""), tuple(entry.get("formerly", ())))


def _plan_text(name: str, plans: Plans) -> str:
    if name not in plans:
        raise DocumentError(*unknown_name("plan", name, plans, " in the exercise"))
    return json.dumps(plans[name])


_PARSERS: Mapping[str, Callable[[Mapping[str, Any], Plans], Question]] = {
    "plan": _plan_question,
    "number": _number_question,
    "choice": _choice_question,
}
