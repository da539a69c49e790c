"""Work on an assignment: a room for each student, or for a few together; the wall on which a teacher sees all of it."""

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
    """The work of all, and who has not begun."""

    items: list[WallWork]
    without: list[PersonRecord]


class WorkPicture(Record, frozen=True):
    """A picture of somebody's plan now."""

    svg: str


@action("work.start", "POST /assignments/{assignment}/submissions", WORKER, "edit", subject="room")
def _start(call: Call, partners: Annotated[list[Word], Meta(max_length=6)] = []) -> WorkRecord:  # noqa: B006 - nothing changes it
    """Begin an assignment, alone or with others."""
    assignment: Assignment = call.found.resource
    if (mine := own_work(call, assignment)) is not None:
        return mine
    others = [_partner(call, assignment, name) for name in dict.fromkeys(partners) if name != call.person.name]
    if len(others) + 1 > assignment.size:
        text = f"{len(others) + 1} people exceed the maximum group size of {assignment.size}."
        raise InputError(text, ["name fewer", "ask your teacher"])
    people = [call.session.get_one(User, call.person.user_id), *others]
    name = f"{assignment.name}: {', '.join(each.display for each in people)}"[:NAME]
    room = add_room(call, name, assignment.first)
    call.session.add(StudentWork(room_id=room.id, assignment_id=assignment.id))
    call.session.flush()
    for each in people:
        call.session.add(Participant(assignment_id=assignment.id, user_id=each.id, room_id=room.id))
    call.session.flush()
    found = own_work(call, assignment)
    assert found is not None, "it was just made"
    return found


def _partner(call: Call, assignment: Assignment, name: str) -> User:
    """A colleague who has not begun yet. Raises `MissingError` for somebody who is not in the class, `InputError` for a viewer of it, and
    `ConflictError` for one who has."""
    user = user_of_name(call.session, name)
    held = call.session.get(Member, (call.project.id, user.id))
    if held is None:
        raise MissingError("person", name)
    if not WORKER.admits(parse_role(held.role)):
        raise InputError(
            f"{user.display} is a {held.role} of the project; only students work on assignments.", ["work alone", "name a student"]
        )
    if call.session.get(Participant, (assignment.id, user.id)) is not None:
        raise ConflictError(f"{user.display} has already started.", ["work alone", "name somebody else"])
    return user


@action("work.wall", "GET /assignments/{assignment}/submissions", member(ProjectRole.VIEWER, "assignment"), "read")
def _wall(call: Call) -> WallRecord:
    """See the work of all on an assignment."""
    # that of those who are stuck first, then those with the fewest right answers
    assignment: Assignment = call.found.resource
    all_work = sorted(graded_work(call.session, assignment.id), key=lambda each: _order(assignment, each))
    rooms = call.services.rooms
    present_ids = [rooms.people_in(each.row.room_id) if rooms is not None else () for each in all_work]
    people = people_by_id(call.session, (user for users in present_ids for user in users))
    shown = work_records(call, assignment, all_work, with_grades=True)
    items = [
        WallWork(
            **asdict(one),
            present=[people[user] for user in users if user in people],
            card=each.row.card,
            shown=each.row.shown,
            stuck=each.is_stuck(assignment),
        )
        for one, each, users in zip(shown, all_work, present_ids, strict=True)
    ]
    return WallRecord(items=items, without=_not_begun(call, assignment))


def _order(assignment: Assignment, work: GradedWork) -> tuple[bool, int, str]:
    return not work.is_stuck(assignment), sum(each.right for each in work.reached(assignment)), work.row.room_id


def _not_begun(call: Call, assignment: Assignment) -> list[PersonRecord]:
    """The students who have not begun."""
    students = select(Member.user_id).where(Member.project_id == call.project.id, Member.role == str(ProjectRole.STUDENT))
    begun = select(Participant.user_id).where(Participant.assignment_id == assignment.id)
    found = people_by_id(call.session, call.session.scalars(students.where(Member.user_id.not_in(begun))))
    return sorted(found.values(), key=lambda each: each.display)


@action("work.thumbnail", "GET /assignments/{assignment}/submissions/{work}/thumbnail", member(ProjectRole.VIEWER, "assignment"), "read")
def _thumbnail(call: Call) -> WorkPicture:
    """See a picture of somebody's plan now."""
    return WorkPicture(svg=_row(call, call.found.resource).thumbnail)


Points = Annotated[float, Meta(ge=0, le=1e6)] | UnsetType | None


@action("work.grade", "PATCH /assignments/{assignment}/submissions/{work}", STAFF, "edit")
def _grade(call: Call, remark: Note | None = None, points: Points = UNSET) -> WorkRecord:
    """Write a remark on somebody's work, or give points."""
    assignment: Assignment = call.found.resource
    row = _row(call, assignment)
    row.remark = row.remark if remark is None else remark
    if points is not UNSET:
        row.points = points  # in place of those that were reached
    call.session.flush()
    found = [each for each in graded_work(call.session, assignment.id) if each.row is row]
    return work_records(call, assignment, found, with_grades=True)[0]


def _row(call: Call, assignment: Assignment) -> StudentWork:
    """The work in the room of the path. Raises `MissingError` for none, or on another assignment."""
    name = call.inputs.path["work"]
    row = call.session.get(StudentWork, name)
    if row is None or row.assignment_id != assignment.id:
        raise MissingError("work", name)
    return row
