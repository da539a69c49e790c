"""Assignments, desks and answers as answers of the server have them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import select
from sqlalchemy.orm import Session as DatabaseSession

from workbench.team.access import ProjectRole
from workbench.team.actions.action import Call
from workbench.team.actions.people_records import people_by_id
from workbench.team.actions.schemas import (
    ANYTHING,
    COUNT,
    DIGEST,
    FLAG,
    ID,
    NUMBER,
    PERSON,
    SLUG,
    TEXT,
    TIME,
    Schema,
    list_of,
    or_none,
    record,
)
from workbench.team.store.store import now
from workbench.team.store.tables import Assignment, Desk, GivenAnswer, Seat

MOST_DESKS = 1000
_CHECK = record({"what": TEXT, "is_met": FLAG, "reason": TEXT, "points": NUMBER, "hidden": FLAG})
GIVEN = record(
    {
        "question": TEXT,
        "attempt": COUNT,
        "text": TEXT,
        "digest": or_none(DIGEST),
        "score": NUMBER,
        "most": NUMBER,
        "checks": list_of(_CHECK),
        "hints": list_of(TEXT),
        "author": PERSON,
        "created": TIME,
        "late": FLAG,
    }
)
_REACHED = record({"question": TEXT, "tries": COUNT, "score": NUMBER, "most": NUMBER, "right": FLAG})
_DESK_FIELDS: Mapping[str, Schema] = {
    "room": ID,
    "people": list_of(PERSON),
    "page": TEXT,
    "questions": list_of(_REACHED),
    "score": NUMBER,
    "points": or_none(NUMBER),
    "remark": TEXT,
}
DESK = record(_DESK_FIELDS)
WALL_DESK = record(
    {
        **_DESK_FIELDS,
        "present": list_of(PERSON),
        "card": {"type": "object", "additionalProperties": ANYTHING},
        "thumbnail": TEXT,
        "shown": or_none(TIME),
        "stuck": FLAG,
    }
)
_QUESTION = record({"name": TEXT, "kind": TEXT, "points": NUMBER, "ask": TEXT})
ASSIGNMENT = record(
    {
        "id": ID,
        "project": SLUG,
        "name": TEXT,
        "title": TEXT,
        "questions": list_of(_QUESTION),
        "points": NUMBER,
        "first": DIGEST,
        "deadline": or_none(TIME),
        "zone": TEXT,
        "deadline_text": TEXT,
        "deadline_local": TEXT,
        "over": FLAG,
        "size": COUNT,
        "ranked": TEXT,
        "by": PERSON,
        "created": TIME,
        "released": or_none(TIME),
        "desks": COUNT,
        "desk": or_none(DESK),
        "page": TEXT,
    }
)
STUCK_AFTER = 3
"""Tries of one question without a right answer after which a desk is said to be stuck."""


@dataclass(frozen=True, slots=True)
class DeskWork:
    """A desk with who sits there, and what was answered, oldest first."""

    desk: Desk
    people: Sequence[str]
    answers: Sequence[GivenAnswer]

    def reached(self, assignment: Assignment) -> list[dict[str, Any]]:
        """For each question how often it was tried, and the best score of the answers that were in time."""
        return [self._reached(each["name"], each["points"]) for each in assignment.outline["questions"]]

    def _reached(self, question: str, points: float) -> dict[str, Any]:
        given = [each for each in self.answers if each.question == question]
        counted = [each for each in given if not each.late]
        score = max((each.score for each in counted), default=0.0)
        right = any(each.score >= each.most for each in counted)
        return {"question": question, "tries": len(given), "score": score, "most": points, "right": right}

    def is_stuck(self, assignment: Assignment) -> bool:
        """Whether a question was tried in vain again and again."""
        return any(each["tries"] >= STUCK_AFTER and not each["right"] for each in self.reached(assignment))


def desks_of(session: DatabaseSession, assignment_id: str, user_id: str = "") -> list[DeskWork]:
    """The desks of an assignment, of one person alone if that is given."""
    seats = session.scalars(select(Seat).where(Seat.assignment_id == assignment_id).order_by(Seat.since, Seat.user_id)).all()
    people: dict[str, list[str]] = defaultdict(list)
    for seat in seats:
        people[seat.room_id].append(seat.user_id)
    rooms = [room for room, sitting in people.items() if not user_id or user_id in sitting][:MOST_DESKS]
    answers: dict[str, list[GivenAnswer]] = defaultdict(list)
    for each in session.scalars(select(GivenAnswer).where(GivenAnswer.room_id.in_(rooms)).order_by(GivenAnswer.created, GivenAnswer.id)):
        answers[each.room_id].append(each)
    desks = {each.room_id: each for each in session.scalars(select(Desk).where(Desk.room_id.in_(rooms)))}
    return [DeskWork(desks[room], people[room], answers[room]) for room in rooms]


def assignment_records(call: Call, assignments: Sequence[Assignment]) -> list[dict[str, Any]]:
    """Assignments, each with the desk that the person has."""
    people = people_by_id(call.session, (each.by for each in assignments))
    slug = call.project.slug
    return [
        {
            "id": each.id,
            "project": slug,
            "name": each.name,
            "title": each.outline["title"],
            "questions": each.outline["questions"],
            "points": each.outline["points"],
            "first": each.first,
            "deadline": each.deadline,
            "zone": each.zone,
            "deadline_text": deadline_text(each),
            "deadline_local": deadline_local(each),
            "over": is_over(each),
            "size": each.size,
            "ranked": each.ranked,
            "by": people[each.by],
            "created": each.created,
            "released": each.released,
            "desks": len(set(call.session.scalars(select(Seat.room_id).where(Seat.assignment_id == each.id)))),
            "desk": own_desk(call, each),
            "page": call.services.url(f"/p/{slug}/assignments/{each.id}"),
        }
        for each in assignments
    ]


def own_desk(call: Call, assignment: Assignment) -> dict[str, Any] | None:
    """The person's desk, if they have one; with the teacher's points and remark once those are released."""
    found = desks_of(call.session, assignment.id, call.person.user_id)
    return desk_records(call, assignment, found, with_grades=assignment.released is not None)[0] if found else None


def desk_records(call: Call, assignment: Assignment, desks: Sequence[DeskWork], *, with_grades: bool) -> list[dict[str, Any]]:
    """Desks as their own people see them."""
    people = people_by_id(call.session, (user for each in desks for user in each.people))
    return [
        {
            "room": each.desk.room_id,
            "people": [people[user] for user in each.people],
            "page": call.services.url(f"/room/{each.desk.room_id}"),
            "questions": (reached := each.reached(assignment)),
            "score": sum(one["score"] for one in reached),
            "points": each.desk.points if with_grades else None,
            "remark": each.desk.remark if with_grades else "",
        }
        for each in desks
    ]


def given_records(session: DatabaseSession, answers: Iterable[GivenAnswer]) -> list[dict[str, Any]]:
    """Answers with their verdicts."""
    found = list(answers)
    people = people_by_id(session, (each.author_id for each in found))
    return [
        {
            "question": each.question,
            "attempt": each.attempt,
            "text": each.text,
            "digest": each.digest,
            "score": each.score,
            "most": each.most,
            "checks": each.verdict["checks"],
            "hints": each.verdict["hints"],
            "author": people[each.author_id],
            "created": each.created,
            "late": each.late,
        }
        for each in found
    ]


def is_over(assignment: Assignment) -> bool:
    """Whether its deadline has passed."""
    return assignment.deadline is not None and now() > assignment.deadline


def deadline_text(assignment: Assignment) -> str:
    """The deadline as it was said, with its time zone; empty for none."""
    if assignment.deadline is None:
        return ""
    return f"{datetime.fromtimestamp(assignment.deadline, ZoneInfo(assignment.zone)):%A, %d %B %Y, %H:%M} ({assignment.zone})"


def deadline_local(assignment: Assignment) -> str:
    """The deadline by the clock of its zone, as it was sent: `2026-12-01T23:59`; empty for none."""
    if assignment.deadline is None:
        return ""
    return f"{datetime.fromtimestamp(assignment.deadline, ZoneInfo(assignment.zone)):%Y-%m-%dT%H:%M}"


def is_staff(call: Call) -> bool:
    """Whether the person sees the work of all: whoever is more than a student."""
    return call.may(ProjectRole.VIEWER)
