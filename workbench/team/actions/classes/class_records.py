"""API records of assignments, work and answers."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import select
from sqlalchemy.orm import Session as DatabaseSession

from workbench.team.access import ProjectRole
from workbench.team.actions.action import Call
from workbench.team.actions.schemas import Count, Digest, Id, PersonRecord, Record, Slug, Time, people_by_id
from workbench.team.store.store import now
from workbench.team.store.tables import Assignment, GivenAnswer, Participant, StudentWork

MOST_WORK = 1000


class CheckRecord(Record, frozen=True):
    what: str
    is_met: bool
    reason: str
    points: float
    hidden: bool


class GivenRecord(Record, frozen=True):
    question: str
    attempt: Count
    text: str
    digest: Digest | None
    score: float
    most: float
    checks: list[CheckRecord]
    hints: list[str]
    author: PersonRecord
    created: Time
    late: bool


class ReachedRecord(Record, frozen=True):
    """Number of tries of a question, and the best score among answers before the deadline."""

    question: str
    tries: Count
    score: float
    most: float
    right: bool


class WorkRecord(Record, frozen=True):
    room: Id
    people: list[PersonRecord]
    page: str
    questions: list[ReachedRecord]
    score: float
    points: float | None
    remark: str


class WallWork(WorkRecord, frozen=True):
    present: list[PersonRecord]
    card: dict[str, Any]
    shown: Time | None
    stuck: bool


class QuestionRecord(Record, frozen=True):
    name: str
    kind: str
    points: float
    ask: str


class AssignmentRecord(Record, frozen=True):
    id: Id
    project: Slug
    name: str
    title: str
    questions: list[QuestionRecord]
    points: float
    first: Digest
    deadline: Time | None
    zone: str
    deadline_text: str
    deadline_local: str
    over: bool
    size: Count
    ranked: str
    by: PersonRecord
    created: Time
    released: Time | None
    begun: Count
    work: WorkRecord | None
    page: str


STUCK_AFTER = 3
"""Unsuccessful tries of one question after which a student counts as stuck."""


@dataclass(frozen=True, slots=True)
class GradedWork:
    """The work of a student or group: `people` are user IDs, `answers` are oldest first."""

    row: StudentWork
    people: Sequence[str]
    answers: Sequence[GivenAnswer]

    def reached(self, assignment: Assignment) -> list[ReachedRecord]:
        return [self._reached(question["name"], question["points"]) for question in assignment.outline["questions"]]

    def _reached(self, question: str, points: float) -> ReachedRecord:
        answers = [answer for answer in self.answers if answer.question == question]
        counted = [answer for answer in answers if not answer.late]
        score = max((answer.score for answer in counted), default=0.0)
        right = any(answer.score >= answer.most for answer in counted)
        return ReachedRecord(question=question, tries=len(answers), score=score, most=points, right=right)

    def is_stuck(self, assignment: Assignment) -> bool:
        """Return whether a question was tried `STUCK_AFTER` times without success."""
        return any(result.tries >= STUCK_AFTER and not result.right for result in self.reached(assignment))


def graded_work(session: DatabaseSession, assignment_id: str, user_id: str = "") -> list[GradedWork]:
    """Return the work on an assignment, of all students or of one user."""
    statement = select(Participant.room_id, Participant.user_id).where(Participant.assignment_id == assignment_id)
    if user_id:
        own_rooms = select(Participant.room_id).where(Participant.assignment_id == assignment_id, Participant.user_id == user_id)
        statement = statement.where(Participant.room_id.in_(own_rooms))
    people: dict[str, list[str]] = defaultdict(list)
    for room, user in session.execute(statement.order_by(Participant.since, Participant.user_id)):
        people[room].append(user)
    rooms = list(people)[:MOST_WORK]
    answers: dict[str, list[GivenAnswer]] = defaultdict(list)
    for answer in session.scalars(select(GivenAnswer).where(GivenAnswer.room_id.in_(rooms)).order_by(GivenAnswer.created, GivenAnswer.id)):
        answers[answer.room_id].append(answer)
    all_work = {work.room_id: work for work in session.scalars(select(StudentWork).where(StudentWork.room_id.in_(rooms)))}
    return [GradedWork(all_work[room], people[room], answers[room]) for room in rooms]


def assignment_records(call: Call, assignments: Sequence[Assignment]) -> list[AssignmentRecord]:
    people = people_by_id(call.session, (assignment.by for assignment in assignments))
    slug = call.project.slug
    return [
        AssignmentRecord.of(
            assignment,
            project=slug,
            **{name: assignment.outline[name] for name in ("title", "questions", "points")},
            deadline_text=deadline_text(assignment),
            deadline_local=deadline_local(assignment),
            over=is_over(assignment),
            by=people[assignment.by],
            begun=len(set(call.session.scalars(select(Participant.room_id).where(Participant.assignment_id == assignment.id)))),
            work=own_work(call, assignment),
            page=call.services.url(f"/p/{slug}/assignments/{assignment.id}"),
        )
        for assignment in assignments
    ]


def own_work(call: Call, assignment: Assignment) -> WorkRecord | None:
    """Return the user's work, or `None` before they start; points and remark are included once released."""
    matches = graded_work(call.session, assignment.id, call.person.user_id)
    return work_records(call, assignment, matches, with_grades=assignment.released is not None)[0] if matches else None


def work_records(call: Call, assignment: Assignment, all_work: Sequence[GradedWork], *, with_grades: bool) -> list[WorkRecord]:
    people = people_by_id(call.session, (user for work in all_work for user in work.people))
    return [
        WorkRecord(
            room=work.row.room_id,
            people=[people[user] for user in work.people],
            page=call.services.url(f"/room/{work.row.room_id}"),
            questions=(reached := work.reached(assignment)),
            score=sum(result.score for result in reached),
            points=work.row.points if with_grades else None,
            remark=work.row.remark if with_grades else "",
        )
        for work in all_work
    ]


def given_records(session: DatabaseSession, answers: Sequence[GivenAnswer]) -> list[GivenRecord]:
    people = people_by_id(session, (answer.author_id for answer in answers))
    return [
        GivenRecord.of(answer, checks=answer.verdict["checks"], hints=answer.verdict["hints"], author=people[answer.author_id])
        for answer in answers
    ]


def is_over(assignment: Assignment) -> bool:
    return assignment.deadline is not None and now() > assignment.deadline


def deadline_text(assignment: Assignment) -> str:
    """Return the deadline for display, with its time zone; empty without one."""
    if assignment.deadline is None:
        return ""
    return f"{datetime.fromtimestamp(assignment.deadline, ZoneInfo(assignment.zone)):%A, %d %B %Y, %H:%M} ({assignment.zone})"


def deadline_local(assignment: Assignment) -> str:
    """Return the deadline in its time zone, as submitted: `2026-12-01T23:59`; empty without one."""
    if assignment.deadline is None:
        return ""
    return f"{datetime.fromtimestamp(assignment.deadline, ZoneInfo(assignment.zone)):%Y-%m-%dT%H:%M}"


def is_staff(call: Call) -> bool:
    return call.may(ProjectRole.VIEWER)
