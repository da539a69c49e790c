"""The baselines of a ranking, as the store has them: rows of their own beside the plans of a class."""

from collections.abc import Sequence

from sqlalchemy import delete, select
from sqlalchemy.orm import Session as DatabaseSession

from workbench.team.access import ProjectRole
from workbench.team.actions.action import Call
from workbench.team.actions.classes.class_records import is_over
from workbench.team.actions.plans import keep_plan
from workbench.team.actions.schemas import Figures, Record
from workbench.team.store.tables import Assignment, Baseline, StoredFigures, StoredJob
from workbench.team.web.team_services import FoundBaseline

ORDER = ("start", "data_parallel", "recipe", "search")


class BaselineRecord(Record, frozen=True):
    """A plan that those of a class are compared with."""

    name: str
    detail: str
    planned: Figures
    right: bool
    reason: str
    searching: bool


def keep_baselines(session: DatabaseSession, assignment: Assignment, found: Sequence[FoundBaseline]) -> None:
    """Keep what was found for the question that is ranked now, in place of what there was."""
    names = [each.name for each in found]
    others = (Baseline.assignment_id == assignment.id, (Baseline.question != assignment.ranked) | Baseline.name.in_(names))
    session.execute(delete(Baseline).where(*others))
    for each in found:
        keep_baseline(session, assignment.id, assignment.ranked, each)


def keep_baseline(session: DatabaseSession, assignment_id: str, question: str, found: FoundBaseline, job_id: str | None = None) -> None:
    """Keep one baseline, and its plan."""
    if found.plan is not None:
        keep_plan(session, found.plan)
    own = {"assignment_id": assignment_id, "name": found.name, "question": question, "job_id": job_id}
    digest = found.plan.digest if found.plan is not None else None
    session.merge(Baseline(**own, detail=found.detail, digest=digest, right=found.right, reason=found.reason))
    session.flush()


def baseline_records(call: Call, assignment: Assignment) -> list[BaselineRecord]:
    """The baselines of the question that is ranked. Which recipe it is, and what it misses, students see once it is over: it is a hint."""
    rows = call.session.scalars(
        select(Baseline).where(Baseline.assignment_id == assignment.id, Baseline.question == assignment.ranked)
    ).all()
    digests = {each.digest for each in rows if each.digest}
    wanted = select(StoredFigures).where(StoredFigures.digest.in_(digests), StoredFigures.tier == "planned")
    figures = {each.digest: each.values for each in call.session.scalars(wanted)}
    jobs = {each.job_id: call.session.get(StoredJob, each.job_id) for each in rows if each.job_id}
    is_shown = call.may(ProjectRole.VIEWER) or is_over(assignment) or assignment.released is not None
    return [
        BaselineRecord.of(
            each,
            detail=each.detail if is_shown else "",
            planned=figures.get(each.digest or "", {}),
            reason=_reason(each, jobs.get(each.job_id or "")) if is_shown else "",
            searching=_is_searching(each, jobs.get(each.job_id or "")),
        )
        for each in sorted(rows, key=lambda each: ORDER.index(each.name))
    ]


def _is_searching(row: Baseline, job: StoredJob | None) -> bool:
    return row.digest is None and not row.reason and job is not None and job.state not in ("failed", "cancelled")


def _reason(row: Baseline, job: StoredJob | None) -> str:
    """What it misses, or why there is none."""
    if row.digest is None and not row.reason and job is not None:
        return {"failed": job.problem, "cancelled": "The search was cancelled."}.get(job.state, "")
    return row.reason
