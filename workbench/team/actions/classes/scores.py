"""The scores of a class, and the ranking of its plans: by the predicted time of a step among those that are right, the first ten by what
the compiler made of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from workbench.team.access import ProjectRole
from workbench.team.actions.action import Action, Call, member
from workbench.team.actions.classes.assignments import STAFF, STUDENT, present
from workbench.team.actions.classes.class_records import graded_work, is_staff
from workbench.team.actions.classes.kept_baselines import BASELINE, baseline_records
from workbench.team.actions.input_errors import ConflictError
from workbench.team.actions.people_records import people_by_id
from workbench.team.actions.schemas import ANYTHING, COUNT, DIGEST, FLAG, ID, NUMBER, PERSON, TEXT, list_of, or_none, record
from workbench.team.actions.server_parts import jobs_of
from workbench.team.store.tables import Assignment, GivenAnswer, Member, StoredFigures, StoredJob
from workbench.team.web.services import JobRequest

COMPILED = 10
"""The first so many of a ranking are compiled."""
_OPEN = ("queued", "starting", "running")
_FIGURES = {"type": "object", "additionalProperties": ANYTHING}
_SCORE = record(
    {
        "person": PERSON,
        "student": FLAG,
        "room": or_none(ID),
        "questions": {"type": "object", "additionalProperties": NUMBER},
        "tries": COUNT,
        "late": COUNT,
        "reached": NUMBER,
        "points": NUMBER,
        "most": NUMBER,
        "remark": TEXT,
    }
)
_RANKED = record(
    {
        "place": COUNT,
        "people": list_of(PERSON),
        "mine": FLAG,
        "digest": or_none(DIGEST),
        "planned": _FIGURES,
        "compiled": or_none(_FIGURES),
        "compiling": FLAG,
        "problem": TEXT,
    }
)


def _scores(call: Call) -> dict[str, Any]:
    """A row for each student, and for whoever else sat down."""
    assignment = present(call)
    work_of = {user: each for each in graded_work(call.session, assignment.id) for user in each.people}
    members = select(Member.user_id).where(Member.project_id == call.project.id, Member.role == str(ProjectRole.STUDENT))
    students = set(call.session.scalars(members))
    people = people_by_id(call.session, students | set(work_of))
    rows = []
    for user, person in sorted(people.items(), key=lambda each: each[1]["name"]):
        work = work_of.get(user)
        reached = {each["question"]: each["score"] for each in work.reached(assignment)} if work else {}
        own = work.row.points if work else None
        rows.append(
            {
                "person": person,
                "student": user in students,
                "room": work.row.room_id if work else None,
                "questions": reached,
                "tries": len(work.answers) if work else 0,
                "late": sum(each.late for each in work.answers) if work else 0,
                "reached": sum(reached.values()),
                "points": sum(reached.values()) if own is None else own,
                "most": assignment.outline["points"],
                "remark": work.row.remark if work else "",
            }
        )
    return {"items": rows}


@dataclass(frozen=True, slots=True)
class RankedPlan:
    """The best right plan of a student or group, with its figures by tier."""

    room_id: str
    people: Sequence[str]
    digest: str
    figures: Mapping[str, Mapping[str, Any]]

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


def _figures_of(call: Call, digests: set[str]) -> dict[str, dict[str, Mapping[str, Any]]]:
    found: dict[str, dict[str, Mapping[str, Any]]] = {each: {} for each in digests}
    for each in call.session.scalars(select(StoredFigures).where(StoredFigures.digest.in_(digests))):
        found[each.digest][each.tier] = each.values
    return found


def _rank(call: Call) -> dict[str, Any]:
    """Students see which one is theirs, and no names."""
    assignment = present(call)
    plans = ranking(call, assignment)
    compiling = _compiling(call, {each.digest for each in plans})
    problems = _problems(call, {each.digest for each in plans})
    people = people_by_id(call.session, (user for each in plans for user in each.people))
    rows = []
    for place, each in enumerate(plans, 1):
        mine = call.person.user_id in each.people
        is_shown = mine or is_staff(call)
        rows.append(
            {
                "place": place,
                "people": [people[user] for user in each.people] if is_shown else [],
                "mine": mine,
                "digest": each.digest if is_shown else None,
                "planned": each.figures.get("planned", {}),
                "compiled": each.figures.get("compiled"),
                "compiling": each.digest in compiling,
                "problem": "" if "compiled" in each.figures else problems.get(each.digest, ""),
            }
        )
    first = _figures_of(call, {assignment.first})[assignment.first].get("planned", {})
    return {"question": assignment.ranked, "items": rows, "start": first, "baselines": baseline_records(call, assignment)}


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
        assignment = present(here)
        if not assignment.ranked:
            raise ConflictError("No question of this assignment is ranked.", ["choose one: its plans are compared then"])
        plans = ranking(here, assignment)[:COMPILED]
        waiting = _compiling(here, {each.digest for each in plans})
    wanted = {each.digest for each in plans if "compiled" not in each.figures and each.digest not in waiting}
    for digest in sorted(wanted):
        request = JobRequest(project_id=call.project.id, author_id=call.person.user_id, digest=digest, kind="compile")
        await jobs_of(call).submit(request)
    return len(wanted)


ACTIONS = (
    Action(
        "assignments.scores",
        "GET",
        "/assignments/{assignment}/scores",
        "List the scores of all students",
        STAFF,
        "read",
        record({"items": list_of(_SCORE)}),
        _scores,
    ),
    Action(
        "assignments.ranking",
        "GET",
        "/assignments/{assignment}/ranking",
        "Rank the right plans of an assignment",
        STUDENT,
        "read",
        record({"question": TEXT, "items": list_of(_RANKED), "start": _FIGURES, "baselines": list_of(BASELINE)}),
        _rank,
    ),
    Action(
        "assignments.compile",
        "POST",
        "/assignments/{assignment}/ranking",
        "Compile the first ten plans of a ranking",
        member(ProjectRole.RUNNER, "assignment"),
        "run",
        record({"submitted": COUNT}),
        lambda call: {"submitted": call.prepared},
        prepare=_submit,
    ),
)
