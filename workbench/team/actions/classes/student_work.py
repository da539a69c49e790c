"""Work on an assignment: a room for each student or group, and the wall on which teachers see all of it."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import asdict
from sqlalchemy import select

from workbench.team.access import ConflictError, InputError, MissingError, ProjectRole, parse_role
from workbench.team.actions.action import Call, action, member
from workbench.team.actions.classes.assignments import STAFF, WORKER
from workbench.team.actions.classes.class_records import GradedWork, WallWork, WorkRecord, graded_work, own_work, work_records
from workbench.team.actions.rooms import add_room
from workbench.team.actions.schemas import NAME, Note, PersonRecord, Record, Word, people_by_id, user_of_name
from workbench.team.store.tables import Assignment, Member, Participant, StudentWork, User


class WallRecord(Record, frozen=True):
    items: list[WallWork]
    without: list[PersonRecord]


class WorkPicture(Record, frozen=True):
    svg: str


@action("work.start", "POST /assignments/{assignment}/submissions", WORKER, "edit", subject="room")
def _start(call: Call, partners: Annotated[list[Word], Meta(max_length=6)] = []) -> WorkRecord:  # noqa: B006 - never modified
    """Begin an assignment, alone or with others."""
    assignment: Assignment = call.found.resource
    if (existing := own_work(call, assignment)) is not None:
        return existing
    others = [_partner(call, assignment, name) for name in dict.fromkeys(partners) if name != call.person.name]
    if len(others) + 1 > assignment.size:
        text = f"{len(others) + 1} people exceed the maximum group size of {assignment.size}."
        raise InputError(text, ["name fewer", "ask your teacher"])
    people = [call.session.get_one(User, call.person.user_id), *others]
    name = f"{assignment.name}: {', '.join(participant.display for participant in people)}"[:NAME]
    room = add_room(call, name, assignment.first)
    call.session.add(StudentWork(room_id=room.id, assignment_id=assignment.id))
    call.session.flush()
    for participant in people:
        call.session.add(Participant(assignment_id=assignment.id, user_id=participant.id, room_id=room.id))
    call.session.flush()
    created = own_work(call, assignment)
    assert created is not None, "it was just made"
    return created


def _partner(call: Call, assignment: Assignment, name: str) -> User:
    """Return a partner. Raises `MissingError`, `InputError` for a viewer, `ConflictError` if they have started."""
    user = user_of_name(call.session, name)
    membership = call.session.get(Member, (call.project.id, user.id))
    if membership is None:
        raise MissingError("person", name)
    if not WORKER.admits(parse_role(membership.role)):
        raise InputError(
            f"{user.display} is a {membership.role} of the project; only students work on assignments.", ["work alone", "name a student"]
        )
    if call.session.get(Participant, (assignment.id, user.id)) is not None:
        raise ConflictError(f"{user.display} has already started.", ["work alone", "name somebody else"])
    return user


@action("work.wall", "GET /assignments/{assignment}/submissions", member(ProjectRole.VIEWER, "assignment"), "read")
def _wall(call: Call) -> WallRecord:
    """Show everybody's work on an assignment."""
    # stuck students first, then by number of right answers
    assignment: Assignment = call.found.resource
    all_work = sorted(graded_work(call.session, assignment.id), key=lambda work: _order(assignment, work))
    rooms = call.services.rooms
    present_ids = [rooms.people_in(work.row.room_id) if rooms is not None else () for work in all_work]
    people = people_by_id(call.session, (user for users in present_ids for user in users))
    records = work_records(call, assignment, all_work, with_grades=True)
    items = [
        WallWork(
            **asdict(record),
            present=[people[user] for user in users if user in people],
            card=work.row.card,
            shown=work.row.shown,
            stuck=work.is_stuck(assignment),
        )
        for record, work, users in zip(records, all_work, present_ids, strict=True)
    ]
    return WallRecord(items=items, without=_not_begun(call, assignment))


def _order(assignment: Assignment, work: GradedWork) -> tuple[bool, int, str]:
    return not work.is_stuck(assignment), sum(result.right for result in work.reached(assignment)), work.row.room_id


def _not_begun(call: Call, assignment: Assignment) -> list[PersonRecord]:
    students = select(Member.user_id).where(Member.project_id == call.project.id, Member.role == str(ProjectRole.STUDENT))
    started = select(Participant.user_id).where(Participant.assignment_id == assignment.id)
    people = people_by_id(call.session, call.session.scalars(students.where(Member.user_id.not_in(started))))
    return sorted(people.values(), key=lambda person: person.display)


@action("work.thumbnail", "GET /assignments/{assignment}/submissions/{work}/thumbnail", member(ProjectRole.VIEWER, "assignment"), "read")
def _thumbnail(call: Call) -> WorkPicture:
    """Show a picture of a student's current plan."""
    return WorkPicture(svg=_row(call, call.found.resource).thumbnail)


Points = Annotated[float, Meta(ge=0, le=1e6)] | UnsetType | None


@action("work.grade", "PATCH /assignments/{assignment}/submissions/{work}", STAFF, "edit")
def _grade(call: Call, remark: Note | None = None, points: Points = UNSET) -> WorkRecord:
    """Add a remark to a student's work, or set its points."""
    assignment: Assignment = call.found.resource
    row = _row(call, assignment)
    row.remark = row.remark if remark is None else remark
    if points is not UNSET:
        row.points = points  # overrides the reached score
    call.session.flush()
    graded = [work for work in graded_work(call.session, assignment.id) if work.row is row]
    return work_records(call, assignment, graded, with_grades=True)[0]


def _row(call: Call, assignment: Assignment) -> StudentWork:
    name = call.inputs.path["work"]
    row = call.session.get(StudentWork, name)
    if row is None or row.assignment_id != assignment.id:
        raise MissingError("work", name)
    return row
