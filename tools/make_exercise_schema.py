"""Write the schema of exercises anew, from the goals, figures and units that there are: `python tools/make_exercise_schema.py`."""

import json
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from workbench.exercises.goals import ALL_GOALS
from workbench.exercises.goals.goal import Goal
from workbench.exercises.plan_figures import ALL_FIGURES, UNITS
from workbench.exercises.plan_question import ALL_CHANGES

SCHEMA = Path(__file__).parents[1] / "workbench" / "documents" / "exercise.schema.json"
NAME = {"type": "string", "pattern": "^[a-z0-9_]{1,60}$"}
TEXT = {"type": "string", "minLength": 1, "maxLength": 20000}
AMOUNT = {"description": "A number, or text with a unit: `16 KiB`, `23 us`, `12 %`.", "type": ["number", "string"]}
POINTS = {"description": "Points for this goal or question. Default: 1.", "type": "number", "minimum": 0, "maximum": 1000}
HINTS = {"description": "The first hint is shown at the second attempt, and so on.", "type": "array", "items": TEXT, "maxItems": 20}
CHANGE = {"description": "Fields of the plan in place of the document's.", "type": "object", "additionalProperties": {"type": "string"}}


def make_schema() -> dict[str, Any]:
    """The schema of `exercise.json`."""
    kinds = {"plan": _plan_question(), "number": _number_question(), "choice": _choice_question()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "An exercise of the sharding workbench",
        "description": "The questions of a lesson, with the goals of each answer. Neither the exercise nor an answer contains code.",
        "type": "object",
        "required": ["format", "version", "name", "title", "questions"],
        "additionalProperties": False,
        "properties": {
            "format": {"const": "sharding-workbench.exercise"},
            "version": {"const": 1},
            "name": NAME,
            "title": TEXT,
            "sections": {
                "description": "Sections of the board to show besides the overview; all if absent.",
                "type": "array",
                "items": NAME,
                "maxItems": 20,
            },
            "plans": {
                "description": "Documents of plans that questions start from or ask about, by name.",
                "type": "object",
                "propertyNames": NAME,
                "additionalProperties": {"type": "object"},
            },
            "questions": {
                "type": "array",
                "minItems": 1,
                "maxItems": 100,
                "items": {
                    "type": "object",
                    "required": ["question", "name", "ask"],
                    "properties": {"question": {"enum": list(kinds)}, "name": NAME, "ask": TEXT},
                    "allOf": [_if("question", kind, then) for kind, then in kinds.items()],
                },
            },
        },
        "$defs": {"goal": _goals(scored=False), "scored_goal": _goals(scored=True)},
    }


def _if(key: str, value: str, then: dict[str, Any]) -> dict[str, Any]:
    return {"if": {"properties": {key: {"const": value}}, "required": [key]}, "then": then}


def _closed(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"required": required, "additionalProperties": False, "properties": properties}


def _question(required: list[str], **properties: Any) -> dict[str, Any]:
    return _closed(required, question=True, name=True, ask=True, hints=HINTS, **properties)


def _plan_question() -> dict[str, Any]:
    variant = _closed(
        [],
        arguments={"type": "object"},
        mesh={"type": "object", "additionalProperties": {"type": "integer", "minimum": 1}},
        hardware={"type": "string", "minLength": 1, "maxLength": 500},
        goals={"type": "array", "items": {"$ref": "#/$defs/goal"}},
        points=POINTS,
        hint=TEXT,
    )
    return _question(
        ["start", "may_change", "goals"],
        start={"description": "The name of the plan to start from.", **NAME},
        may_change={"type": "array", "items": {"enum": list(ALL_CHANGES)}, "minItems": 1, "uniqueItems": True},
        goals={"type": "array", "items": {"$ref": "#/$defs/scored_goal"}, "minItems": 1},
        variants={
            "description": "Other sizes at which the same decisions are checked; hidden until the student answers.",
            "type": "array",
            "items": {"type": "object", "minProperties": 1, **variant},
        },
    )


def _number_question() -> dict[str, Any]:
    figure = _closed(
        ["figure", "plan"], figure={"enum": [each.name for each in ALL_FIGURES]}, plan=NAME, change=CHANGE, times={"type": "number"}
    )
    return _question(
        ["unit", "answer"],
        unit={"enum": list(UNITS)},
        answer={
            "description": "The number, or the figure of a plan.",
            "type": ["number", "string", "object"],
            "if": {"type": "object"},
            "then": figure,
        },
        tolerance={"description": "The relative error that is accepted.", "type": "number", "minimum": 0, "maximum": 1},
        devices={"description": "The number of devices, to recognise an answer for all instead of one.", "type": "integer", "minimum": 0},
        mistakes={"type": "array", "items": {"type": "object", **_closed(["answer", "hint"], answer=AMOUNT, hint=TEXT)}},
        points=POINTS,
        why={"description": "The feedback on a right answer.", **TEXT},
    )


def _choice_question() -> dict[str, Any]:
    formerly = {"description": "Earlier texts, which stored answers may have.", "type": "array", "items": TEXT, "maxItems": 20}
    choice = {"type": "object", **_closed(["text"], text=TEXT, right={"type": "boolean"}, why=TEXT, formerly=formerly)}
    return _question(["choices"], choices={"type": "array", "items": choice, "minItems": 2, "maxItems": 20}, points=POINTS)


def _goals(*, scored: bool) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["goal"],
        "properties": {"goal": {"enum": [each.name for each in ALL_GOALS]}},
        "allOf": [_if("goal", each.name, _goal(each, scored=scored)) for each in ALL_GOALS],
    }


def _goal(kind: type[Goal], *, scored: bool) -> dict[str, Any]:
    own = {each.name: _field(each) for each in fields(kind)}  # type: ignore[arg-type]
    required = [each.name for each in fields(kind) if each.default is MISSING]  # type: ignore[arg-type]
    worth = {"points": POINTS, "hint": TEXT} if scored else {}
    return {"description": " ".join((kind.__doc__ or "").split()), **_closed(required, goal=True, **own, **worth)}


def _field(each: Any) -> dict[str, Any]:
    if each.name == "figure":
        return {"enum": [figure.name for figure in ALL_FIGURES]}
    if "unit" in each.metadata:
        return AMOUNT
    if "words" in each.metadata:
        return {"enum": list(each.metadata["words"])}
    return {str: {"type": "string", "minLength": 1}, int: {"type": "integer"}, bool: {"type": "boolean"}}.get(each.type, AMOUNT)


def dump_schema() -> str:
    return json.dumps(make_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    SCHEMA.write_text(dump_schema(), encoding="utf-8")
