"""A runner that starts only what a person's role allows: a runner of the project may spend devices, an editor may compile and search."""

from collections.abc import Callable

from workbench.errors import WorkbenchError
from workbench.hardware.hardware import Hardware
from workbench.plan.plan import Plan
from workbench.reports.run_events import RunListener
from workbench.search.search_messages import SearchListener
from workbench.search.search_space import SearchSpace
from workbench.team.access import ProjectRole
from workbench.team.planning.room_session import RoomPerson
from workbench.widgets.run.runner import RunHandle, Runner, SearchHandle

StartJob = Callable[[Plan, int, RunListener], RunHandle]
"""Submits a run of so many steps as a job of the team."""


class RoleRunner:
    """Runs are jobs of the team (`start_job`). Passes on to `inner` what else `person()`, whose role may change, may start.

    Raises `WorkbenchError` for what the person may not.
    """

    def __init__(self, inner: Runner, person: Callable[[], RoomPerson], start_job: StartJob) -> None:
        self._inner, self._person, self._start_job = inner, person, start_job

    def start(self, plan: Plan, steps: int, on_event: RunListener) -> RunHandle:
        self._person().verify(ProjectRole.RUNNER, "run a plan")
        return self._start_job(plan, steps, on_event)

    def compile(self, plan: Plan, on_event: RunListener, *, behind: bool = False) -> RunHandle:
        self._person().verify(ProjectRole.EDITOR, "compile a plan")
        return self._inner.compile(plan, on_event, behind=behind)

    def calibrate(self, plan: Plan, on_event: RunListener) -> RunHandle:
        self._person().verify(ProjectRole.RUNNER, "measure the attached devices")
        return self._inner.calibrate(plan, on_event)

    def calibrated(self, plan: Plan) -> Hardware | None:
        return self._inner.calibrated(plan)

    def expect(self, plan: Plan) -> None:
        if not self.refuses(plan):
            self._inner.expect(plan)

    def refuses(self, plan: Plan) -> str:
        try:
            self._person().verify(ProjectRole.EDITOR, "compile a plan")
        except WorkbenchError as error:
            return error.message
        return self._inner.refuses(plan)

    def search(self, space: SearchSpace, on_event: SearchListener) -> SearchHandle:
        self._person().verify(ProjectRole.EDITOR, "search for a plan")
        return self._inner.search(space, on_event)

    def expect_search(self, plan: Plan) -> None:
        if self._person().role >= ProjectRole.EDITOR:
            self._inner.expect_search(plan)
