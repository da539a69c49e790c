"""The hardware of a project: how many devices of which kind it has, at which price, run by which engine."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType
from sqlalchemy import select

from workbench.errors import HardwareError
from workbench.hardware.catalogue import parse_hardware
from workbench.team.access import InputError, MissingError, ProjectRole
from workbench.team.actions.action import Call, action, member
from workbench.team.actions.entry_records import known_hardware
from workbench.team.actions.jobs import Engine, Options
from workbench.team.actions.schemas import Count, Note, Record
from workbench.team.store.tables import TeamHardware

_OWNER = member(ProjectRole.OWNER)


class HardwareRecord(Record, frozen=True):
    """Hardware of a project."""

    name: str
    hardware: str
    chip: str
    devices: Count
    dollars_per_device_hour: float | None
    engine: Engine
    options: Annotated[dict[str, str], Meta(max_length=100)]
    note: str


class NewHardware(Record, frozen=True):
    """Hardware to add."""

    hardware: Annotated[str, Meta(min_length=1, max_length=200, description='as in a plan: "TPU v5e 4x4", "2 nodes of 8 H100"')]
    dollars_per_device_hour: Annotated[float, Meta(ge=0.0, le=1e6)] | UnsetType | None = UNSET
    engine: Engine = "here"
    options: Options = msgspec.field(default_factory=dict)
    note: Note = ""


@action("hardware.list", "GET /projects/{project}/hardware", member(ProjectRole.VIEWER), "read")
def _list(call: Call) -> list[HardwareRecord]:
    """List the hardware of a project."""
    wanted = select(TeamHardware).where(TeamHardware.project_id == call.project.id).order_by(TeamHardware.name)
    return [_record(each) for each in call.session.scalars(wanted)]


@action("hardware.set", "PUT /projects/{project}/hardware/{hardware}", _OWNER, "manage")
def _set(call: Call, new: NewHardware) -> HardwareRecord:
    """Add or change hardware of a project."""
    try:
        hardware = parse_hardware(new.hardware)
    except HardwareError as error:
        raise InputError(error.message, error.ways_out) from None
    row = TeamHardware(
        project_id=call.project.id,
        name=call.inputs.path["hardware"],
        hardware=hardware.name,
        dollars_per_device_hour=None if new.dollars_per_device_hour is UNSET else new.dollars_per_device_hour,
        engine=new.engine,
        options=dict(new.options),
        note=new.note,
    )
    return _record(call.session.merge(row))


@action("hardware.remove", "DELETE /projects/{project}/hardware/{hardware}", _OWNER, "manage")
def _remove(call: Call, hardware: str) -> None:
    """Take hardware out of a project."""
    found = call.session.get(TeamHardware, (call.project.id, hardware))
    if found is None:
        raise MissingError("hardware", hardware)
    call.session.delete(found)


def _record(row: TeamHardware) -> HardwareRecord:
    known = known_hardware(row.hardware)
    return HardwareRecord.of(row, chip=known.chip.name if known else "", devices=known.size if known else 0)
