"""Actions are typed functions: their schemas, arguments and answers follow from the types."""

from typing import Annotated, Any, Literal

import pytest
from msgspec import UNSET, Meta, UnsetType

from workbench.team.actions import action as module
from workbench.team.actions.action import PERSON, Action, Call, Inputs, action, actions_of
from workbench.team.actions.all_actions import ALL_ACTIONS
from workbench.team.actions.schemas import Record, as_json, described, one_of, schema_of


class Inner(Record, frozen=True):
    word: Annotated[str, Meta(max_length=5)]


class Outer(Record, frozen=True):
    inner: Inner
    maybe: Inner | None
    left_out: bool | None = None
    cleared: float | UnsetType | None = UNSET


CLOSED = {"type": "object", "additionalProperties": False}
INNER = {**CLOSED, "properties": {"word": {"type": "string", "minLength": 0, "maxLength": 5}}, "required": ["word"]}
NULL = {"type": "null"}
NAMES = {"type": "string", "minLength": 1, "maxLength": 80, "pattern": r"^[A-Za-z_][A-Za-z0-9_. -]*$"}
SCHEMAS = [
    (bool, {"type": "boolean"}),
    (Any, {}),
    (Annotated[int, Meta(ge=1, le=9, description="so many")], {"type": "integer", "minimum": 1, "maximum": 9, "description": "so many"}),
    (Annotated[str, one_of("a", "b")], {"type": "string", "enum": ["a", "b"]}),
    (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
    (Annotated[Annotated[str, Meta(max_length=3)], described("x")], {"type": "string", "minLength": 0, "maxLength": 3, "description": "x"}),
    (list[int], {"type": "array", "items": {"type": "integer"}, "minItems": 0, "maxItems": 1000}),
    (Annotated[list[int], Meta(min_length=2)], {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 1000}),
    (dict[str, Any], {"type": "object", "additionalProperties": {}}),
    (
        Annotated[dict[str, int], Meta(max_length=3)],
        {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 3, "propertyNames": NAMES},
    ),
    (float | bool | None, {"anyOf": [{"type": "number"}, {"type": "boolean"}, NULL]}),
    (Inner, INNER),
    (
        Outer,
        {
            **CLOSED,
            "properties": {
                "inner": INNER,
                "maybe": {"anyOf": [INNER, NULL]},
                "left_out": {"type": "boolean"},
                "cleared": {"anyOf": [{"type": "number"}, NULL]},
            },
            "required": ["inner", "maybe"],
        },
    ),
]


@pytest.mark.parametrize(("kind", "schema"), SCHEMAS, ids=[str(each[0])[:60] for each in SCHEMAS])
def test_the_schema_of_a_type(kind, schema):
    assert schema_of(kind) == schema


async def _prepare(call: Call, word: Annotated[str, Meta(max_length=5)], *, loud: bool = False) -> str:
    return word.upper() if loud else word


@action("things.take", "DELETE /things/{thing}", PERSON, "edit", "Take it away")
@action("things.say", "POST /things/{thing}", PERSON, "edit", prepare=_prepare, status=201)
def say(call: Call, thing: str, sent: Inner) -> list[Inner]:
    """Say a word of a thing, as
    it was sent.

    Once.
    """
    return [sent, Inner(word=thing)]


TAKE, SAY = vars(say)["team_actions"]


def test_a_function_may_be_several_actions_and_its_docstring_says_what_it_does():
    assert [each.name for each in (TAKE, SAY)] == ["things.take", "things.say"]
    assert (TAKE.summary, SAY.summary) == ("Take it away", "Say a word of a thing, as it was sent")
    assert (SAY.method, SAY.path, SAY.parameters, SAY.status) == ("POST", "/things/{thing}", ("thing",), 201)


def test_what_an_action_takes_is_what_its_functions_take_besides_the_path():
    assert SAY.body == {**INNER, "properties": {**INNER["properties"], "loud": {"type": "boolean"}}}
    assert (SAY.query, SAY.required) == ({}, ())
    assert SAY.answer == {**CLOSED, "properties": {"items": {**schema_of(list[Inner])}}, "required": ["items"]}


def test_a_function_is_given_what_it_takes():
    call = Call(None, None, None, Inputs({"thing": "bell"}, {}, {"word": "ding", "loud": True}))
    assert call.arguments(say) == {"thing": "bell", "sent": Inner(word="ding")}
    assert call.arguments(_prepare) == {"word": "ding", "loud": True}
    assert SAY.carry_out(call) == {"items": [{"word": "ding"}, {"word": "bell"}]}


def test_answers_are_json_values():
    assert as_json(None) == {}
    outer = Outer(inner=Inner(word="a"), maybe=None, left_out=True)
    assert as_json(outer) == {"inner": {"word": "a"}, "maybe": None, "left_out": True}


def test_all_actions_are_those_of_their_modules_and_each_has_a_summary_of_one_sentence():
    assert actions_of(module) == ()
    assert len({each.name for each in ALL_ACTIONS}) == len(ALL_ACTIONS) > 70
    assert all(isinstance(each, Action) and each.summary[0].isupper() and not each.summary.endswith(".") for each in ALL_ACTIONS)
