"""The work on an assignment as its room's process knows it: answers go to the server, and the wall sees how far the plan is."""

import threading
from collections.abc import Callable, Mapping
from typing import Any

from workbench.exercises import PlanQuestion
from workbench.plan.plan import Plan
from workbench.reports.report import Report
from workbench.session.plan_history import Session
from workbench.team.access import ProjectRole
from workbench.team.planning.grade_answers import answer_record, figures_of
from workbench.team.planning.room_session import RoomPerson
from workbench.visualize.layout_thumbnail import thumbnail
from workbench.widgets.exercise.exercise_progress import Answered, ExerciseProgress
from workbench.widgets.shared_states import Defer

PAUSE = 0.5  # seconds between two cards of a plan that is being changed


class StudentAnswers:
    """A `HandingIn` of the board of `whose()`: an answer is kept for those whose work it is; a teacher's is checked, and kept nowhere."""

    def __init__(self, whose: Callable[[], RoomPerson], progress: ExerciseProgress, keep: Callable[[Mapping[str, Any]], None]) -> None:
        self.progress = progress
        self._whose, self._keep = whose, keep

    def verify(self) -> None:
        """Raises `WorkbenchError` for somebody who only looks."""
        self._whose().verify(ProjectRole.EDITOR, "answer")

    def counts(self) -> bool:
        """Whether it is their work."""
        return self._whose().is_participant

    def hand_in(self, answered: Answered) -> None:
        self._keep(answer_record(answered.question, answered.answer, answered.attempt, answered.verdict))


class WorkCard:
    """What the wall shows of the plan: sent some time after each change, when the process has nothing else to do."""

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
    """Figures of the plan, its layout, and for each question about a plan its goals with whether they are met."""
    ticks = {}
    for question in progress.exercise.questions:
        if isinstance(question, PlanQuestion):
            about, goals = progress.ticks(question, report)
            ticks[question.name] = [] if about else [{"text": each["text"], "met": each["met"]} for each in goals]
    return {"figures": dict(figures_of(progress.planned(report))), "layout": str(plan.layout), "mesh": str(plan.mesh), "ticks": ticks}
