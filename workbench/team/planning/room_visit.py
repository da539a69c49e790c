"""A user's board in a room: a private view of the shared session. Work on an assignment sends answers to the server, and
progress to the wall.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from workbench.app.page.lesson_text import LessonText
from workbench.app.page.part_changes import VisitorWindow
from workbench.app.page.visit import Visit, VisitContext
from workbench.errors import WorkbenchError
from workbench.exercises import PlanQuestion
from workbench.hardware.hardware import Hardware
from workbench.plan.plan import Plan
from workbench.reports.report import Report
from workbench.reports.run_events import RunListener
from workbench.search.search_messages import SearchListener
from workbench.search.search_space import SearchSpace
from workbench.session.figure_tiers import Partitioner, Settler
from workbench.session.plan_history import Session
from workbench.team.access import ProjectRole
from workbench.team.planning.grade_answers import answer_record, figures_of
from workbench.team.planning.room_session import RoomPerson, RoomSession
from workbench.visualize.layout_thumbnail import thumbnail
from workbench.widgets.board.board_host import Host
from workbench.widgets.exercise.exercise_progress import Answered, ExerciseProgress
from workbench.widgets.run.job_progress import RunProgress
from workbench.widgets.run.runner_protocol import RunHandle, Runner, SearchHandle
from workbench.widgets.shared_states import Defer

# The role check of runs: project runners can spend devices, editors can compile and search.

StartJob = Callable[[Plan, int, RunListener], RunHandle]
"""Submits a run of the given steps as a team job."""


PAUSE = 0.5  # minimum seconds between cards


class StudentAnswers:
    """A `HandingIn` of the board of `whose()`: participants' answers are stored; a teacher's are only checked."""

    def __init__(self, whose: Callable[[], RoomPerson], progress: ExerciseProgress, keep: Callable[[Mapping[str, Any]], None]) -> None:
        self.progress = progress
        self._whose, self._keep = whose, keep

    def verify(self) -> None:
        self._whose().verify(ProjectRole.EDITOR, "answer")

    def counts(self) -> bool:
        return self._whose().is_participant

    def hand_in(self, answered: Answered) -> None:
        self._keep(answer_record(answered.question, answered.answer, answered.attempt, answered.verdict))


class WorkCard:
    def __init__(self, session: Session, progress: ExerciseProgress, send: Callable[[Mapping[str, Any]], None], defer: Defer) -> None:
        self._session, self._progress, self._send, self._defer = session, progress, send, defer
        self._timer: threading.Timer | None = None
        session.listen(lambda _plan, _report: self._plan_card())
        self._plan_card()

    def _plan_card(self) -> None:
        if self._timer is None:
            self._timer = threading.Timer(PAUSE, lambda: self._defer(self._send_card))
            self._timer.daemon = True
            self._timer.start()

    def _send_card(self) -> None:
        self._timer = None
        report = self._session.report
        card = work_card(self._progress, self._session.plan, report)
        self._send({"card": card, "thumbnail": thumbnail(report)})


def work_card(progress: ExerciseProgress, plan: Plan, report: Report) -> dict[str, Any]:
    ticks = {}
    for question in progress.exercise.questions:
        if isinstance(question, PlanQuestion):
            about, goals = progress.ticks(question, report)
            ticks[question.name] = [] if about else [{"text": goal["text"], "met": goal["met"]} for goal in goals]
    return {"figures": dict(figures_of(progress.planned(report))), "layout": str(plan.layout), "mesh": str(plan.mesh), "ticks": ticks}


class RoleRunner:
    """Runs plans as team jobs and passes other work to `inner`. Raises `WorkbenchError` for a low role."""

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
    """The board of `person`, whose role may change while it is open. All its actions are attributed to that person."""

    def __init__(
        self, session: RoomSession, person: RoomPerson, window: VisitorWindow, runner: Runner, start_job: StartJob, defer: Defer
    ) -> None:
        self.person, self._session = person, session
        as_person: Defer = lambda work: defer(lambda: self._act(work))  # noqa: E731
        super().__init__(VisitContext(window, RoleRunner(runner, lambda: self.person, start_job), as_person))

    def open(
        self,
        save: Callable[[Plan], str],
        ran: Callable[[RunProgress], None],
        allow: tuple[str, ...],
        answers: StudentAnswers | None = None,
        lesson: str = "",
    ) -> None:
        """Show the room's board. `save(plan)` adds a plan to the gallery and returns an empty text; `ran(run)` is called
        after each of this user's runs; `answers` belong to the exercise of an assignment, whose text is next to the board if it is
        that of a `lesson`.
        """
        is_staff = not self.person.is_student
        sharing = SHARING if is_staff else ""
        host = Host(save=save, ran=ran, allow=allow, sharing=sharing, names_saved=True)
        host = replace(host, saves=is_staff, runs=is_staff, searches=is_staff, starts=is_staff)
        if answers is not None:
            host = replace(host, starts=False, exercise=answers.progress.exercise, progress=answers.progress, handing_in=answers)
            host = replace(host, lesson=LessonText(lesson, assigned=True) if lesson else None)
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
        self._act(lambda: super(RoomVisit, self).hear(message), saw=_revision_of(message))

    def show_again(self) -> None:
        self._act(super().show_again)

    def view(self) -> Mapping[str, Any]:
        state = self.board.view() if self.board else ("", "")
        return {"tab": state[0], "selected": state[1]}

    def _begin(self, make: Callable[[], Plan]) -> tuple[Session, str]:
        del make
        return self._session, ""

    def _act(self, work: Callable[[], None], saw: int | None = None) -> None:
        with self._session.acting(self.person, saw):
            work()


def _revision_of(message: Message) -> int | None:
    saw = message["gesture"].get("saw") if isinstance(message.get("gesture"), Mapping) else None
    return saw if isinstance(saw, int) and not isinstance(saw, bool) else None
