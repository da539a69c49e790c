"""Assignments: exercises handed out to a class by its editors, with a deadline in a time zone."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from msgspec import Meta
from sqlalchemy import select

from workbench.core.installation import shipped_folder
from workbench.errors import WorkbenchError, unknown_name
from workbench.team.access import InputError, ProjectRole
from workbench.team.actions.action import Call, action, member, planner_of
from workbench.team.actions.classes.baselines import replace_baselines
from workbench.team.actions.classes.class_records import AssignmentRecord, assignment_records, deadline_local
from workbench.team.actions.plans import store_plan
from workbench.team.actions.rooms import show_in_rooms
from workbench.team.actions.schemas import DOCUMENT, NAME, Named, Record, described
from workbench.team.store.store import now
from workbench.team.store.tables import Assignment, StoredRoom, StudentWork
from workbench.team.web.team_services import FoundBaseline, FoundBaselines, ReadExercise
from workbench.widgets.glossary.lessons import LESSONS

MOST_IN_A_GROUP = 6
STUDENT = member(ProjectRole.STUDENT, "assignment")
WORKER = member(ProjectRole.STUDENT, "assignment", excluded=(ProjectRole.VIEWER,))
"""Users who can work on an assignment: students, and editors who try it. Viewers can only read."""
STAFF = member(ProjectRole.EDITOR, "assignment")


class AssignmentChoices(Record, frozen=True):
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


Exercise = Annotated[str, Meta(min_length=2, max_length=DOCUMENT, description="a lesson's name, or the text of an exercise's document")]


def _document_of(exercise: str) -> str:
    """The document of a lesson by its name; any other text is a document itself."""
    return (shipped_folder("lessons") / exercise / "exercise.json").read_text(encoding="utf-8") if exercise in LESSONS else exercise


async def _read(call: Call, exercise: Exercise, choices: AssignmentChoices) -> tuple[str, ReadExercise, Sequence[FoundBaseline]]:
    text = _document_of(exercise)
    read = await planner_of(call).ask(ReadExercise, "exercise", text=text)
    return text, read, await _baselines(call, text, read.outline, choices.ranked or "")


async def _read_baselines(call: Call, choices: AssignmentChoices) -> Sequence[FoundBaseline] | None:
    assignment: Assignment = call.found.resource
    ranked = assignment.ranked if choices.ranked is None else choices.ranked
    return None if ranked == assignment.ranked else await _baselines(call, assignment.exercise, assignment.outline, ranked)


async def _baselines(call: Call, exercise: str, outline: Mapping[str, Any], ranked: str) -> Sequence[FoundBaseline]:
    """Compute the baselines to rank plans against; empty on failure, because a search can add them later."""
    if ranked not in [candidate["name"] for candidate in outline["questions"] if candidate["kind"] == "plan"]:
        return ()
    try:
        return (await planner_of(call).ask(FoundBaselines, "baselines", exercise=exercise, question=ranked)).found
    except WorkbenchError:
        return ()


@action("assignments.list", "GET /projects/{project}/assignments", member(ProjectRole.STUDENT), "read")
def _list(call: Call) -> list[AssignmentRecord]:
    """List the assignments of a class."""
    statement = select(Assignment).where(Assignment.project_id == call.project.id, Assignment.withdrawn.is_(None))
    return assignment_records(call, call.session.scalars(statement.order_by(Assignment.created.desc(), Assignment.id)).all())


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
    del exercise  # `_read` has its text
    read: ReadExercise
    text, read, baselines = call.prepared
    store_plan(call.session, read.first)
    fields = {"name": read.outline["title"][:NAME], "outline": dict(read.outline), "zone": "UTC", "size": 1, "ranked": ""}
    references = {"project_id": call.project.id, "by": call.person.user_id}
    assignment = Assignment(exercise=text, first=read.first.digest, **fields, **references)
    _choose(assignment, choices)
    call.session.add(assignment)
    call.session.flush()
    replace_baselines(call.session, assignment, baselines)
    return assignment_records(call, [assignment])[0]


@action("assignments.get", "GET /assignments/{assignment}", STUDENT, "read")
def _get(call: Call) -> AssignmentRecord:
    """Show an assignment."""
    return assignment_records(call, [call.found.resource])[0]


async def _show_deadline(call: Call, answer: Any) -> None:
    if "deadline" in call.body or "zone" in call.body:
        of_work = select(StudentWork.room_id).where(StudentWork.assignment_id == answer["id"])
        await show_in_rooms(call, StoredRoom.id.in_(of_work))


@action("assignments.update", "PATCH /assignments/{assignment}", STAFF, "edit", prepare=_read_baselines, afterwards=_show_deadline)
def _update(call: Call, choices: AssignmentChoices, *, released: bool | None = None) -> AssignmentRecord:
    """Change an assignment, or release its grades."""
    assignment: Assignment = call.found.resource
    _choose(assignment, choices)
    if released is not None:
        assignment.released = (assignment.released or now()) if released else None
    call.note(changed=sorted(call.body))
    call.session.flush()
    if call.prepared is not None:
        replace_baselines(call.session, assignment, call.prepared)
    return assignment_records(call, [assignment])[0]


@action("assignments.withdraw", "DELETE /assignments/{assignment}", member(ProjectRole.OWNER, "assignment"), "manage")
def _withdraw(call: Call) -> None:
    """Withdraw an assignment."""
    call.found.resource.withdrawn = now()  # work and answers stay stored but hidden


def _choose(assignment: Assignment, choices: AssignmentChoices) -> None:
    """Apply settings. Raises `InputError` for an invalid time, time zone or question."""
    assignment.name = (choices.name or assignment.name).strip()
    assignment.size = choices.size or assignment.size
    plans = [question["name"] for question in assignment.outline["questions"] if question["kind"] == "plan"]
    if (ranked := assignment.ranked if choices.ranked is None else choices.ranked) and ranked not in plans:
        raise InputError(*unknown_name("question about a plan", ranked, plans))
    assignment.ranked = ranked
    if choices.deadline is not None or choices.zone is not None:
        zone = choices.zone or assignment.zone
        text = deadline_local(assignment) if choices.deadline is None else choices.deadline
        assignment.deadline, assignment.zone = _seconds(text, zone) if text else None, _known_zone(zone).key


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
