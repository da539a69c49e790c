"""Assignments, work and answers as the server tells of them."""

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
    """One thing that an answer was held to."""

    what: str
    is_met: bool
    reason: str
    points: float
    hidden: bool


class GivenRecord(Record, frozen=True):
    """An answer, with its verdict."""

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
    """How often a question was tried, and the best score of the answers that were in time."""

    question: str
    tries: Count
    score: float
    most: float
    right: bool


class WorkRecord(Record, frozen=True):
    """The work of one student or group on an assignment."""

    room: Id
    people: list[PersonRecord]
    page: str
    questions: list[ReachedRecord]
    score: float
    points: float | None
    remark: str


class WallWork(WorkRecord, frozen=True):
    """Work as a teacher sees it on the wall."""

    present: list[PersonRecord]
    card: dict[str, Any]
    shown: Time | None
    stuck: bool


class QuestionRecord(Record, frozen=True):
    """A question of an exercise."""

    name: str
    kind: str
    points: float
    ask: str


class AssignmentRecord(Record, frozen=True):
    """An assignment, with the person's own work."""

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
"""Tries of one question without a right answer after which somebody is said to be stuck."""


@dataclass(frozen=True, slots=True)
class GradedWork:
    """The work of one student or group: who they are, and what was answered, oldest first."""

    row: StudentWork
    people: Sequence[str]
    answers: Sequence[GivenAnswer]

    def reached(self, assignment: Assignment) -> list[ReachedRecord]:
        """What was reached in each question."""
        return [self._reached(each["name"], each["points"]) for each in assignment.outline["questions"]]

    def _reached(self, question: str, points: float) -> ReachedRecord:
        given = [each for each in self.answers if each.question == question]
        counted = [each for each in given if not each.late]
        score = max((each.score for each in counted), default=0.0)
        right = any(each.score >= each.most for each in counted)
        return ReachedRecord(question=question, tries=len(given), score=score, most=points, right=right)

    def is_stuck(self, assignment: Assignment) -> bool:
        """Whether a question was tried in vain again and again."""
        return any(each.tries >= STUCK_AFTER and not each.right for each in self.reached(assignment))


def graded_work(session: DatabaseSession, assignment_id: str, user_id: str = "") -> list[GradedWork]:
    """The work on an assignment, of one person alone if that is given."""
    wanted = select(Participant.room_id, Participant.user_id).where(Participant.assignment_id == assignment_id)
    if user_id:
        own = select(Participant.room_id).where(Participant.assignment_id == assignment_id, Participant.user_id == user_id)
        wanted = wanted.where(Participant.room_id.in_(own))
    people: dict[str, list[str]] = defaultdict(list)
    for room, user in session.execute(wanted.order_by(Participant.since, Participant.user_id)):
        people[room].append(user)
    rooms = list(people)[:MOST_WORK]
    answers: dict[str, list[GivenAnswer]] = defaultdict(list)
    for each in session.scalars(select(GivenAnswer).where(GivenAnswer.room_id.in_(rooms)).order_by(GivenAnswer.created, GivenAnswer.id)):
        answers[each.room_id].append(each)
    all_work = {each.room_id: each for each in session.scalars(select(StudentWork).where(StudentWork.room_id.in_(rooms)))}
    return [GradedWork(all_work[room], people[room], answers[room]) for room in rooms]


def assignment_records(call: Call, assignments: Sequence[Assignment]) -> list[AssignmentRecord]:
    """Assignments, each with the person's own work."""
    people = people_by_id(call.session, (each.by for each in assignments))
    slug = call.project.slug
    return [
        AssignmentRecord.of(
            each,
            project=slug,
            **{name: each.outline[name] for name in ("title", "questions", "points")},
            deadline_text=deadline_text(each),
            deadline_local=deadline_local(each),
            over=is_over(each),
            by=people[each.by],
            begun=len(set(call.session.scalars(select(Participant.room_id).where(Participant.assignment_id == each.id)))),
            work=own_work(call, each),
            page=call.services.url(f"/p/{slug}/assignments/{each.id}"),
        )
        for each in assignments
    ]


def own_work(call: Call, assignment: Assignment) -> WorkRecord | None:
    """The person's work, if they have begun; with the teacher's points and remark once those are released."""
    found = graded_work(call.session, assignment.id, call.person.user_id)
    return work_records(call, assignment, found, with_grades=assignment.released is not None)[0] if found else None


def work_records(call: Call, assignment: Assignment, all_work: Sequence[GradedWork], *, with_grades: bool) -> list[WorkRecord]:
    """Work as its own people see it."""
    people = people_by_id(call.session, (user for each in all_work for user in each.people))
    return [
        WorkRecord(
            room=each.row.room_id,
            people=[people[user] for user in each.people],
            page=call.services.url(f"/room/{each.row.room_id}"),
            questions=(reached := each.reached(assignment)),
            score=sum(one.score for one in reached),
            points=each.row.points if with_grades else None,
            remark=each.row.remark if with_grades else "",
        )
        for each in all_work
    ]


def given_records(session: DatabaseSession, answers: Sequence[GivenAnswer]) -> list[GivenRecord]:
    people = people_by_id(session, (each.author_id for each in answers))
    return [
        GivenRecord.of(each, checks=each.verdict["checks"], hints=each.verdict["hints"], author=people[each.author_id]) for each in answers
    ]


def is_over(assignment: Assignment) -> bool:
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
