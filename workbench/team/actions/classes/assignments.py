"""Assignments: exercises that are handed to a class, with a deadline in a time zone. Who edits the project hands out; a student sees them,
and their own work."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import select

from workbench.errors import WorkbenchError, unknown_name
from workbench.team.access import MissingError, ProjectRole
from workbench.team.actions.action import Action, Call, member
from workbench.team.actions.classes.class_records import ASSIGNMENT, assignment_records, deadline_local
from workbench.team.actions.classes.kept_baselines import keep_baselines
from workbench.team.actions.input_errors import InputError
from workbench.team.actions.plans import keep_plan
from workbench.team.actions.schemas import DOCUMENT, FLAG, NAME, NOTHING, list_of, record, text, whole
from workbench.team.actions.server_parts import planner_of
from workbench.team.store.store import new_id, now
from workbench.team.store.tables import Assignment
from workbench.team.web.services import FoundBaseline, ReadExercise

MOST_IN_A_GROUP = 6
_NAMED = text(NAME, 1, pattern=r"^.*\S.*$")
_CHOICES = {
    "name": _NAMED,
    "deadline": text(16, 0, pattern=r"^([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2})?$", description="2026-12-01T23:59; empty: none"),
    "zone": text(60, 1, pattern=r"^[A-Za-z0-9_+/-]+$", description="the time zone of the deadline, Europe/Berlin; if left out, UTC"),
    "size": whole(1, MOST_IN_A_GROUP, "students who work together, at most"),
    "ranked": text(NAME, description="the question whose plans are ranked; empty: none"),
}


async def _read(call: Call) -> tuple[ReadExercise, Sequence[FoundBaseline]]:
    read = await planner_of(call).read_exercise(call.body["exercise"])
    return read, await _baselines(call, call.body["exercise"], read.outline, call.body.get("ranked", ""))


async def _read_baselines(call: Call) -> Sequence[FoundBaseline] | None:
    """Of the question that is ranked from now on, if that is another one."""
    assignment = present(call)
    ranked = call.body.get("ranked", assignment.ranked)
    return None if ranked == assignment.ranked else await _baselines(call, assignment.exercise, assignment.outline, ranked)


async def _baselines(call: Call, exercise: str, outline: Mapping[str, Any], ranked: str) -> Sequence[FoundBaseline]:
    """What the plans will be compared with. None are better than no assignment: a search finds them once more."""
    if ranked not in [each["name"] for each in outline["questions"] if each["kind"] == "plan"]:
        return ()
    try:
        return (await planner_of(call).find_baselines(exercise, ranked)).found
    except WorkbenchError:
        return ()


def _list(call: Call) -> dict[str, Any]:
    found = select(Assignment).where(Assignment.project_id == call.project.id, Assignment.withdrawn.is_(None))
    return {"items": assignment_records(call, call.session.scalars(found.order_by(Assignment.created.desc(), Assignment.id)).all())}


def _create(call: Call) -> dict[str, Any]:
    read: ReadExercise
    read, baselines = call.prepared
    keep_plan(call.session, read.first)
    assignment = Assignment(
        id=new_id(),
        project_id=call.project.id,
        name=read.outline["title"][:NAME],
        exercise=call.body["exercise"],
        outline=dict(read.outline),
        first=read.first.digest,
        deadline=None,
        zone="UTC",
        size=1,
        ranked="",
        by=call.person.user_id,
        created=now(),
        released=None,
        withdrawn=None,
    )
    _choose(assignment, call.body)
    call.session.add(assignment)
    call.session.flush()
    keep_baselines(call.session, assignment, baselines)
    return assignment_records(call, [assignment])[0]


def _get(call: Call) -> dict[str, Any]:
    return assignment_records(call, [present(call)])[0]


def _update(call: Call) -> dict[str, Any]:
    assignment = present(call)
    _choose(assignment, call.body)
    if "released" in call.body:
        assignment.released = (assignment.released or now()) if call.body["released"] else None
    call.note(changed=sorted(call.body))
    call.session.flush()
    if call.prepared is not None:
        keep_baselines(call.session, assignment, call.prepared)
    return assignment_records(call, [assignment])[0]


async def _show_deadline(call: Call, answer: Any) -> None:
    """Whoever works on it sees the new deadline."""
    if call.services.rooms is not None and ("deadline" in call.body or "zone" in call.body):
        await call.services.rooms.deadline_changed(answer["id"], answer["deadline"], answer["deadline_text"])


def _withdraw(call: Call) -> dict[str, Any]:
    """Work and answers stay; they are shown nowhere."""
    present(call).withdrawn = now()
    return {}


def present(call: Call) -> Assignment:
    """The assignment of the path. Raises `MissingError` for one that was withdrawn."""
    assignment: Assignment = call.found.resource
    if assignment.withdrawn is not None:
        raise MissingError("assignment", assignment.id)
    return assignment


def _choose(assignment: Assignment, body: Mapping[str, Any]) -> None:
    """Set what a teacher says. Raises `InputError` for a time, a time zone or a question that there is not."""
    assignment.name = body.get("name", assignment.name).strip()
    assignment.size = body.get("size", assignment.size)
    plans = [each["name"] for each in assignment.outline["questions"] if each["kind"] == "plan"]
    if (ranked := body.get("ranked", assignment.ranked)) and ranked not in plans:
        raise InputError(*unknown_name("question about a plan", ranked, plans))
    assignment.ranked = ranked
    if "deadline" in body or "zone" in body:
        zone = body.get("zone", assignment.zone)
        said = body["deadline"] if "deadline" in body else deadline_local(assignment)
        assignment.deadline, assignment.zone = _seconds(said, zone) if said else None, _known_zone(zone).key


def _seconds(said: str, zone: str) -> float:
    try:
        return datetime.fromisoformat(said).replace(tzinfo=_known_zone(zone)).timestamp()
    except (ValueError, OverflowError):
        raise InputError(f"`{said}` is no time of a calendar.", ["write 2026-12-01T23:59"]) from None


def _known_zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):  # `ZoneInfoNotFoundError` is a `KeyError`
        raise InputError(f"There is no time zone `{name}`.", ["write one such as Europe/Berlin, America/New_York or UTC"]) from None


STUDENT = member(ProjectRole.STUDENT, "assignment")
WORKER = member(ProjectRole.STUDENT, "assignment", excluded=(ProjectRole.VIEWER,))
"""Who works on it: students, and whoever could hand it out and tries it. A viewer reads, and changes nothing."""
STAFF = member(ProjectRole.EDITOR, "assignment")

ACTIONS = (
    Action(
        "assignments.list",
        "GET",
        "/projects/{project}/assignments",
        "List the assignments of a class",
        member(ProjectRole.STUDENT),
        "read",
        record({"items": list_of(ASSIGNMENT)}),
        _list,
    ),
    Action(
        "assignments.create",
        "POST",
        "/projects/{project}/assignments",
        "Hand out an exercise",
        member(ProjectRole.EDITOR),
        "edit",
        ASSIGNMENT,
        _create,
        body=record({"exercise": text(DOCUMENT, 2, description="the text of an exercise's document")}, _CHOICES),
        prepare=_read,
        status=201,
        subject="id",
    ),
    Action("assignments.get", "GET", "/assignments/{assignment}", "See an assignment", STUDENT, "read", ASSIGNMENT, _get),
    Action(
        "assignments.update",
        "PATCH",
        "/assignments/{assignment}",
        "Change an assignment, or show students their grades",
        STAFF,
        "edit",
        ASSIGNMENT,
        _update,
        body=record({}, {**_CHOICES, "released": FLAG}),
        prepare=_read_baselines,
        afterwards=_show_deadline,
    ),
    Action(
        "assignments.withdraw",
        "DELETE",
        "/assignments/{assignment}",
        "Take an assignment back",
        member(ProjectRole.OWNER, "assignment"),
        "manage",
        NOTHING,
        _withdraw,
    ),
)
