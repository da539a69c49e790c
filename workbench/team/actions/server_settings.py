"""Limits that an administrator sets for the whole server, each with the value that holds until then."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session as DatabaseSession

from workbench.team.access import MissingError
from workbench.team.actions.action import ADMIN, Action, Call
from workbench.team.actions.check_inputs import schema_flaw
from workbench.team.actions.input_errors import InputError
from workbench.team.actions.schemas import ANYTHING, FLAG, TEXT, Schema, list_of, record, table, whole
from workbench.team.store.tables import Setting


@dataclass(frozen=True)
class SettingKind:
    """A setting: what it is about, what it may be, and what it is until somebody sets it."""

    key: str
    about: str
    schema: Schema
    default: Mapping[str, Any]


ALL_SETTINGS = (
    SettingKind(
        "projects",
        "projects that one person may own, besides the personal one",
        record({"per_person": whole(0, 10_000)}),
        {"per_person": 50},
    ),
    SettingKind(
        "accounts",
        "what one person may have: programs, plans, open rooms, mebibytes of storage",
        record({"programs": whole(0, 10_000), "plans": whole(0, 1_000_000), "rooms": whole(0, 10_000), "mebibytes": whole(0, 1 << 30)}),
        {"programs": 20, "plans": 5_000, "rooms": 200, "mebibytes": 1_024},
    ),
    SettingKind("rooms", "rooms of one project that are open at a time", record({"per_project": whole(0, 10_000)}), {"per_project": 100}),
    SettingKind(
        "jobs",
        "jobs of one person that wait or run, and the longest minutes of one",
        record({"per_person": whole(0, 100_000), "minutes": whole(1, 100_000)}),
        {"per_person": 50, "minutes": 1_440},
    ),
    SettingKind("links", "the most days that a link to a room or a plan may last", record({"days": whole(1, 366)}), {"days": 90}),
)
_KINDS = {each.key: each for each in ALL_SETTINGS}
_VALUE = table({"type": "integer"})
_SETTING = record({"key": TEXT, "about": TEXT, "value": _VALUE, "default": _VALUE, "schema": ANYTHING, "is_default": FLAG})


def read_setting(session: DatabaseSession, key: str) -> Mapping[str, Any]:
    """The value of a setting that holds now."""
    row = session.get(Setting, key)
    return {**_KINDS[key].default, **(row.value if row else {})}


def _list(call: Call) -> dict[str, Any]:
    is_set = set(call.session.scalars(select(Setting.key)))
    return {"items": [_record(call, each, each.key in is_set) for each in ALL_SETTINGS]}


def _set(call: Call) -> dict[str, Any]:
    key, value = call.inputs.path["setting"], dict(call.body["value"])
    if key not in _KINDS:
        raise MissingError("setting", key)
    if flaw := schema_flaw(_KINDS[key].schema, value):
        raise InputError(f"`{key}` cannot be that, at `{flaw[0]}`: {flaw[1]}.", [f"it says {_KINDS[key].about}"])
    call.session.merge(Setting(key=key, value=value))
    call.session.flush()
    call.note(value=value)
    return _record(call, _KINDS[key], is_set=True)


def _record(call: Call, kind: SettingKind, is_set: bool) -> dict[str, Any]:
    value = dict(read_setting(call.session, kind.key))
    return {
        "key": kind.key,
        "about": kind.about,
        "value": value,
        "default": dict(kind.default),
        "schema": dict(kind.schema),
        "is_default": not is_set,
    }


ACTIONS = (
    Action(
        "settings.list", "GET", "/settings", "List the limits of the server", ADMIN, "manage", record({"items": list_of(_SETTING)}), _list
    ),
    Action(
        "settings.set",
        "PUT",
        "/settings/{setting}",
        "Set a limit of the server",
        ADMIN,
        "manage",
        _SETTING,
        _set,
        body=record({"value": _VALUE}),
    ),
)
