"""Assignments: exercises that are handed to a class, with a deadline in a time zone. Who edits the project hands out; a student sees them,
and their own work."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from msgspec import Meta
from sqlalchemy import select

from workbench.errors import WorkbenchError, unknown_name
from workbench.team.access import InputError, ProjectRole
from workbench.team.actions.action import Call, action, member, planner_of
from workbench.team.actions.classes.class_records import AssignmentRecord, assignment_records, deadline_local
from workbench.team.actions.classes.kept_baselines import keep_baselines
from workbench.team.actions.plans import keep_plan
from workbench.team.actions.rooms import show_in_rooms
from workbench.team.actions.schemas import DOCUMENT, NAME, Named, Record, described
from workbench.team.store.store import now
from workbench.team.store.tables import Assignment, StoredRoom, StudentWork
from workbench.team.web.team_services import FoundBaseline, FoundBaselines, ReadExercise

MOST_IN_A_GROUP = 6
STUDENT = member(ProjectRole.STUDENT, "assignment")
WORKER = member(ProjectRole.STUDENT, "assignment", excluded=(ProjectRole.VIEWER,))
"""Who works on it: students, and whoever could hand it out and tries it. A viewer reads, and changes nothing."""
STAFF = member(ProjectRole.EDITOR, "assignment")


class AssignmentChoices(Record, frozen=True):
    """What a teacher says about an assignment."""

    name: Named | None = None
    deadline: (
        Annotated[
            Annotated[str, Meta(max_length=16, pattern=r"^([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2})?$")],
            described("2026-12-01T23:59; empty: none"),
        ]
        | None
    ) = None
    zone: (
        Annotated[
            Annotated[str, Meta(min_length=1, max_length=60, pattern=r"^[A-Za-z0-9_+/-]+$")],
            described("the time zone of the deadline, such as Europe/Berlin; default UTC"),
        ]
        | None
    ) = None
    size: Annotated[int, Meta(ge=1, le=MOST_IN_A_GROUP, description="maximum group size")] | None = None
    ranked: Annotated[str, Meta(max_length=NAME, description="the ranked question; empty: none")] | None = None


Exercise = Annotated[str, Meta(min_length=2, max_length=DOCUMENT, description="the text of an exercise's document")]


async def _read(call: Call, exercise: Exercise, choices: AssignmentChoices) -> tuple[ReadExercise, Sequence[FoundBaseline]]:
    read = await planner_of(call).ask(ReadExercise, "exercise", text=exercise)
    return read, await _baselines(call, exercise, read.outline, choices.ranked or "")


async def _read_baselines(call: Call, choices: AssignmentChoices) -> Sequence[FoundBaseline] | None:
    """Of the question that is ranked from now on, if that is another one."""
    assignment: Assignment = call.found.resource
    ranked = assignment.ranked if choices.ranked is None else choices.ranked
    return None if ranked == assignment.ranked else await _baselines(call, assignment.exercise, assignment.outline, ranked)


async def _baselines(call: Call, exercise: str, outline: Mapping[str, Any], ranked: str) -> Sequence[FoundBaseline]:
    """What the plans will be compared with. None are better than no assignment: a search finds them once more."""
    if ranked not in [each["name"] for each in outline["questions"] if each["kind"] == "plan"]:
        return ()
    try:
        return (await planner_of(call).ask(FoundBaselines, "baselines", exercise=exercise, question=ranked)).found
    except WorkbenchError:
        return ()


@action("assignments.list", "GET /projects/{project}/assignments", member(ProjectRole.STUDENT), "read")
def _list(call: Call) -> list[AssignmentRecord]:
    """List the assignments of a class."""
    found = select(Assignment).where(Assignment.project_id == call.project.id, Assignment.withdrawn.is_(None))
    return assignment_records(call, call.session.scalars(found.order_by(Assignment.created.desc(), Assignment.id)).all())


@action(
    "assignments.create",
    "POST /projects/{project}/assignments",
    member(ProjectRole.EDITOR),
    "edit",
    prepare=_read,
    status=201,
    subject="id",
)
def _create(call: Call, exercise: Exercise, choices: AssignmentChoices) -> AssignmentRecord:
    """Hand out an exercise."""
    read: ReadExercise
    read, baselines = call.prepared
    keep_plan(call.session, read.first)
    shown = {"name": read.outline["title"][:NAME], "outline": dict(read.outline), "zone": "UTC", "size": 1, "ranked": ""}
    whose = {"project_id": call.project.id, "by": call.person.user_id}
    assignment = Assignment(exercise=exercise, first=read.first.digest, **shown, **whose)
    _choose(assignment, choices)
    call.session.add(assignment)
    call.session.flush()
    keep_baselines(call.session, assignment, baselines)
    return assignment_records(call, [assignment])[0]


@action("assignments.get", "GET /assignments/{assignment}", STUDENT, "read")
def _get(call: Call) -> AssignmentRecord:
    """See an assignment."""
    return assignment_records(call, [call.found.resource])[0]


async def _show_deadline(call: Call, answer: Any) -> None:
    """Whoever works on it sees the new deadline."""
    if "deadline" in call.body or "zone" in call.body:
        of_work = select(StudentWork.room_id).where(StudentWork.assignment_id == answer["id"])
        await show_in_rooms(call, StoredRoom.id.in_(of_work))


@action("assignments.update", "PATCH /assignments/{assignment}", STAFF, "edit", prepare=_read_baselines, afterwards=_show_deadline)
def _update(call: Call, choices: AssignmentChoices, *, released: bool | None = None) -> AssignmentRecord:
    """Change an assignment, or show students their grades."""
    assignment: Assignment = call.found.resource
    _choose(assignment, choices)
    if released is not None:
        assignment.released = (assignment.released or now()) if released else None
    call.note(changed=sorted(call.body))
    call.session.flush()
    if call.prepared is not None:
        keep_baselines(call.session, assignment, call.prepared)
    return assignment_records(call, [assignment])[0]


@action("assignments.withdraw", "DELETE /assignments/{assignment}", member(ProjectRole.OWNER, "assignment"), "manage")
def _withdraw(call: Call) -> None:
    """Take an assignment back."""
    call.found.resource.withdrawn = now()  # work and answers stay, and are shown nowhere


def _choose(assignment: Assignment, choices: AssignmentChoices) -> None:
    """Set what a teacher says. Raises `InputError` for a time, a time zone or a question that there is not."""
    assignment.name = (choices.name or assignment.name).strip()
    assignment.size = choices.size or assignment.size
    plans = [each["name"] for each in assignment.outline["questions"] if each["kind"] == "plan"]
    if (ranked := assignment.ranked if choices.ranked is None else choices.ranked) and ranked not in plans:
        raise InputError(*unknown_name("question about a plan", ranked, plans))
    assignment.ranked = ranked
    if choices.deadline is not None or choices.zone is not None:
        zone = choices.zone or assignment.zone
        said = deadline_local(assignment) if choices.deadline is None else choices.deadline
        assignment.deadline, assignment.zone = _seconds(said, zone) if said else None, _known_zone(zone).key


def _seconds(said: str, zone: str) -> float:
    try:
        return datetime.fromisoformat(said).replace(tzinfo=_known_zone(zone)).timestamp()
    except (ValueError, OverflowError):
        raise InputError(f"`{said}` is not a date and time.", ["write 2026-12-01T23:59"]) from None


def _known_zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):  # `ZoneInfoNotFoundError` is a `KeyError`
        raise InputError(f"There is no time zone `{name}`.", ["write one such as Europe/Berlin, America/New_York or UTC"]) from None
