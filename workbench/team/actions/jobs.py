"""Jobs: run or compile a plan on the team's devices. Submitters and owners can cancel a job. The hardware of a project has
kind and number of devices, price, and engine.
"""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import asdict
from sqlalchemy import select
from sqlalchemy.orm import Session as DatabaseSession

from workbench.errors import HardwareError
from workbench.hardware.catalogue import parse_hardware
from workbench.team.access import ForbiddenError, InputError, MissingError, ProjectRole
from workbench.team.actions import schemas
from workbench.team.actions.action import Call, action, jobs_of, member
from workbench.team.actions.entry_records import known_hardware
from workbench.team.actions.server_settings import read_setting
from workbench.team.actions.visible_plans import NamedEntry, approved_program, newest_entries, plan_of_project
from workbench.team.store.tables import StoredJob, TeamHardware, User
from workbench.team.web.team_services import JobRequest

STATES = ("queued", "starting", "running", "done", "failed", "cancelled")
ENDED = STATES[3:]
ENGINES = ("here", "slurm", "ray", "kubernetes")
_MINUTES = 30
_MOST_EVENTS = 1000
State = Annotated[str, schemas.one_of(*STATES)]
Engine = Annotated[str, schemas.one_of(*ENGINES)]
Options = Annotated[dict[str, Annotated[str, Meta(max_length=400)]], Meta(max_length=50)]


class JobRecord(schemas.Record, frozen=True):
    id: schemas.Id
    project: schemas.Slug
    author: schemas.PersonRecord
    digest: schemas.Digest
    plan: NamedEntry | None
    kind: schemas.JobKind
    engine: str
    spec: dict[str, Any]
    state: State
    summary: dict[str, Any]
    problem: str
    created: schemas.Time
    started: schemas.Time | None
    ended: schemas.Time | None
    cancel_asked: schemas.Time | None
    page: str


Event = Annotated[
    dict[str, Any],
    Meta(
        extra_json_schema={
            "properties": {"seq": schemas.schema_of(schemas.Count), "time": schemas.schema_of(schemas.Time), "kind": {"type": "string"}},
            "required": ["seq", "time", "kind"],
        }
    ),
]


class EventsRecord(schemas.Record, frozen=True):
    items: list[Event]
    after: schemas.Count
    state: State
    ended: bool


class NewJob(schemas.Record, frozen=True):
    plan: schemas.PlanName
    kind: Annotated[str, schemas.one_of("run", "compile")] | UnsetType = UNSET
    engine: Engine | UnsetType = UNSET
    steps: Annotated[int, Meta(ge=1, le=1_000_000)] | UnsetType = UNSET
    check: Annotated[bool, schemas.described("also compare the result with the unsharded step")] | UnsetType = UNSET
    hosts: Annotated[int, Meta(ge=1, le=4096)] | UnsetType = UNSET
    processes: Annotated[int, Meta(ge=1, le=64, description="processes of each host")] | UnsetType = UNSET
    minutes: Annotated[int, Meta(ge=1, le=43_200, description="time limit in minutes")] | None = None
    memory: Annotated[int, Meta(ge=1 << 20, le=1 << 50, description="bytes of each process")] | UnsetType = UNSET
    environment: Annotated[dict[str, Annotated[str, Meta(max_length=1000)]], Meta(max_length=50)] | UnsetType = UNSET
    options: Options | UnsetType = UNSET


class JobQuery(schemas.PageQuery, frozen=True):
    state: State | None = None
    author: schemas.Word | None = None
    digest: schemas.Sha256 | None = None


async def _submit(call: Call, new: NewJob) -> str:
    service = jobs_of(call)
    with call.services.store.read() as session:
        request = _request(call, session, new)
    return await service.submit(request)


def _request(call: Call, session: DatabaseSession, new: NewJob) -> JobRequest:
    limits = read_setting(session, "jobs")
    plan, _ = plan_of_project(session, call.project.id, new.plan)
    minutes = min(_MINUTES, limits["minutes"]) if new.minutes is None else new.minutes
    if minutes > limits["minutes"]:
        ways_out = [f"ask for at most {limits['minutes']:,}", "ask an administrator"]
        raise InputError(f"A job may take at most {limits['minutes']:,} minutes here; you asked for {minutes:,}.", ways_out)
    program = approved_program(session, call.project.id, plan.target) if ":" in plan.target else None
    options = {name: value for name, value in asdict(new).items() if name not in ("plan", "minutes") and value is not UNSET}
    return JobRequest(
        project_id=call.project.id,
        author_id=call.person.user_id,
        digest=plan.digest,
        minutes=float(minutes),
        program_id=program.id if program else None,
        **options,
    )


