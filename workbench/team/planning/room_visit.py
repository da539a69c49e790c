"""One person's board in a room: a view of their own on the session of all."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from workbench.app.page.part_changes import VisitorWindow
from workbench.app.page.visit import Visit, VisitContext
from workbench.errors import WorkbenchError
from workbench.hardware.hardware import Hardware
from workbench.plan.plan import Plan
from workbench.reports.run_events import RunListener
from workbench.search.search_messages import SearchListener
from workbench.search.search_space import SearchSpace
from workbench.session.figure_tiers import Partitioner, Settler
from workbench.session.plan_history import Session
from workbench.team.access import ProjectRole
from workbench.team.planning.room_session import RoomPerson, RoomSession
from workbench.team.planning.student_answers import StudentAnswers
from workbench.widgets.board.board_host import Host
from workbench.widgets.run.run_progress import RunProgress
from workbench.widgets.run.runner_protocol import RunHandle, Runner, SearchHandle
from workbench.widgets.shared_states import Defer

# A runner that starts only what a person's role allows: a runner of the project may spend devices, an editor may compile and search.

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


Message = Mapping[str, Any]
SHARING = "To give access to this room or to a plan, create a link on the People page of the project."


class RoomVisit(Visit):
    """The board of `person`, whose role may change while it is open. All that it does, it does as that person."""

    def __init__(
        self, session: RoomSession, person: RoomPerson, window: VisitorWindow, runner: Runner, start_job: StartJob, defer: Defer
    ) -> None:
        self.person, self._session = person, session
        as_person: Defer = lambda work: defer(lambda: self._act(work))  # noqa: E731
        super().__init__(VisitContext(window, RoleRunner(runner, lambda: self.person, start_job), as_person))

    def open(
        self, save: Callable[[Plan], str], ran: Callable[[RunProgress], None], allow: tuple[str, ...], answers: StudentAnswers | None = None
    ) -> None:
        """Show the room's board. `save(plan)` puts a plan into the gallery, and returns where it is; `ran(run)` hears of each run that
        this person has finished; `answers` are those to the exercise of an assignment."""
        is_staff = not self.person.is_student
        sharing = SHARING if is_staff else ""
        host = Host(save=save, ran=ran, allow=allow, sharing=sharing, saves=is_staff, runs=is_staff, searches=is_staff, starts=is_staff)
        if answers is not None:
            host = replace(host, starts=False, exercise=answers.progress.exercise, progress=answers.progress, handing_in=answers)
        self._act(lambda: self.show(lambda: self._session.plan, host))

    def share_settling(self, settler: Settler, partitioner: Partitioner) -> None:
        if self.board:
            self._act(partial(self.board.share_settling, settler, partitioner))

    def show_settling(self) -> None:
        if self.board:
            self._act(self.board.show_settling)

    def show_run(self, run: RunProgress) -> None:
        if self.board:
            self._act(partial(self.board.show_run, run))

    def hear(self, message: Message) -> None:
        """Handle a message of the person's page."""
        self._act(lambda: super(RoomVisit, self).hear(message), saw=_revision_of(message))

    def show_again(self) -> None:
        self._act(super().show_again)

    def view(self) -> Mapping[str, Any]:
        """What the person has before their eyes, for colleagues: the open tab and what is selected."""
        state = self.board.view() if self.board else ("", "")
        return {"tab": state[0], "selected": state[1]}

    def _begin(self, make: Callable[[], Plan]) -> tuple[Session, str]:
        del make
        return self._session, ""

    def _act(self, work: Callable[[], None], saw: int | None = None) -> None:
        with self._session.acting(self.person, saw):
            work()


def _revision_of(message: Message) -> int | None:
    """Which revision of the session a gesture's hand saw, if it says so."""
    saw = message["gesture"].get("saw") if isinstance(message.get("gesture"), Mapping) else None
    return saw if isinstance(saw, int) and not isinstance(saw, bool) else None
