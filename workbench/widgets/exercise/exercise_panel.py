"""The exercise over the board: its goals tick while the plan changes, an answer is checked with variants and earns hints."""

import logging
import threading
from collections.abc import Callable
from typing import Any

from workbench.core.public_error_text import describe_error
from workbench.errors import WorkbenchError
from workbench.exercises import ChoiceQuestion, PlanQuestion, Verdict
from workbench.exercises.parse_questions import Question, kind_of
from workbench.exercises.verdict import refusal
from workbench.plan.edits import OpenPlan
from workbench.plan.plan import Plan
from workbench.session.plan_history import Session
from workbench.widgets.board.board_host import Host
from workbench.widgets.exercise.exercise_progress import Answered, Attempts, ExerciseProgress
from workbench.widgets.gestures.gesture import Handlers, on
from workbench.widgets.gestures.panel_gestures import AnswerGesture, QuestionGesture, StartQuestionGesture
from workbench.widgets.shared_states import Defer

_log = logging.getLogger(__name__)


class ExercisePanel:
    """One exercise on one board; without an exercise it shows nothing. `defer` moves work to the board's thread, `show()` publishes it."""

    def __init__(self, session: Session, host: Host, defer: Defer, show: Callable[[], None]) -> None:
        """Raises `DocumentError` for a question that the exercise does not have."""
        exercise = host.exercise
        self._session, self._exercise, self._defer, self._handing_in = session, exercise, defer, host.handing_in
        self._progress = host.progress or (ExerciseProgress(exercise) if exercise else None)
        self._name = "" if exercise is None else exercise[host.question].name if host.question else exercise.questions[0].name
        self.close = self._progress.listen(show) if self._progress else lambda: None

    def handlers(self) -> Handlers:
        """Its handlers; they raise `WorkbenchError` where there is no exercise, or no such question."""
        return dict([on(QuestionGesture, self._choose), on(StartQuestionGesture, self._start), on(AnswerGesture, self._answer)])

    def state(self) -> dict[str, Any] | None:
        """The question that is looked at, as JSON; `None` without an exercise."""
        if self._exercise is None or self._progress is None:
            return None
        question, tried = self._question, self._progress.attempts
        attempts = tried[self._name]
        about, goals = self._progress.ticks(question, self._session.report) if isinstance(question, PlanQuestion) else ("", [])
        return {
            "title": self._exercise.title,
            "questions": [
                {"name": each.name, "label": f"{number}", "open": each is question, "done": tried[each.name].is_done}
                for number, each in enumerate(self._exercise.questions, 1)
            ],
            "name": question.name,
            "kind": kind_of(question),
            "ask": question.ask,
            "how": _how(question),
            "goals": goals,
            "about": about,
            "choices": [each.text for each in question.choices] if isinstance(question, ChoiceQuestion) else [],
            "several": isinstance(question, ChoiceQuestion) and question.is_several,
            "checking": self._progress.checking == self._name,
            "verdict": self._verdict_state(attempts),
            "points": question.points,
        }

    @property
    def is_asking(self) -> bool:
        """Whether a plan is asked for that was not found yet: the board shows what is wrong with a plan, and not how to fix it."""
        if self._exercise is None or self._progress is None:
            return False
        return isinstance(self._question, PlanQuestion) and not self._progress.attempts[self._name].is_done

    @property
    def _question(self) -> Question:
        if self._exercise is None:
            raise WorkbenchError("There is no exercise on this board.", ["open one: workbench serve --exercise exercise.json"])
        return self._exercise[self._name]

    def _choose(self, gesture: QuestionGesture) -> None:
        if self._exercise is None:
            _ = self._question
            return
        self._name = self._exercise[gesture.name].name
        is_theirs = self._handing_in is None or self._handing_in.counts()  # who looks over a shoulder leaves the board as it is
        if is_theirs and isinstance(self._question, PlanQuestion) and not self._question.is_of(self._session.plan):
            self._start(StartQuestionGesture())

    def _start(self, _gesture: StartQuestionGesture) -> None:
        question = self._question
        if not isinstance(question, PlanQuestion):
            raise WorkbenchError("This question does not start from a plan.", ["answer it in the field"])
        if question.plan != self._session.plan:
            self._session.apply(OpenPlan(question.plan, f"question {question.name}"))

    def _answer(self, gesture: AnswerGesture) -> None:
        """Check in a thread: variants are planned anew, and a goal may ask XLA's partitioner."""
        question, progress = self._question, self._progress
        assert progress is not None, "there is a question"
        if progress.checking:
            raise WorkbenchError("An answer is already being checked.", ["wait a moment"])
        if not isinstance(question, PlanQuestion) and not gesture.answer.strip():
            raise WorkbenchError("There is no answer yet.", ["choose one" if kind_of(question) == "choice" else "type one"])
        if self._handing_in:
            self._handing_in.verify()
        answer = self._session.plan if isinstance(question, PlanQuestion) else gesture.answer
        tried = progress.attempts[question.name]
        if self._handing_in and self._handing_in.counts() and answer == tried.counted == tried.of:  # in a class hints are earned
            raise WorkbenchError("Same answer as before; not counted.", ["change it, and check again"])
        progress.checking = question.name
        attempt = progress.attempts[question.name].count + 1
        threading.Thread(target=self._check, args=(question, answer, attempt), name="check an answer", daemon=True).start()

    def _check(self, question: Question, answer: Any, attempt: int) -> None:
        try:
            verdict = question.check(answer, attempt)
        except Exception as error:  # noqa: BLE001 - the page must show it, whatever failed
            _log.exception("An answer to %s could not be checked", question.name)
            verdict = refusal((f"The check failed: {describe_error(error)}",), question.points)
        self._defer(lambda: self._learn(Answered(question.name, answer, attempt, verdict)))

    def _learn(self, answered: Answered) -> None:
        assert self._progress is not None, "a question was answered"
        counts = self._handing_in is None or self._handing_in.counts()
        self._progress.learn(answered, counts)
        if self._handing_in and counts:
            self._handing_in.hand_in(answered)

    def _verdict_state(self, attempts: Attempts) -> dict[str, Any] | None:
        verdict = attempts.verdict
        if verdict is None:
            return None
        is_stale = isinstance(attempts.of, Plan) and attempts.of != self._session.plan
        return verdict_state(verdict, attempts.count, is_stale=is_stale)


def verdict_state(verdict: Verdict, attempt: int, *, is_stale: bool = False) -> dict[str, Any]:
    """A verdict as the panel shows it: of this try, and `is_stale` where the plan has changed since."""
    return {
        "right": bool(verdict),
        "text": ("Right." if verdict else "Not yet:") + (" (of an earlier plan)" if is_stale else ""),
        "reasons": list(verdict.reasons),
        "hints": list(verdict.hints),
        "why": verdict.why if verdict else "",
        "score": f"{verdict.score:g} of {verdict.most:g}",
        "attempt": attempt,
    }


def _how(question: Question) -> str:
    """How it is answered here, where choices are clicked and not numbered."""
    if not isinstance(question, ChoiceQuestion):
        return question.how
    return "Choose all that apply." if question.is_several else "Choose one."
