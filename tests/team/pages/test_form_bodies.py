"""What a form sent, as an action takes it."""

from typing import Annotated

import pytest
from msgspec import UNSET, Meta, UnsetType

from workbench.team.actions.schemas import Record, one_of, schema_of
from workbench.team.pages.form_handler import body_of_form


class Sent(Record, frozen=True):
    name: Annotated[str, Meta(min_length=1, max_length=80)]
    note: Annotated[str, Meta(max_length=80)]
    days: Annotated[int, Meta(ge=1, le=366)] | None = None
    price: Annotated[float, Meta(ge=0, le=1e18)] | UnsetType | None = UNSET
    admin: bool = False
    scopes: list[Annotated[str, one_of("read", "edit")]] | None = None
    limits: Annotated[dict[str, Annotated[int, Meta(ge=0, le=9)]], Meta(max_length=100)] | None = None
    options: Annotated[dict[str, Annotated[str, Meta(max_length=80)]], Meta(max_length=100)] | None = None


SCHEMA = schema_of(Sent)


@pytest.mark.parametrize(
    ("fields", "body"),
    [
        ({"name": ["x"], "note": [""], "strange": ["y"]}, {"name": "x", "note": ""}),
        ({"name": [""]}, {"name": None}),  # which the action refuses
        ({"days": [" 7 "]}, {"days": 7}),
        ({"days": [""]}, {}),
        ({"days": ["many"]}, {"days": "many"}),  # which the action refuses in its own words
        ({"price": ["1.5"]}, {"price": 1.5}),
        ({"price": [""]}, {"price": None}),
        ({"admin": ["true"]}, {"admin": True}),
        ({"admin": ["false"]}, {"admin": False}),
        ({"has": ["admin"]}, {"admin": False}),
        ({"has": ["admin"], "admin": ["true"]}, {"admin": True}),
        ({"scopes": ["read", "edit"]}, {"scopes": ["read", "edit"]}),
        ({"scopes": ["read,edit"]}, {"scopes": ["read", "edit"]}),
        ({"limits.a": ["1"], "limits.b": ["2"]}, {"limits": {"a": 1, "b": 2}}),
        ({"options": ["a=1\r\n b = x=y \r\n\r\n"]}, {"options": {"a": "1", "b": "x=y"}}),
        ({"note": ["one\r\ntwo"]}, {"note": "one\ntwo"}),
    ],
)
def test_fields_are_read_as_the_schema_says(fields, body):
    assert body_of_form(SCHEMA, fields) == body
