"""The scores of a class, and the ranking of its plans: by the predicted time of a step among those that are right, the first ten by what
the compiler made of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import select

from workbench.team.access import ConflictError, ProjectRole
from workbench.team.actions.action import Call, action, jobs_of, member
from workbench.team.actions.classes.assignments import STAFF, STUDENT
from workbench.team.actions.classes.class_records import GradedWork, graded_work, is_staff
from workbench.team.actions.classes.kept_baselines import BaselineRecord, baseline_records
from workbench.team.actions.schemas import Count, Digest, Figures, Id, PersonRecord, Record, people_by_id
from workbench.team.store.tables import Assignment, GivenAnswer, Member, StoredFigures, StoredJob
from workbench.team.web.team_services import JobRequest

COMPILED = 10
"""The first so many of a ranking are compiled."""
_OPEN = ("queued", "starting", "running")


class ScoreRecord(Record, frozen=True):
    """What somebody reached in an assignment."""

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
    """A place in a ranking; whose plan it is, and which, students see of their own alone."""

    place: Count
    people: list[PersonRecord]
    mine: bool
    digest: Digest | None
    planned: Figures
    compiled: Figures | None
    compiling: bool
    problem: str


class RankingRecord(Record, frozen=True):
    """The right plans of a class, and what they are compared with."""

    question: str
    items: list[RankedRecord]
    start: Figures
    baselines: list[BaselineRecord]


class SubmittedRecord(Record, frozen=True):
    """How many compilations were submitted."""

    submitted: Count


@action("assignments.scores", "GET /assignments/{assignment}/scores", STAFF, "read")
def _scores(call: Call) -> list[ScoreRecord]:
    """List the scores of all students."""
    # a row for each student, and for whoever else sat down
    assignment: Assignment = call.found.resource
    work_of = {user: each for each in graded_work(call.session, assignment.id) for user in each.people}
    members = select(Member.user_id).where(Member.project_id == call.project.id, Member.role == str(ProjectRole.STUDENT))
    students = set(call.session.scalars(members))
    people = people_by_id(call.session, students | set(work_of))
    return [
        _score(assignment, person, work_of.get(user), student=user in students)
        for user, person in sorted(people.items(), key=lambda each: each[1].name)
    ]


def _score(assignment: Assignment, person: PersonRecord, work: GradedWork | None, *, student: bool) -> ScoreRecord:
    reached = {each.question: each.score for each in work.reached(assignment)} if work else {}
    own = work.row.points if work else None
    return ScoreRecord(
        person=person,
        student=student,
        room=work.row.room_id if work else None,
        questions=reached,
        tries=len(work.answers) if work else 0,
        late=sum(each.late for each in work.answers) if work else 0,
        reached=sum(reached.values()),
        points=sum(reached.values()) if own is None else own,
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
        """What it is ranked by: the seconds of a step, then bytes sent."""
        found = self.figures.get("planned", {})
        return found.get("step_seconds") or float("inf"), found.get("sent_bytes") or 0.0, self.digest

    @property
    def compiled(self) -> float:
        """Seconds of a step by the compiler, where it was asked, else as predicted."""
        return self.figures.get("compiled", {}).get("step_seconds") or self.planned[0]


def ranking(call: Call, assignment: Assignment) -> list[RankedPlan]:
    """One plan for each student or group with a right one, the best first. The first ten stand as their compiler has them."""
    best: dict[str, RankedPlan] = {}
    all_work = graded_work(call.session, assignment.id)
    right = {each.row.room_id: [one for one in each.answers if _is_ranked(assignment, one)] for each in all_work}
    figures = _figures_of(call, {one.digest for given in right.values() for one in given if one.digest})
    for each in all_work:
        given = [one.digest for one in right[each.row.room_id] if one.digest]
        if given:
            plans = (RankedPlan(each.row.room_id, each.people, digest, figures[digest]) for digest in given)
            best[each.row.room_id] = min(plans, key=lambda plan: plan.planned)
    found = sorted(best.values(), key=lambda plan: plan.planned)
    return [*sorted(found[:COMPILED], key=lambda plan: plan.compiled), *found[COMPILED:]]


def _is_ranked(assignment: Assignment, answer: GivenAnswer) -> bool:
    return answer.question == assignment.ranked and answer.digest is not None and not answer.late and answer.score >= answer.most


def _figures_of(call: Call, digests: set[str]) -> dict[str, dict[str, Figures]]:
    found: dict[str, dict[str, Figures]] = {each: {} for each in digests}
    for each in call.session.scalars(select(StoredFigures).where(StoredFigures.digest.in_(digests))):
        found[each.digest][each.tier] = each.values
    return found


@action("assignments.ranking", "GET /assignments/{assignment}/ranking", STUDENT, "read")
def _rank(call: Call) -> RankingRecord:
    """Rank the right plans of an assignment."""
    assignment: Assignment = call.found.resource
    plans = ranking(call, assignment)
    compiling = _compiling(call, {each.digest for each in plans})
    problems = _problems(call, {each.digest for each in plans})
    people = people_by_id(call.session, (user for each in plans for user in each.people))
    rows = []
    for place, each in enumerate(plans, 1):
        mine = call.person.user_id in each.people
        is_shown = mine or is_staff(call)
        row = RankedRecord(
            place=place,
            people=[people[user] for user in each.people] if is_shown else [],
            mine=mine,
            digest=each.digest if is_shown else None,
            planned=dict(each.figures.get("planned", {})),
            compiled=each.figures.get("compiled"),
            compiling=each.digest in compiling,
            problem="" if "compiled" in each.figures else problems.get(each.digest, ""),
        )
        rows.append(row)
    start = dict(_figures_of(call, {assignment.first})[assignment.first].get("planned", {}))
    return RankingRecord(question=assignment.ranked, items=rows, start=start, baselines=baseline_records(call, assignment))


def _compiling(call: Call, digests: set[str]) -> set[str]:
    mine = (StoredJob.project_id == call.project.id, StoredJob.kind == "compile", StoredJob.state.in_(_OPEN))
    return set(call.session.scalars(select(StoredJob.digest).where(*mine, StoredJob.digest.in_(digests))))


def _problems(call: Call, digests: set[str]) -> dict[str, str]:
    """Why plans were not compiled, where the last try of each failed."""
    mine = (StoredJob.project_id == call.project.id, StoredJob.kind == "compile", StoredJob.digest.in_(digests))
    found = call.session.scalars(select(StoredJob).where(*mine).order_by(StoredJob.created, StoredJob.id))
    last = {each.digest: each for each in found}
    return {digest: each.problem for digest, each in last.items() if each.state == "failed"}


async def _submit(call: Call) -> int:
    """A compilation for each of the first ten that has none."""
    with call.services.store.read() as session:
        here = Call(call.services, call.principal, session, call.inputs, call.found)
        assignment: Assignment = call.found.resource
        if not assignment.ranked:
            raise ConflictError("This assignment has no ranked question.", ["choose a ranked question"])
        plans = ranking(here, assignment)[:COMPILED]
        waiting = _compiling(here, {each.digest for each in plans})
    wanted = {each.digest for each in plans if "compiled" not in each.figures and each.digest not in waiting}
    for digest in sorted(wanted):
        request = JobRequest(project_id=call.project.id, author_id=call.person.user_id, digest=digest, kind="compile")
        await jobs_of(call).submit(request)
    return len(wanted)


@action("assignments.compile", "POST /assignments/{assignment}/ranking", member(ProjectRole.RUNNER, "assignment"), "run", prepare=_submit)
def _compile(call: Call) -> SubmittedRecord:
    """Compile the first ten plans of a ranking."""
    return SubmittedRecord(submitted=call.prepared)
