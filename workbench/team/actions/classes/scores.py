"""Scores, and the ranking of right plans: by predicted step time, the first ten by the compiler's estimate; anonymous
replays of ranked plans: students see the winner's once the deadline has passed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from workbench.team.access import ConflictError, ForbiddenError, MissingError, ProjectRole
from workbench.team.actions.action import Call, action, jobs_of, member, planner_of
from workbench.team.actions.classes.assignments import STAFF, STUDENT
from workbench.team.actions.classes.baselines import BaselineRecord, baseline_records
from workbench.team.actions.classes.class_records import GradedWork, graded_work, is_over, is_staff
from workbench.team.actions.schemas import Count, Digest, Figures, Id, PersonRecord, Record, people_by_id
from workbench.team.rooms.room_records import read_room
from workbench.team.store.tables import Assignment, GivenAnswer, LogEntry, Member, StoredFigures, StoredJob
from workbench.team.web.team_services import JobRequest, ReplayedRoom

COMPILED = 10
"""Number of top plans of a ranking that are compiled."""
_OPEN = ("queued", "starting", "running")


class ScoreRecord(Record, frozen=True):
    person: PersonRecord
    student: bool
    room: Id | None
    questions: dict[str, float]
    tries: Count
    late: Count
    reached: float
    points: float
    most: float
    remark: str


class RankedRecord(Record, frozen=True):
    """A rank. Students see owner and digest of their own plan only."""

    place: Count
    people: list[PersonRecord]
    mine: bool
    digest: Digest | None
    planned: Figures
    compiled: Figures | None
    compiling: bool
    problem: str


class RankingRecord(Record, frozen=True):
    question: str
    items: list[RankedRecord]
    start: Figures
    baselines: list[BaselineRecord]


class SubmittedRecord(Record, frozen=True):
    submitted: Count


@action("assignments.scores", "GET /assignments/{assignment}/scores", STAFF, "read")
def _scores(call: Call) -> list[ScoreRecord]:
    """List the scores of all students."""
    # one row for each student, and for any other user who started
    assignment: Assignment = call.found.resource
    work_of = {user: student_work for student_work in graded_work(call.session, assignment.id) for user in student_work.people}
    members = select(Member.user_id).where(Member.project_id == call.project.id, Member.role == str(ProjectRole.STUDENT))
    students = set(call.session.scalars(members))
    people = people_by_id(call.session, students | set(work_of))
    return [
        _score(assignment, person, work_of.get(user), student=user in students)
        for user, person in sorted(people.items(), key=lambda item: item[1].name)
    ]


def _score(assignment: Assignment, person: PersonRecord, work: GradedWork | None, *, student: bool) -> ScoreRecord:
    reached = {result.question: result.score for result in work.reached(assignment)} if work else {}
    given_points = work.row.points if work else None
    return ScoreRecord(
        person=person,
        student=student,
        room=work.row.room_id if work else None,
        questions=reached,
        tries=len(work.answers) if work else 0,
        late=sum(answer.late for answer in work.answers) if work else 0,
        reached=sum(reached.values()),
        points=sum(reached.values()) if given_points is None else given_points,
        most=assignment.outline["points"],
        remark=work.row.remark if work else "",
    )


@dataclass(frozen=True, slots=True)
class RankedPlan:
    """The best right plan of a student or group, with its figures by tier."""

    room_id: str
    people: Sequence[str]
    digest: str
    figures: Mapping[str, Figures]

    @property
    def planned(self) -> tuple[float, float, str]:
        """The sort key: step time in seconds, then bytes sent, then the digest."""
        values = self.figures.get("planned", {})
        return values.get("step_seconds") or float("inf"), values.get("sent_bytes") or 0.0, self.digest

    @property
    def compiled(self) -> float:
        """Step time in seconds from the compiler if available, else predicted."""
        return self.figures.get("compiled", {}).get("step_seconds") or self.planned[0]


def ranking(call: Call, assignment: Assignment) -> list[RankedPlan]:
    """Return the best right plan of each group, best first; the top `COMPILED` are sorted by compiled step time."""
    best: dict[str, RankedPlan] = {}
    all_work = graded_work(call.session, assignment.id)
    right = {work.row.room_id: [answer for answer in work.answers if _is_ranked(assignment, answer)] for work in all_work}
    figures = _figures_of(call, {row.digest for answers in right.values() for row in answers if row.digest})
    for work in all_work:
        digests = [answer.digest for answer in right[work.row.room_id] if answer.digest]
        if digests:
            plans = (RankedPlan(work.row.room_id, work.people, digest, figures[digest]) for digest in digests)
            best[work.row.room_id] = min(plans, key=lambda plan: plan.planned)
    ranked = sorted(best.values(), key=lambda plan: plan.planned)
    return [*sorted(ranked[:COMPILED], key=lambda plan: plan.compiled), *ranked[COMPILED:]]


def _is_ranked(assignment: Assignment, answer: GivenAnswer) -> bool:
    return answer.question == assignment.ranked and answer.digest is not None and not answer.late and answer.score >= answer.most


def _figures_of(call: Call, digests: set[str]) -> dict[str, dict[str, Figures]]:
    by_digest: dict[str, dict[str, Figures]] = {digest: {} for digest in digests}
    for row in call.session.scalars(select(StoredFigures).where(StoredFigures.digest.in_(digests))):
        by_digest[row.digest][row.tier] = row.values
    return by_digest


@action("assignments.ranking", "GET /assignments/{assignment}/ranking", STUDENT, "read")
def _rank(call: Call) -> RankingRecord:
    """Rank the right plans of an assignment."""
    assignment: Assignment = call.found.resource
    plans = ranking(call, assignment)
    compiling = _compiling(call, {plan.digest for plan in plans})
    problems = _problems(call, {plan.digest for plan in plans})
    people = people_by_id(call.session, (user for plan in plans for user in plan.people))
    rows = []
    for place, plan in enumerate(plans, 1):
        is_own = call.person.user_id in plan.people
        is_shown = is_own or is_staff(call)
        row = RankedRecord(
            place=place,
            people=[people[user] for user in plan.people] if is_shown else [],
            mine=is_own,
            digest=plan.digest if is_shown else None,
            planned=dict(plan.figures.get("planned", {})),
            compiled=plan.figures.get("compiled"),
            compiling=plan.digest in compiling,
            problem="" if "compiled" in plan.figures else problems.get(plan.digest, ""),
        )
        rows.append(row)
    start = dict(_figures_of(call, {assignment.first})[assignment.first].get("planned", {}))
    return RankingRecord(question=assignment.ranked, items=rows, start=start, baselines=baseline_records(call, assignment))


def _compiling(call: Call, digests: set[str]) -> set[str]:
    conditions = (StoredJob.project_id == call.project.id, StoredJob.kind == "compile", StoredJob.state.in_(_OPEN))
    return set(call.session.scalars(select(StoredJob.digest).where(*conditions, StoredJob.digest.in_(digests))))


def _problems(call: Call, digests: set[str]) -> dict[str, str]:
    """Return the problem of each plan whose latest compilation failed."""
    conditions = (StoredJob.project_id == call.project.id, StoredJob.kind == "compile", StoredJob.digest.in_(digests))
    jobs = call.session.scalars(select(StoredJob).where(*conditions).order_by(StoredJob.created, StoredJob.id))
    last = {job.digest: job for job in jobs}
    return {digest: job.problem for digest, job in last.items() if job.state == "failed"}


async def _submit(call: Call) -> int:
    """Submit a compilation of each top plan that has none."""
    with call.services.store.read() as session:
        nested = Call(call.services, call.principal, session, call.inputs, call.found)
        assignment: Assignment = call.found.resource
        if not assignment.ranked:
            raise ConflictError("This assignment has no ranked question.", ["choose a ranked question"])
        plans = ranking(nested, assignment)[:COMPILED]
        waiting = _compiling(nested, {plan.digest for plan in plans})
    digests = {plan.digest for plan in plans if "compiled" not in plan.figures and plan.digest not in waiting}
    for digest in sorted(digests):
        request = JobRequest(project_id=call.project.id, author_id=call.person.user_id, digest=digest, kind="compile")
        await jobs_of(call).submit(request)
    return len(digests)


@action("assignments.compile", "POST /assignments/{assignment}/ranking", member(ProjectRole.RUNNER, "assignment"), "run", prepare=_submit)
def _compile(call: Call) -> SubmittedRecord:
    """Compile the first ten plans of a ranking."""
    return SubmittedRecord(submitted=call.prepared)


class ReplayStep(Record, frozen=True):
    text: str
    name: str
    mesh: str
    layout: str
    figures: Figures


class ReplayRecord(Record, frozen=True):
    """The steps to a ranked plan; `elsewhere` if the plan was not made in its room."""

    place: Count
    elsewhere: bool
    steps: list[ReplayStep]
    planned: Figures


async def _read(call: Call) -> Mapping[str, Any]:
    with call.services.store.read() as session:
        nested = Call(call.services, call.principal, session, call.inputs, call.found)
        ranked = _ranked(nested)
        statement = select(LogEntry.seq).where(LogEntry.room_id == ranked.room_id, LogEntry.digest == ranked.digest)
        end = session.scalar(statement.order_by(LogEntry.seq.desc()).limit(1))
    source = read_room(call.services.store, ranked.room_id)
    steps = (await planner_of(call).ask(ReplayedRoom, "replay", document=source.document, log=source.log[: end or 0])).steps
    return {"steps": [dict(step) for step in steps], "elsewhere": end is None, "planned": dict(ranked.figures.get("planned", {}))}


def _ranked(call: Call) -> RankedPlan:
    """Return the plan of a rank. Raises `MissingError`, and `ForbiddenError` for replays hidden from students."""
    assignment: Assignment = call.found.resource
    place = call.inputs.path["place"]
    if not is_staff(call):
        if not (is_over(assignment) or assignment.released is not None):
            raise ForbiddenError("Replay of the winner is shown once the deadline has passed.", ["wait for it"])
        if place != "1":
            raise ForbiddenError("Students see only the replay of the winner.", ["open the first place"])
    plans = ranking(call, assignment)
    if not place.isdecimal() or not 1 <= int(place) <= len(plans):
        raise MissingError("place", place)
    return plans[int(place) - 1]


@action("assignments.replay", "GET /assignments/{assignment}/ranking/{place}", STUDENT, "read", prepare=_read)
def _answer(call: Call, place: str) -> ReplayRecord:
    """Show how a ranked plan was made, step by step."""
    return ReplayRecord(place=int(place), **call.prepared)
