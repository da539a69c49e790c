"""Desks: rooms in which students work on an assignment, one each or a few together; the wall on which a teacher sees them all."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import select

from workbench.team.access import MissingError, ProjectRole
from workbench.team.actions.action import Action, Call, member
from workbench.team.actions.classes.assignments import STAFF, STUDENT, present
from workbench.team.actions.classes.class_records import DESK, WALL_DESK, DeskWork, desk_records, desks_of, own_desk
from workbench.team.actions.input_errors import ConflictError, InputError
from workbench.team.actions.people_records import people_by_id, user_of_name
from workbench.team.actions.schemas import NAME, NOTE, PERSON, list_of, number, or_none, record, text
from workbench.team.store.store import new_id, now
from workbench.team.store.tables import Assignment, Desk, Member, Seat, StoredRoom, User


def _start(call: Call) -> dict[str, Any]:
    """The desk that the person has, or a new one, shared with those who are named."""
    assignment = present(call)
    if (mine := own_desk(call, assignment)) is not None:
        return mine
    partners = [_partner(call, assignment, name) for name in dict.fromkeys(call.body.get("partners", ())) if name != call.person.name]
    if len(partners) + 1 > assignment.size:
        text = f"{len(partners) + 1} would share the desk, and at most {assignment.size} may."
        raise InputError(text, ["name fewer", "ask your teacher"])
    people = [call.session.get_one(User, call.person.user_id), *partners]
    room = StoredRoom(
        id=new_id(),
        project_id=call.project.id,
        name=f"{assignment.name}: {', '.join(each.display for each in people)}"[:NAME],
        program_id=None,
        first=assignment.first,
        by=call.person.user_id,
        created=now(),
        touched=now(),
        closed=None,
    )
    call.session.add(room)
    call.session.flush()
    call.session.add(Desk(room_id=room.id, assignment_id=assignment.id, card={}, thumbnail="", shown=None, remark="", points=None))
    call.session.flush()
    for each in people:
        call.session.add(Seat(assignment_id=assignment.id, user_id=each.id, room_id=room.id, since=now()))
    call.session.flush()
    found = own_desk(call, assignment)
    assert found is not None, "it was just made"
    return found


def _partner(call: Call, assignment: Assignment, name: str) -> User:
    """A colleague who has no desk yet. Raises `MissingError` for somebody who is not in the class, `ConflictError` for one who has."""
    user = user_of_name(call.session, name)
    if call.session.get(Member, (call.project.id, user.id)) is None:
        raise MissingError("person", name)
    if call.session.get(Seat, (assignment.id, user.id)) is not None:
        raise ConflictError(f"{user.display} has a desk already.", ["work alone", "name somebody else"])
    return user


def _wall(call: Call) -> dict[str, Any]:
    """Every desk; those that are stuck first, then those with the fewest right answers."""
    assignment = present(call)
    desks = sorted(desks_of(call.session, assignment.id), key=lambda each: _order(assignment, each))
    rooms = call.services.rooms
    present_ids = [rooms.people_in(each.desk.room_id) if rooms is not None else () for each in desks]
    people = people_by_id(call.session, (user for users in present_ids for user in users))
    shown = desk_records(call, assignment, desks, with_grades=True)
    return {
        "items": [
            {
                **one,
                "present": [people[user] for user in users if user in people],
                "card": each.desk.card,
                "thumbnail": each.desk.thumbnail,
                "shown": each.desk.shown,
                "stuck": each.is_stuck(assignment),
            }
            for one, each, users in zip(shown, desks, present_ids, strict=True)
        ],
        "without": _without_desk(call, assignment),
    }


def _order(assignment: Assignment, work: DeskWork) -> tuple[bool, int, str]:
    return not work.is_stuck(assignment), sum(each["right"] for each in work.reached(assignment)), work.desk.room_id


def _without_desk(call: Call, assignment: Assignment) -> Sequence[dict[str, Any]]:
    """The students who have not begun."""
    students = select(Member.user_id).where(Member.project_id == call.project.id, Member.role == str(ProjectRole.STUDENT))
    seated = select(Seat.user_id).where(Seat.assignment_id == assignment.id)
    found = people_by_id(call.session, call.session.scalars(students.where(Member.user_id.not_in(seated))))
    return sorted(found.values(), key=lambda each: each["display"])


def _grade(call: Call) -> dict[str, Any]:
    """A teacher's remark, and points in place of those that were reached."""
    assignment = present(call)
    found = [each for each in desks_of(call.session, assignment.id) if each.desk.room_id == call.inputs.path["desk"]]
    if not found:
        raise MissingError("desk", call.inputs.path["desk"])
    desk = found[0].desk
    desk.remark, desk.points = call.body.get("remark", desk.remark), call.body.get("points", desk.points)
    call.session.flush()
    return desk_records(call, assignment, found, with_grades=True)[0]


ACTIONS = (
    Action(
        "desks.start",
        "POST",
        "/assignments/{assignment}/desk",
        "Sit down at a desk of an assignment, alone or with others",
        STUDENT,
        "edit",
        DESK,
        _start,
        body=record({}, {"partners": list_of(text(NAME, 1), 6)}),
        subject="room",
    ),
    Action(
        "desks.wall",
        "GET",
        "/assignments/{assignment}/desks",
        "See all desks of an assignment",
        member(ProjectRole.VIEWER, "assignment"),
        "read",
        record({"items": list_of(WALL_DESK), "without": list_of(PERSON)}),
        _wall,
    ),
    Action(
        "desks.grade",
        "PATCH",
        "/assignments/{assignment}/desks/{desk}",
        "Write a remark on the work at a desk, or give points",
        STAFF,
        "edit",
        DESK,
        _grade,
        body=record({}, {"remark": text(NOTE), "points": or_none(number(0, 1e6))}),
    ),
)
