"""Visits of JupyterLab document tabs, which keep the text and write the files, and of exercises beside a document."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from workbench.app.page.visit import Message, Visit, VisitContext, failure_text
from workbench.documents import dump_plan, parse_plan
from workbench.errors import WorkbenchError
from workbench.exercises import Exercise, PlanQuestion
from workbench.exercises.exercise import ANSWERS, EXERCISE, VERSION, parse_document
from workbench.plan.edits import OpenPlan
from workbench.plan.plan import Plan
from workbench.widgets.board.board_host import ENDING, Host
from workbench.widgets.exercise.exercise_progress import Answered, ExerciseProgress


class LabVisit(Visit):
    """A JupyterLab document: the page gets the plan's text and each change of it, and writes the file."""

    def __init__(self, make: Callable[[], Plan], context: VisitContext, host: Host | None = None) -> None:
        super().__init__(context)
        self._make, self._name, self._opening, self._base = make, "", False, host or Host()
        self._exercise: DocumentExercise | None = None
        self._notice: dict[str, Any] = {}

    def show_failure(self, error: Exception, *, by_link: bool = False) -> None:
        """Show a notice above the document, which is not changed."""
        del by_link
        self.close()
        self.window.show_board(closed=True)
        self.window.tell(notice={"title": "This plan could not be opened", "text": failure_text(error), "choices": []})
        self.window.count("shown")

    def _hear(self, message: Message) -> None:
        super()._hear(message)
        if message.get("kind") == "open":
            self._name = str(message.get("name", ""))[:300]
            try:
                if self.board is None:
                    self._read_exercise(str(message.get("exercise", "")), str(message.get("answers", "")))
                self._open(str(message.get("text", "")))
            except Exception as error:  # noqa: BLE001 - the page must show it, whatever failed
                self._opening = False
                self.show_failure(error)

    def _open(self, text: str) -> None:
        """Show the plan of a text; an empty text is a new document and gets a first plan."""
        if self.board and text == dump_plan(self.board.session.plan):
            return
        plan = parse_plan(text, f"`{self._name}`", self._base.allow) if text.strip() else self._new_plan()
        self._tell_text(text, plan)  # before the board is shown: the visitor may save at once
        self._opening = True
        if self.board:
            self.board.session.apply(OpenPlan(plan, self._name))
        else:
            self.show(lambda: plan, self._host(plan, is_new=not text.strip()))
            if self._notice:
                self.window.tell(notice=self._notice)
        self._opening = False

    def _read_exercise(self, text: str, kept: str) -> None:
        self._exercise, self._notice = None, {}
        if not is_exercise(text):
            return
        try:
            self._exercise = DocumentExercise(text, kept, lambda record: self.window.tell(answers=record))
            problem = self._exercise.problem
        except WorkbenchError as error:
            problem = failure_text(error)
        if problem:
            title = f"{FILE} next to this plan" if self._exercise is None else "Earlier answers"
            self._notice = {"title": title, "text": problem, "choices": [["dismiss", "All right"]]}

    def _new_plan(self) -> Plan:
        try:
            return self._exercise.first_plan(self._name) if self._exercise else self._make()
        except WorkbenchError:  # the exercise has no plan question
            return self._make()

    def _host(self, plan: Plan, *, is_new: bool) -> Host:
        """Return the host of a plan's board, with the exercise if the plan belongs to it."""
        host = replace(self._base, save=self._save, path=self._name, changed=self._tell, link=None)
        beside = self._exercise
        question = beside.question_for(self._name, plan) if beside else None
        if beside is None or question is None:
            return replace(host, start_open=host.starts and is_new)
        host = replace(host, starts=False, start_open=False)
        return replace(host, exercise=beside.exercise, question=question, progress=beside.progress, handing_in=beside)

    def _tell_text(self, text: str, plan: Plan) -> None:
        """Send the text: an existing document keeps its text when viewed, a new one gets a text and is saved at once."""
        if text.strip():
            self.window.tell(text=text)
        else:
            self.window.tell(created=True)
            self.window.tell(text=dump_plan(plan))
            self.window.tell(created=False)

    def _tell(self, plan: Plan) -> None:
        if not self._opening:
            self.window.tell(text=dump_plan(plan))

    def _save(self, plan: Plan) -> str:
        self._tell(plan)
        self.window.count("saves")
        return self._name


# The exercise beside a JupyterLab document: `exercise.json` in the same folder, and `exercise.answers.json` with the answers.
#
# The JupyterLab page reads both files and writes the second; no code in either is run.


FILE, KEPT = "exercise.json", "exercise.answers.json"


class DocumentExercise:
    """The exercise over one document; each answer is sent to `keep`. Raises `DocumentError`.

    `problem` explains unreadable earlier answers; then no answer is kept.
    """

    def __init__(self, text: str, kept: str, keep: Callable[[str], None]) -> None:
        self.exercise, self.problem, self._keep = Exercise.parse(text, f"`{FILE}`"), "", keep
        for question in self._plan_questions:
            _ = question.plan  # report an invalid plan now
        self.progress = ExerciseProgress(self.exercise)
        try:
            self._restore(parse_document(ANSWERS, kept, f"`{KEPT}`") if kept.strip() else {})
        except WorkbenchError as error:
            self.problem = f"{error.message} Answers are not saved until it can be read."

    def first_plan(self, name: str) -> Plan:
        """Return the plan of a new document: of the question in its name, else of the first plan question."""
        named = self.question_of(name)
        return named.plan if named else self.exercise.first_plan

    def question_of(self, name: str) -> PlanQuestion | None:
        """Return the question that a document `QUESTION.plan.json` answers, as in grading."""
        stem = name.removesuffix(ENDING)
        return next((question for question in self._plan_questions if question.name == stem), None)

    def question_for(self, name: str, plan: Plan) -> str | None:
        """Return the question to show with a plan, by document name or content; `None` if unrelated."""
        if named := self.question_of(name):
            return named.name
        first = next((question.name for question in self._plan_questions if question.is_of(plan)), None)
        return first if self._plan_questions else ""

    @property
    def _plan_questions(self) -> list[PlanQuestion]:
        return [question for question in self.exercise.questions if isinstance(question, PlanQuestion)]

    def verify(self) -> None:
        """Accept every user who can open the document."""

    def counts(self) -> bool:
        return True

    def hand_in(self, answered: Answered) -> None:
        """Keep an answer; a wrong answer does not replace a correct one."""
        name, is_done = answered.question, self.progress.attempts[answered.question].is_done
        record: dict[str, Any] = {"format": f"sharding-workbench.{ANSWERS}", "version": VERSION, "exercise": self.exercise.name}
        answer = answered.answer
        answer_value = json.loads(dump_plan(answer)) if isinstance(answer, Plan) else answer
        record["answers"] = {name: answer_value} if answered.verdict or not is_done else {}
        record["attempts"] = {name: answered.attempt}
        record["right"] = [name] if is_done else []
        if not self.problem:
            self._keep(json.dumps(record))

    def _restore(self, kept: Mapping[str, Any]) -> None:
        attempts, right = kept.get("attempts", {}), kept.get("right", ())
        self.progress.restore(
            (question.name, attempts.get(question.name, 0), question.name in right) for question in self.exercise.questions
        )


def is_exercise(text: str) -> bool:
    """Whether a file `exercise.json` has our format; other programs use that name too."""
    return f"sharding-workbench.{EXERCISE}" in text
