"""The exercise panel: goals are checked while the plan changes; an answer is checked with variants and earns hints."""

import logging
import threading
from collections.abc import Callable
from itertools import groupby
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
from workbench.widgets.gestures.gesture import Handlers, handlers_of, on
from workbench.widgets.gestures.panel_gestures import AnswerGesture, QuestionGesture, StartQuestionGesture
from workbench.widgets.shared_states import Defer

_log = logging.getLogger(__name__)


class ExercisePanel:
    """One exercise on one board. `defer` moves work to the board's thread, `show()` publishes the panel."""

    def __init__(self, session: Session, host: Host, defer: Defer, show: Callable[[], None]) -> None:
        """Raises `DocumentError` if the exercise has no such question."""
        exercise = host.exercise
        self._session, self._exercise, self._defer, self._handing_in = session, exercise, defer, host.handing_in
        self._progress = host.progress or (ExerciseProgress(exercise) if exercise else None)
        self._name = "" if exercise is None else exercise[host.question].name if host.question else exercise.questions[0].name
        self.close = self._progress.listen(show) if self._progress else lambda: None
        self._lesson = host.lesson

    def handlers(self) -> Handlers:
        """Gesture handlers; they raise `WorkbenchError` without an exercise or for an unknown question."""
        return handlers_of(on(QuestionGesture, self._choose), on(StartQuestionGesture, self._start), on(AnswerGesture, self._answer))

    def state(self) -> dict[str, Any] | None:
        """Return the current question as JSON; `None` without an exercise."""
        if self._exercise is None or self._progress is None:
            return None
        question, tried = self._question, self._progress.attempts
        attempts = tried[self._name]
        about, goals = self._progress.ticks(question, self._session.report) if isinstance(question, PlanQuestion) else ("", [])
        return {
            "title": self._exercise.title,
            "questions": [
                {"name": entry.name, "label": f"{number}", "open": entry is question, "done": tried[entry.name].is_done}
                for number, entry in enumerate(self._exercise.questions, 1)
            ],
            "name": question.name,
            "kind": kind_of(question),
            "ask": question.ask,
            "how": _how(question),
            "goals": goals,
            "about": about,
            "choices": [entry.text for entry in question.choices] if isinstance(question, ChoiceQuestion) else [],
            "several": isinstance(question, ChoiceQuestion) and question.is_several,
            "checking": self._progress.checking == self._name,
            "verdict": self._verdict_state(attempts),
            "points": question.points,
            "predicting": self._is_theirs and any(not tried[each.name].is_done for each in self._predictions()),
            "next": self._next() if attempts.is_done else None,
        }

    def _predictions(self) -> list[Question]:
        """The current question and those beside it that ask for a prediction; the figures of one would answer the others."""
        assert self._exercise is not None, "a question was answered"
        runs = (list(run) for asks_plan, run in groupby(self._exercise.questions, _asks_plan) if not asks_plan)
        return next((run for run in runs if self._question in run), [])

    def _next(self) -> dict[str, str] | None:
        """The next question without a right answer, else the next lesson; `None` where neither is left."""
        assert self._exercise is not None, "a question was answered"
        assert self._progress is not None, "a question was answered"
        names = [each.name for each in self._exercise.questions]
        place = names.index(self._name) + 1
        left = (each for each in names[place:] + names[:place] if not self._progress.attempts[each].is_done)
        if question := next(left, ""):
            return {"label": f"Next: question {names.index(question) + 1}", "question": question, "link": ""}
        lesson = self._lesson and self._lesson.state()["next"]
        return {"label": f"Next lesson: {lesson['title']}", "question": "", "link": lesson["link"]} if lesson else None

    @property
    def _is_theirs(self) -> bool:
        """Whether the person answers for themselves: who looks over a shoulder sees everything, and leaves the board as it is."""
        return self._handing_in is None or self._handing_in.counts()

    @property
    def is_asking(self) -> bool:
        """Whether an unsolved question asks for a plan, so that fixes of a plan are hidden."""
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
        if self._is_theirs and isinstance(self._question, PlanQuestion) and not self._question.is_of(self._session.plan):
            self._start(StartQuestionGesture())

    def _start(self, _gesture: StartQuestionGesture) -> None:
        question = self._question
        if not isinstance(question, PlanQuestion):
            raise WorkbenchError("This question does not start from a plan.", ["answer it in the field"])
        if question.plan != self._session.plan:
            self._session.apply(OpenPlan(question.plan, f"question {question.name}"))

    def _answer(self, gesture: AnswerGesture) -> None:
        """Check an answer in a thread, since variants are planned anew and a goal may query XLA's partitioner."""
        question, progress = self._question, self._progress
        assert progress is not None, "there is a question"
        if progress.checking:
            raise WorkbenchError("An answer is already being checked.", ["wait a moment"])
        if not isinstance(question, PlanQuestion) and not gesture.answer.strip():
            raise WorkbenchError("There is no answer yet.", ["choose one" if kind_of(question) == "choice" else "type one"])
        if not isinstance(question, PlanQuestion):
            question.read(gesture.answer)  # what is no number or choice is refused, and is no attempt
        if self._handing_in:
            self._handing_in.verify()
        answer = self._session.plan if isinstance(question, PlanQuestion) else gesture.answer
        tried = progress.attempts[question.name]
        if self._handing_in and self._handing_in.counts() and answer == tried.counted == tried.of:  # in a class hints must be earned
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
        self._progress.learn(answered, self._is_theirs)
        if self._handing_in and self._is_theirs:
            self._handing_in.hand_in(answered)

    def _verdict_state(self, attempts: Attempts) -> dict[str, Any] | None:
        verdict = attempts.verdict
        if verdict is None:
            return None
        is_stale = isinstance(attempts.of, Plan) and attempts.of != self._session.plan
        return verdict_state(verdict, attempts.count, is_stale=is_stale, was_right=attempts.is_done)


def verdict_state(verdict: Verdict, attempt: int, *, is_stale: bool = False, was_right: bool = False) -> dict[str, Any]:
    """Return a verdict as JSON; `is_stale` if the plan has changed since, `was_right` if this or an earlier answer was."""
    wrong = "Your earlier answer was right; this one is not:" if was_right else "Not yet:"
    return {
        "right": bool(verdict),
        "text": ("Right." if verdict else wrong) + (" (of an earlier plan)" if is_stale else ""),
        "reasons": list(verdict.reasons),
        "hints": list(verdict.hints),
        "why": verdict.why if verdict else "",
        "score": f"{verdict.score:g} of {verdict.most:g}" if verdict.most != 1 else "",  # else the text says as much
        "attempt": attempt,
    }


def _asks_plan(question: Question) -> bool:
    return isinstance(question, PlanQuestion)


def _how(question: Question) -> str:
    if not isinstance(question, ChoiceQuestion):
        return question.how
    return "Choose all that apply." if question.is_several else "Choose one."