@action("jobs.submit", "POST /projects/{project}/jobs", member(ProjectRole.RUNNER), "run", prepare=_submit, status=201, subject="id")
def _submitted(call: Call) -> JobRecord:
    """Run or compile a plan on the team's devices."""
    return _records(call, [call.session.get_one(StoredJob, call.prepared)])[0]


@action("jobs.list", "GET /projects/{project}/jobs", member(ProjectRole.VIEWER), "read")
def _list(call: Call, query: JobQuery) -> schemas.ListPage[JobRecord]:
    """List the jobs of a project."""
    statement = select(StoredJob).where(StoredJob.project_id == call.project.id)
    if query.state is not None:
        statement = statement.where(StoredJob.state == query.state)
    if query.author is not None:
        statement = statement.where(StoredJob.author_id.in_(select(User.id).where(User.name == query.author)))
    if query.digest is not None:
        statement = statement.where(StoredJob.digest == query.digest)
    return schemas.list_page(call.session, statement, StoredJob.created, StoredJob.id, query, lambda jobs: _records(call, jobs))


@action("jobs.get", "GET /jobs/{job}", member(ProjectRole.VIEWER, "job"), "read")
def _get(call: Call) -> JobRecord:
    """Show a job."""
    return _records(call, [call.found.resource])[0]


async def _read_events(
    call: Call, after: schemas.After = 0, limit: Annotated[int, Meta(ge=1, le=_MOST_EVENTS)] = _MOST_EVENTS
) -> list[dict[str, Any]]:
    return [dict(event) for event in await jobs_of(call).events(call.found.resource.id, after, limit)]


@action("jobs.events", "GET /jobs/{job}/events", member(ProjectRole.VIEWER, "job"), "read", prepare=_read_events)
def _events(call: Call, after: schemas.After = 0) -> EventsRecord:
    """List the events of a job after a number."""
    state = call.found.resource.state
    last = max((event["seq"] for event in call.prepared), default=after)
    return EventsRecord(items=call.prepared, after=last, state=state, ended=state in ENDED)


async def _ask_to_cancel(call: Call) -> None:
    job: StoredJob = call.found.resource
    if job.author_id != call.person.user_id and not call.may(ProjectRole.OWNER):
        raise ForbiddenError("This job belongs to another person.", ["ask the person who submitted it", "ask an owner of the project"])
    if job.state not in ENDED:
        await jobs_of(call).cancel(job.id)


@action("jobs.cancel", "POST /jobs/{job}/cancellation", member(ProjectRole.RUNNER, "job"), "run", prepare=_ask_to_cancel)
def _cancel(call: Call) -> JobRecord:
    """Cancel a job."""
    return _get(call)


def _records(call: Call, jobs: Sequence[StoredJob]) -> list[JobRecord]:
    people = schemas.people_by_id(call.session, (job.author_id for job in jobs))
    slugs = schemas.project_slugs(call.session, (job.project_id for job in jobs))
    entries = newest_entries(call.session, {(job.project_id, job.digest) for job in jobs})
    return [
        JobRecord.of(
            job,
            project=slugs[job.project_id],
            author=people[job.author_id],
            plan=entries.get((job.project_id, job.digest)),
            page=call.services.url(f"/p/{slugs[job.project_id]}/jobs/{job.id}"),
        )
        for job in jobs
    ]


_OWNER = member(ProjectRole.OWNER)


class HardwareRecord(schemas.Record, frozen=True):
    name: str
    hardware: str
    chip: str
    devices: schemas.Count
    dollars_per_device_hour: float | None
    engine: Engine
    options: Annotated[dict[str, str], Meta(max_length=100)]
    note: str


class NewHardware(schemas.Record, frozen=True):
    hardware: Annotated[str, Meta(min_length=1, max_length=200, description='as in a plan: "TPU v5e 4x4", "2 nodes of 8 H100"')]
    dollars_per_device_hour: Annotated[float, Meta(ge=0.0, le=1e6)] | UnsetType | None = UNSET
    engine: Engine = "here"
    options: Options = msgspec.field(default_factory=dict)
    note: schemas.Note = ""


@action("hardware.list", "GET /projects/{project}/hardware", member(ProjectRole.VIEWER), "read")
def _list_hardware(call: Call) -> list[HardwareRecord]:
    """List the hardware of a project."""
    statement = select(TeamHardware).where(TeamHardware.project_id == call.project.id).order_by(TeamHardware.name)
    return [_record(row) for row in call.session.scalars(statement)]


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
    """Remove hardware from a project."""
    row = call.session.get(TeamHardware, (call.project.id, hardware))
    if row is None:
        raise MissingError("hardware", hardware)
    call.session.delete(row)


def _record(row: TeamHardware) -> HardwareRecord:
    parsed = known_hardware(row.hardware)
    return HardwareRecord.of(row, chip=parsed.chip.name if parsed else "", devices=parsed.size if parsed else 0)
