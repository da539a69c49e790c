"""Jobs: a plan run, or compiled, where the team's devices are. A job is cancelled by who submitted it, and by owners."""

from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session as DatabaseSession

from workbench.team.access import ForbiddenError, ProjectRole
from workbench.team.actions.action import Action, Call, member
from workbench.team.actions.input_errors import InputError
from workbench.team.actions.named_programs import approved_program
from workbench.team.actions.pages_of_lists import list_page
from workbench.team.actions.people_records import people_by_id, project_slugs
from workbench.team.actions.schemas import (
    ANYTHING,
    COUNT,
    DIGEST,
    FLAG,
    ID,
    NAME,
    PAGE,
    PERSON,
    PLAN,
    SLUG,
    TEXT,
    TIME,
    list_of,
    listing,
    one_of,
    or_none,
    record,
    table,
    text,
    whole,
)
from workbench.team.actions.server_parts import jobs_of
from workbench.team.actions.server_settings import read_setting
from workbench.team.actions.visible_plans import newest_entries, plan_of_project
from workbench.team.store.tables import StoredJob, User
from workbench.team.web.services import JobRequest

STATES = ("queued", "starting", "running", "done", "failed", "cancelled")
ENDED = STATES[3:]
ENGINES = ("here", "slurm", "ray", "kubernetes")
_DETAILS = {"type": "object", "additionalProperties": ANYTHING}
_JOB = record(
    {
        "id": ID,
        "project": SLUG,
        "author": PERSON,
        "digest": DIGEST,
        "plan": or_none(record({"id": ID, "name": TEXT})),
        "kind": one_of("run", "compile", "search"),
        "engine": TEXT,
        "spec": _DETAILS,
        "state": one_of(*STATES),
        "summary": _DETAILS,
        "problem": TEXT,
        "created": TIME,
        "started": or_none(TIME),
        "ended": or_none(TIME),
        "cancel_asked": or_none(TIME),
        "page": TEXT,
    }
)
_EVENT = {
    "type": "object",
    "properties": {"seq": COUNT, "time": TIME, "kind": TEXT},
    "required": ["seq", "time", "kind"],
    "additionalProperties": ANYTHING,
}
_NEW = record(
    {"plan": PLAN},
    {
        "kind": one_of("run", "compile"),
        "engine": one_of(*ENGINES),
        "steps": whole(1, 1_000_000),
        "check": {**FLAG, "description": "also check the result against the unsharded step"},
        "hosts": whole(1, 4096),
        "processes": whole(1, 64, "processes of each host"),
        "minutes": whole(1, 43_200, "minutes after which it is ended"),
        "memory": whole(1 << 20, 1 << 50, "bytes of each process"),
        "environment": table(text(1000), 50),
        "options": table(text(400), 50),
    },
)
_MINUTES = 30
_MOST_EVENTS = 1000


async def _submit(call: Call) -> str:
    service = jobs_of(call)
    with call.services.store.read() as session:
        request = _request(call, session)
    return await service.submit(request)


def _request(call: Call, session: DatabaseSession) -> JobRequest:
    """What the person asks for, within the limits of the server."""
    body, limits = call.body, read_setting(session, "jobs")
    plan, _ = plan_of_project(session, call.project.id, body["plan"])
    minutes = body.get("minutes", min(_MINUTES, limits["minutes"]))
    if minutes > limits["minutes"]:
        ways_out = [f"ask for at most {limits['minutes']:,}", "ask an administrator"]
        raise InputError(f"A job may take {limits['minutes']:,} minutes here, and you ask for {minutes:,}.", ways_out)
    program = approved_program(session, call.project.id, plan.target) if ":" in plan.target else None
    asked = {
        key: body[key]
        for key in ("kind", "engine", "steps", "check", "hosts", "processes", "memory", "environment", "options")
        if key in body
    }
    return JobRequest(
        project_id=call.project.id,
        author_id=call.person.user_id,
        digest=plan.digest,
        minutes=float(minutes),
        program_id=program.id if program else None,
        **asked,
    )


def _submitted(call: Call) -> dict[str, Any]:
    return _records(call, [call.session.get_one(StoredJob, call.prepared)])[0]


