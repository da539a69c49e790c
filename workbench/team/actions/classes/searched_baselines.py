"""The optimum that a search finds, beside the plans of a class: a job of the queue, whose plan is judged when it is there."""

import asyncio
import logging
import threading
from collections.abc import Sequence
from typing import Any

from sqlalchemy import select

from workbench.errors import WorkbenchError
from workbench.team.access import ConflictError, ProjectRole
from workbench.team.actions.action import Call, action, jobs_of, member, planner_of
from workbench.team.actions.classes.kept_baselines import keep_baseline, keep_baselines
from workbench.team.actions.plans import keep_plan
from workbench.team.actions.schemas import Id, Record
from workbench.team.store.tables import Assignment, Baseline
from workbench.team.web.team_services import FoundBaseline, FoundBaselines, JobRequest, TeamServices

MINUTES = 2.0
"""Of a search."""
_log = logging.getLogger(__name__)


async def _search(call: Call) -> tuple[FoundBaselines, str]:
    """The baselines that are known at once, and the job of the one that is searched for."""
    assignment: Assignment = call.found.resource
    if not assignment.ranked:
        raise ConflictError("This assignment has no ranked question.", ["choose a ranked question"])
    found = await planner_of(call).ask(FoundBaselines, "baselines", exercise=assignment.exercise, question=assignment.ranked)
    with call.services.store.write() as session:
        keep_plan(session, found.start)
    request = JobRequest(
        project_id=call.project.id,
        author_id=call.person.user_id,
        digest=found.start.digest,
        kind="search",
        minutes=MINUTES,
        options=found.pins,
    )
    return found, await jobs_of(call).submit(request)


class SearchRecord(Record, frozen=True):
    """The job of a search."""

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
    """Search for the best plan, beside those of a ranking."""
    found, job = call.prepared
    assignment: Assignment = call.found.resource
    keep_baselines(call.session, assignment, found.found)
    keep_baseline(call.session, assignment.id, assignment.ranked, FoundBaseline("search", "", None, False, ""), job)
    return SearchRecord(job=job)


class SearchedBaselines:
    """Keeps what the searches of assignments have found. `hear` is for the dispatcher, which calls from its threads."""

    def __init__(self, services: TeamServices) -> None:
        self._services = services

    def hear(self, job_id: str, _events: Sequence[Any], state: str) -> None:
        """What happened to any job of the server."""
        if state != "done":
            return
        with self._services.store.read() as session:
            row = session.scalars(select(Baseline).where(Baseline.job_id == job_id)).first()
            exercise = session.get_one(Assignment, row.assignment_id).exercise if row is not None else ""
        if row is not None:
            threading.Thread(target=self._judge, args=(row, exercise), daemon=True, name="baseline").start()

    def _judge(self, row: Baseline, exercise: str) -> None:
        try:
            found = asyncio.run(self._found(row, exercise))
        except WorkbenchError as error:
            found = FoundBaseline("search", "", None, False, str(error))
        except Exception:  # noqa: BLE001 - whoever looks at the ranking waits for a word
            _log.exception("A search result could not be read.")
            found = FoundBaseline("search", "", None, False, "The search result could not be read.")
        with self._services.store.write() as session:
            keep_baseline(session, row.assignment_id, row.question, found, row.job_id)

    async def _found(self, row: Baseline, exercise: str) -> FoundBaseline:
        jobs, planner = self._services.jobs, self._services.planner
        assert jobs is not None, "a job of it has ended"
        assert planner is not None, "it began with one"
        events = await jobs.events(str(row.job_id), 0, 1000)
        document = next((each["document"] for each in events if each["kind"] == "found"), None)
        if document is None:
            return FoundBaseline("search", "", None, False, "The search found no plan.")
        return await planner.ask(FoundBaseline, "judge", exercise=exercise, question=row.question, document=document)
