"""Work on an assignment: a room for each student, or for a few together; the wall on which a teacher sees all of it."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import select

from workbench.team.access import MissingError, ProjectRole, parse_role
from workbench.team.actions.action import Action, Call, member
from workbench.team.actions.classes.assignments import STAFF, WORKER, present
from workbench.team.actions.classes.class_records import WALL_WORK, WORK, GradedWork, graded_work, own_work, work_records
from workbench.team.actions.input_errors import ConflictError, InputError
from workbench.team.actions.people_records import people_by_id, user_of_name
from workbench.team.actions.rooms import add_room
from workbench.team.actions.schemas import NAME, NOTE, PERSON, TEXT, list_of, number, or_none, record, text
from workbench.team.store.store import now
from workbench.team.store.tables import Assignment, Member, Participant, StudentWork, User


def _start(call: Call) -> dict[str, Any]:
    """The work that the person has begun, or a new one, together with those who are named."""
    assignment = present(call)
    if (mine := own_work(call, assignment)) is not None:
        return mine
    partners = [_partner(call, assignment, name) for name in dict.fromkeys(call.body.get("partners", ())) if name != call.person.name]
    if len(partners) + 1 > assignment.size:
        text = f"{len(partners) + 1} would work together, and at most {assignment.size} may."
        raise InputError(text, ["name fewer", "ask your teacher"])
    people = [call.session.get_one(User, call.person.user_id), *partners]
    name = f"{assignment.name}: {', '.join(each.display for each in people)}"[:NAME]
    room = add_room(call, name, assignment.first)
    call.session.add(StudentWork(room_id=room.id, assignment_id=assignment.id, card={}, thumbnail="", shown=None, remark="", points=None))
    call.session.flush()
    for each in people:
        call.session.add(Participant(assignment_id=assignment.id, user_id=each.id, room_id=room.id, since=now()))
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
        raise InputError(f"{user.display} is a {held.role} of the project, and works on no assignment.", ["work alone", "name a student"])
    if call.session.get(Participant, (assignment.id, user.id)) is not None:
        raise ConflictError(f"{user.display} has begun already.", ["work alone", "name somebody else"])
    return user


def _wall(call: Call) -> dict[str, Any]:
    """All work; that of those who are stuck first, then those with the fewest right answers."""
    assignment = present(call)
    all_work = sorted(graded_work(call.session, assignment.id), key=lambda each: _order(assignment, each))
    rooms = call.services.rooms
    present_ids = [rooms.people_in(each.row.room_id) if rooms is not None else () for each in all_work]
    people = people_by_id(call.session, (user for users in present_ids for user in users))
    shown = work_records(call, assignment, all_work, with_grades=True)
    return {
        "items": [
            {
                **one,
                "present": [people[user] for user in users if user in people],
                "card": each.row.card,
                "shown": each.row.shown,
                "stuck": each.is_stuck(assignment),
            }
            for one, each, users in zip(shown, all_work, present_ids, strict=True)
        ],
        "without": _not_begun(call, assignment),
    }


def _order(assignment: Assignment, work: GradedWork) -> tuple[bool, int, str]:
    return not work.is_stuck(assignment), sum(each["right"] for each in work.reached(assignment)), work.row.room_id


def _not_begun(call: Call, assignment: Assignment) -> Sequence[dict[str, Any]]:
    """The students who have not begun."""
    students = select(Member.user_id).where(Member.project_id == call.project.id, Member.role == str(ProjectRole.STUDENT))
    begun = select(Participant.user_id).where(Participant.assignment_id == assignment.id)
    found = people_by_id(call.session, call.session.scalars(students.where(Member.user_id.not_in(begun))))
    return sorted(found.values(), key=lambda each: each["display"])


def _grade(call: Call) -> dict[str, Any]:
    """A teacher's remark, and points in place of those that were reached."""
    assignment = present(call)
    row = _row(call, assignment)
    row.remark, row.points = call.body.get("remark", row.remark), call.body.get("points", row.points)
    call.session.flush()
    found = [each for each in graded_work(call.session, assignment.id) if each.row is row]
    return work_records(call, assignment, found, with_grades=True)[0]


def _thumbnail(call: Call) -> dict[str, Any]:
    return {"svg": _row(call, present(call)).thumbnail}


def _row(call: Call, assignment: Assignment) -> StudentWork:
    """The work in the room of the path. Raises `MissingError` for none, or on another assignment."""
    name = call.inputs.path["work"]
    row = call.session.get(StudentWork, name)
    if row is None or row.assignment_id != assignment.id:
        raise MissingError("work", name)
    return row


ACTIONS = (
    Action(
        "work.start",
        "POST",
        "/assignments/{assignment}/submissions",
        "Begin an assignment, alone or with others",
        WORKER,
        "edit",
        WORK,
        _start,
        body=record({}, {"partners": list_of(text(NAME, 1), 6)}),
        subject="room",
    ),
    Action(
        "work.wall",
        "GET",
        "/assignments/{assignment}/submissions",
        "See the work of all on an assignment",
        member(ProjectRole.VIEWER, "assignment"),
        "read",
        record({"items": list_of(WALL_WORK), "without": list_of(PERSON)}),
        _wall,
    ),
    Action(
        "work.thumbnail",
        "GET",
        "/assignments/{assignment}/submissions/{work}/thumbnail",
        "See a picture of somebody's plan now",
        member(ProjectRole.VIEWER, "assignment"),
        "read",
        record({"svg": TEXT}),
        _thumbnail,
    ),
    Action(
        "work.grade",
        "PATCH",
        "/assignments/{assignment}/submissions/{work}",
        "Write a remark on somebody's work, or give points",
        STAFF,
        "edit",
        WORK,
        _grade,
        body=record({}, {"remark": text(NOTE), "points": or_none(number(0, 1e6))}),
    ),
)