def _list(call: Call) -> dict[str, Any]:
    found = select(StoredJob).where(StoredJob.project_id == call.project.id)
    if "state" in call.query:
        found = found.where(StoredJob.state == call.query["state"])
    if "author" in call.query:
        found = found.where(StoredJob.author_id.in_(select(User.id).where(User.name == call.query["author"])))
    if "digest" in call.query:
        found = found.where(StoredJob.digest == call.query["digest"])
    page = list_page(call.session, found, StoredJob.created, StoredJob.id, call.query, lambda job: job)
    return {**page, "items": _records(call, page["items"])}


def _get(call: Call) -> dict[str, Any]:
    return _records(call, [call.found.resource])[0]


async def _read_events(call: Call) -> list[dict[str, Any]]:
    after, most = call.query.get("after", 0), call.query.get("limit", _MOST_EVENTS)
    return [dict(each) for each in await jobs_of(call).events(call.found.resource.id, after, most)]


def _events(call: Call) -> dict[str, Any]:
    job: StoredJob = call.found.resource
    after = max((each["seq"] for each in call.prepared), default=call.query.get("after", 0))
    return {"items": call.prepared, "after": after, "state": job.state, "ended": job.state in ENDED}


async def _ask_to_cancel(call: Call) -> None:
    job: StoredJob = call.found.resource
    if job.author_id != call.person.user_id and not call.may(ProjectRole.OWNER):
        raise ForbiddenError("This job is somebody else's.", ["ask who submitted it", "ask an owner of the project"])
    if job.state not in ENDED:
        await jobs_of(call).cancel(job.id)


def _records(call: Call, jobs: list[StoredJob]) -> list[dict[str, Any]]:
    people = people_by_id(call.session, (each.author_id for each in jobs))
    slugs = project_slugs(call.session, (each.project_id for each in jobs))
    entries = newest_entries(call.session, {(each.project_id, each.digest) for each in jobs})
    return [
        {
            "id": each.id,
            "project": slugs[each.project_id],
            "author": people[each.author_id],
            "digest": each.digest,
            "plan": entries.get((each.project_id, each.digest)),
            "kind": each.kind,
            "engine": each.engine,
            "spec": each.spec,
            "state": each.state,
            "summary": each.summary,
            "problem": each.problem,
            "created": each.created,
            "started": each.started,
            "ended": each.ended,
            "cancel_asked": each.cancel_asked,
            "page": call.services.url(f"/p/{slugs[each.project_id]}/jobs/{each.id}"),
        }
        for each in jobs
    ]


_VIEWER = member(ProjectRole.VIEWER, "job")

ACTIONS = (
    Action(
        "jobs.submit",
        "POST",
        "/projects/{project}/jobs",
        "Run or compile a plan where the team's devices are",
        member(ProjectRole.RUNNER),
        "run",
        _JOB,
        _submitted,
        body=_NEW,
        prepare=_submit,
        status=201,
        subject="id",
    ),
    Action(
        "jobs.list",
        "GET",
        "/projects/{project}/jobs",
        "List the jobs of a project",
        member(ProjectRole.VIEWER),
        "read",
        listing(_JOB),
        _list,
        query={**PAGE, "state": one_of(*STATES), "author": text(NAME, 1), "digest": text(64, 64, pattern="^[0-9a-f]{64}$")},
    ),
    Action("jobs.get", "GET", "/jobs/{job}", "See a job", _VIEWER, "read", _JOB, _get),
    Action(
        "jobs.events",
        "GET",
        "/jobs/{job}/events",
        "Read the events of a job, from a number on",
        _VIEWER,
        "read",
        record({"items": list_of(_EVENT), "after": COUNT, "state": one_of(*STATES), "ended": FLAG}),
        _events,
        query={"after": whole(0, 10**12), "limit": whole(1, _MOST_EVENTS)},
        prepare=_read_events,
    ),
    Action(
        "jobs.cancel",
        "POST",
        "/jobs/{job}/cancellation",
        "Cancel a job",
        member(ProjectRole.RUNNER, "job"),
        "run",
        _JOB,
        _get,
        prepare=_ask_to_cancel,
    ),
)
