"""Server-wide limits that administrators can change, with their defaults."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

from msgspec import Meta
from msgspec.structs import asdict
from sqlalchemy import select
from sqlalchemy.orm import Session as DatabaseSession

from workbench.team.access import InputError, MissingError
from workbench.team.actions.action import ADMIN, Call, action
from workbench.team.actions.check_inputs import schema_flaw
from workbench.team.actions.schemas import Record, Schema, schema_of
from workbench.team.store.tables import Setting

Amount = Annotated[int, Meta(ge=0, le=10_000)]


class ProjectLimits(Record, frozen=True):
    """Projects that one person may own, besides the personal one."""

    per_person: Amount = 50


class AccountLimits(Record, frozen=True):
    """What one person may have: programs, plans, open rooms, mebibytes of storage."""

    programs: Amount = 20
    plans: Annotated[int, Meta(ge=0, le=1_000_000)] = 5_000
    rooms: Amount = 200
    mebibytes: Annotated[int, Meta(ge=0, le=1 << 30)] = 1_024


class RoomLimits(Record, frozen=True):
    """Rooms of one project that are open at a time."""

    per_project: Amount = 100


class PersonalJobLimits(Record, frozen=True):
    """Jobs of one person that wait or run, and the longest minutes of one."""

    per_person: Annotated[int, Meta(ge=0, le=100_000)] = 50
    minutes: Annotated[int, Meta(ge=1, le=100_000)] = 1_440


class LinkLimits(Record, frozen=True):
    """The most days that a link to a room or a plan may last."""

    days: Annotated[int, Meta(ge=1, le=366)] = 90


@dataclass(frozen=True)
class SettingKind:
    """A setting: a record of limits that are set together; the field defaults are the setting's defaults."""

    key: str
    limits: Record

    @property
    def about(self) -> str:
        text = (type(self.limits).__doc__ or "").removesuffix(".")
        return text[0].lower() + text[1:]

    @cached_property
    def schema(self) -> Schema:
        return {**schema_of(type(self.limits)), "required": list(self.default)}

    @property
    def default(self) -> dict[str, int]:
        return asdict(self.limits)


ALL_SETTINGS = (
    SettingKind("projects", ProjectLimits()),
    SettingKind("accounts", AccountLimits()),
    SettingKind("rooms", RoomLimits()),
    SettingKind("jobs", PersonalJobLimits()),
    SettingKind("links", LinkLimits()),
)
_KINDS = {kind.key: kind for kind in ALL_SETTINGS}
Values = Annotated[dict[str, int], Meta(max_length=100)]


class SettingRecord(Record, frozen=True):
    key: str
    about: str
    value: Values
    default: Values
    schema: Any
    is_default: bool


def read_setting(session: DatabaseSession, key: str) -> Mapping[str, Any]:
    row = session.get(Setting, key)
    return {**_KINDS[key].default, **(row.value if row else {})}


@action("settings.list", "GET /settings", ADMIN, "manage")
def _list(call: Call) -> list[SettingRecord]:
    """List the limits of the server."""
    is_set = set(call.session.scalars(select(Setting.key)))
    return [_record(call, kind, kind.key in is_set) for kind in ALL_SETTINGS]


@action("settings.set", "PUT /settings/{setting}", ADMIN, "manage")
def _set(call: Call, setting: str, value: Values) -> SettingRecord:
    """Set a limit of the server."""
    if setting not in _KINDS:
        raise MissingError("setting", setting)
    if flaw := schema_flaw(_KINDS[setting].schema, value):
        raise InputError(f"`{setting}` is invalid at `{flaw[0]}`: {flaw[1]}.", [f"it says {_KINDS[setting].about}"])
    call.session.merge(Setting(key=setting, value=value))
    call.session.flush()
    call.note(value=value)
    return _record(call, _KINDS[setting], is_set=True)


def _record(call: Call, kind: SettingKind, is_set: bool) -> SettingRecord:
    return SettingRecord.of(kind, value=dict(read_setting(call.session, kind.key)), is_default=not is_set)
