"""What a form sent, as an action takes it."""

import pytest

from workbench.team.actions.schemas import list_of, number, one_of, or_none, record, table, text, whole
from workbench.team.pages.form_bodies import body_of_form

SCHEMA = record(
    {"name": text(80, 1), "note": text(80)},
    {
        "days": whole(1, 366),
        "price": or_none(number()),
        "admin": {"type": "boolean"},
        "scopes": list_of(one_of("read", "edit")),
        "limits": table(whole(0, 9)),
        "options": table(text(80)),
    },
)


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
