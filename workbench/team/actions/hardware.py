"""The hardware of a project: how many devices of which kind it has, at which price, run by which engine."""

from typing import Any

from sqlalchemy import select

from workbench.errors import HardwareError
from workbench.hardware.catalogue import parse_hardware
from workbench.team.access import MissingError, ProjectRole
from workbench.team.actions.action import Action, Call, member
from workbench.team.actions.input_errors import InputError
from workbench.team.actions.jobs import ENGINES
from workbench.team.actions.prices import known_hardware
from workbench.team.actions.schemas import COUNT, NOTE, NOTHING, NUMBER, TEXT, list_of, number, one_of, or_none, record, table, text
from workbench.team.store.tables import TeamHardware

_HARDWARE = record(
    {
        "name": TEXT,
        "hardware": TEXT,
        "chip": TEXT,
        "devices": COUNT,
        "dollars_per_device_hour": or_none(NUMBER),
        "engine": one_of(*ENGINES),
        "options": table(TEXT),
        "note": TEXT,
    }
)
_NEW = record(
    {"hardware": text(200, 1, description='as in a plan: "TPU v5e 4x4", "2 nodes of 8 H100"')},
    {
        "dollars_per_device_hour": or_none(number(0.0, 1e6)),
        "engine": one_of(*ENGINES),
        "options": table(text(400), 50),
        "note": text(NOTE),
    },
)


def _list(call: Call) -> dict[str, Any]:
    wanted = select(TeamHardware).where(TeamHardware.project_id == call.project.id).order_by(TeamHardware.name)
    return {"items": [_record(each) for each in call.session.scalars(wanted)]}


def _set(call: Call) -> dict[str, Any]:
    body = call.body
    try:
        hardware = parse_hardware(body["hardware"])
    except HardwareError as error:
        raise InputError(error.message, error.ways_out) from None
    row = TeamHardware(
        project_id=call.project.id,
        name=call.inputs.path["hardware"],
        hardware=hardware.name,
        dollars_per_device_hour=body.get("dollars_per_device_hour"),
        engine=body.get("engine", "here"),
        options=dict(body.get("options", {})),
        note=body.get("note", ""),
    )
    return _record(call.session.merge(row))


def _remove(call: Call) -> dict[str, Any]:
    found = call.session.get(TeamHardware, (call.project.id, call.inputs.path["hardware"]))
    if found is None:
        raise MissingError("hardware", call.inputs.path["hardware"])
    call.session.delete(found)
    return {}


def _record(row: TeamHardware) -> dict[str, Any]:
    known = known_hardware(row.hardware)
    size = {"chip": known.chip.name if known else "", "devices": known.size if known else 0}
    price = {"dollars_per_device_hour": row.dollars_per_device_hour, "engine": row.engine}
    return {"name": row.name, "hardware": row.hardware, **size, **price, "options": row.options, "note": row.note}


_OWNER = member(ProjectRole.OWNER)

ACTIONS = (
    Action(
        "hardware.list",
        "GET",
        "/projects/{project}/hardware",
        "List the hardware of a project",
        member(ProjectRole.VIEWER),
        "read",
        record({"items": list_of(_HARDWARE)}),
        _list,
    ),
    Action(
        "hardware.set",
        "PUT",
        "/projects/{project}/hardware/{hardware}",
        "Add or change hardware of a project",
        _OWNER,
        "manage",
        _HARDWARE,
        _set,
        body=_NEW,
    ),
    Action(
        "hardware.remove",
        "DELETE",
        "/projects/{project}/hardware/{hardware}",
        "Take hardware out of a project",
        _OWNER,
        "manage",
        NOTHING,
        _remove,
    ),
)
