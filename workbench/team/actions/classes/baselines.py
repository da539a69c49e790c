"""The baselines that a class's plans are ranked against. The searched optimum is a job in the queue, whose plan is judged
when it is done.
"""

import asyncio
import logging
import threading
from collections.abc import Sequence
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.orm import Session as DatabaseSession

from workbench.errors import WorkbenchError
from workbench.team.access import ConflictError, ProjectRole
from workbench.team.actions.action import Call, action, jobs_of, member, planner_of
from workbench.team.actions.classes.class_records import is_over
from workbench.team.actions.plans import store_plan
from workbench.team.actions.schemas import Figures, Id, Record
from workbench.team.store.tables import Assignment, Baseline, StoredFigures, StoredJob
from workbench.team.web.team_services import FoundBaseline, FoundBaselines, JobRequest, TeamServices

ORDER = ("start", "data_parallel", "recipe", "search")


class BaselineRecord(Record, frozen=True):
    name: str
    detail: str
    planned: Figures
    right: bool
    reason: str
    searching: bool


def replace_baselines(session: DatabaseSession, assignment: Assignment, found: Sequence[FoundBaseline]) -> None:
    """Replace the baselines of the ranked question."""
    names = [baseline.name for baseline in found]
    outdated = (Baseline.assignment_id == assignment.id, (Baseline.question != assignment.ranked) | Baseline.name.in_(names))
    session.execute(delete(Baseline).where(*outdated))
    for baseline in found:
        store_baseline(session, assignment.id, assignment.ranked, baseline)


def store_baseline(session: DatabaseSession, assignment_id: str, question: str, found: FoundBaseline, job_id: str | None = None) -> None:
    if found.plan is not None:
        store_plan(session, found.plan)
    key = {"assignment_id": assignment_id, "name": found.name, "question": question, "job_id": job_id}
    digest = found.plan.digest if found.plan is not None else None
    session.merge(Baseline(**key, detail=found.detail, digest=digest, right=found.right, reason=found.reason))
    session.flush()


def baseline_records(call: Call, assignment: Assignment) -> list[BaselineRecord]:
    """Return the baselines of the ranked question. Students see details after the deadline, because they are hints."""
    rows = call.session.scalars(
        select(Baseline).where(Baseline.assignment_id == assignment.id, Baseline.question == assignment.ranked)
    ).all()
    digests = {row.digest for row in rows if row.digest}
    statement = select(StoredFigures).where(StoredFigures.digest.in_(digests), StoredFigures.tier == "planned")
    figures = {stored.digest: stored.values for stored in call.session.scalars(statement)}
    jobs = {row.job_id: call.session.get(StoredJob, row.job_id) for row in rows if row.job_id}
    is_shown = call.may(ProjectRole.VIEWER) or is_over(assignment) or assignment.released is not None
    return [
        BaselineRecord.of(
            row,
            detail=row.detail if is_shown else "",
            planned=figures.get(row.digest or "", {}),
            reason=_reason(row, jobs.get(row.job_id or "")) if is_shown else "",
            searching=_is_searching(row, jobs.get(row.job_id or "")),
        )
        for row in sorted(rows, key=lambda row: ORDER.index(row.name))
    ]


def _is_searching(row: Baseline, job: StoredJob | None) -> bool:
    return row.digest is None and not row.reason and job is not None and job.state not in ("failed", "cancelled")


def _reason(row: Baseline, job: StoredJob | None) -> str:
    if row.digest is None and not row.reason and job is not None:
        return {"failed": job.problem, "cancelled": "The search was cancelled."}.get(job.state, "")
    return row.reason


MINUTES = 2.0
"""Time limit of a search."""
_log = logging.getLogger(__name__)


async def _search(call: Call) -> tuple[FoundBaselines, str]:
    assignment: Assignment = call.found.resource
    if not assignment.ranked:
        raise ConflictError("This assignment has no ranked question.", ["choose a ranked question"])
    baselines = await planner_of(call).ask(FoundBaselines, "baselines", exercise=assignment.exercise, question=assignment.ranked)
    with call.services.store.write() as session:
        store_plan(session, baselines.start)
    request = JobRequest(
        project_id=call.project.id,
        author_id=call.person.user_id,
        digest=baselines.start.digest,
        kind="search",
        minutes=MINUTES,
        options=baselines.pins,
    )
    return baselines, await jobs_of(call).submit(request)


class SearchRecord(Record, frozen=True):
    job: Id


@action(
    "assignments.search",
    "POST /assignments/{assignment}/baselines",
    member(ProjectRole.RUNNER, "assignment"),
    "run",
    prepare=_search,
    status=201,
    subject="job",
)
def _keep(call: Call) -> SearchRecord:
    """Search for the best plan to compare a ranking with."""
    baselines, job = call.prepared
    assignment: Assignment = call.found.resource
    replace_baselines(call.session, assignment, baselines.found)
    store_baseline(call.session, assignment.id, assignment.ranked, FoundBaseline("search", "", None, False, ""), job)
    return SearchRecord(job=job)


class SearchedBaselines:
    """Stores the results of assignment searches. `hear` is called from the dispatcher's threads."""

    def __init__(self, services: TeamServices) -> None:
        self._services = services

    def hear(self, job_id: str, _events: Sequence[Any], state: str) -> None:
        """Judge the result when an assignment's search job is done."""
        if state != "done":
            return
        with self._services.store.read() as session:
            row = session.scalars(select(Baseline).where(Baseline.job_id == job_id)).first()
            exercise = session.get_one(Assignment, row.assignment_id).exercise if row is not None else ""
        if row is not None:
            threading.Thread(target=self._judge, args=(row, exercise), daemon=True, name="baseline").start()

    def _judge(self, row: Baseline, exercise: str) -> None:
        try:
            baseline = asyncio.run(self._found(row, exercise))
        except WorkbenchError as error:
            baseline = FoundBaseline("search", "", None, False, str(error))
        except Exception:  # noqa: BLE001 - the ranking page must show a result
            _log.exception("A search result could not be read.")
            baseline = FoundBaseline("search", "", None, False, "The search result could not be read.")
        with self._services.store.write() as session:
            store_baseline(session, row.assignment_id, row.question, baseline, row.job_id)

    async def _found(self, row: Baseline, exercise: str) -> FoundBaseline:
        jobs, planner = self._services.jobs, self._services.planner
        assert jobs is not None, "a job of it has ended"
        assert planner is not None, "it began with one"
        events = await jobs.events(str(row.job_id), 0, 1000)
        document = next((event["document"] for event in events if event["kind"] == "found"), None)
        if document is None:
            return FoundBaseline("search", "", None, False, "The search found no plan.")
        return await planner.ask(FoundBaseline, "judge", exercise=exercise, question=row.question, document=document)
