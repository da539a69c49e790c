"""A visit of a document tab of JupyterLab, which keeps the text and writes the files; an exercise beside the document is over its board."""

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
    """A document of JupyterLab, which keeps the text and writes the file: the page gets the text, and sends each change of it."""

    def __init__(self, make: Callable[[], Plan], context: VisitContext, host: Host | None = None) -> None:
        super().__init__(context)
        self._make, self._name, self._opening, self._base = make, "", False, host or Host()
        self._exercise: DocumentExercise | None = None
        self._notice: dict[str, Any] = {}

    def show_failure(self, error: Exception, *, by_link: bool = False) -> None:
        """Show a notice above the document, which stays as it is."""
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
        """Show the plan of a text. An empty one is a new document, and gets a first plan."""
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
        """The exercise beside the document, if there is one; one that cannot be read is told of, and the board is shown without it."""
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
        """What a new document begins with: the plan that the exercise beside it starts from."""
        try:
            return self._exercise.first_plan(self._name) if self._exercise else self._make()
        except WorkbenchError:  # it asks for no plan
            return self._make()

    def _host(self, plan: Plan, *, is_new: bool) -> Host:
        """The host of the board over a plan: with the exercise beside it, if the plan is about that; else a new one begins with the start
        panel."""
        host = replace(self._base, save=self._save, path=self._name, changed=self._tell, link=None)
        beside = self._exercise
        question = beside.question_for(self._name, plan) if beside else None
        if beside is None or question is None:
            return replace(host, start_open=host.starts and is_new)
        host = replace(host, starts=False, start_open=False)
        return replace(host, exercise=beside.exercise, question=question, progress=beside.progress, handing_in=beside)

    def _tell_text(self, text: str, plan: Plan) -> None:
        """Viewing a text that a person wrote does not change it; a new document gets a text, and is saved at once."""
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


# The exercise beside a document of JupyterLab: `exercise.json` in the same folder, and `exercise.answers.json` with what was answered.
#
# The page of JupyterLab reads both files and writes the second one; nothing in either is run.


FILE, KEPT = "exercise.json", "exercise.answers.json"


class DocumentExercise:
    """The exercise over one document, and the `HandingIn` of its board: each answer is sent to `keep`, as a document of that answer alone.

    Raises `DocumentError` for an exercise that cannot be read. `problem` is why earlier answers cannot; then none is kept.
    """

    def __init__(self, text: str, kept: str, keep: Callable[[str], None]) -> None:
        self.exercise, self.problem, self._keep = Exercise.parse(text, f"`{FILE}`"), "", keep
        for each in self._plan_questions:
            _ = each.plan  # what is wrong with one is said now
        self.progress = ExerciseProgress(self.exercise)
        try:
            self._restore(parse_document(ANSWERS, kept, f"`{KEPT}`") if kept.strip() else {})
        except WorkbenchError as error:
            self.problem = f"{error.message} Answers are not saved until it can be read."

    def first_plan(self, name: str) -> Plan:
        """The plan that a new document begins with: of the question that it is named after, else of the first that asks for a plan."""
        named = self.question_of(name)
        return named.plan if named else self.exercise.first_plan

    def question_of(self, name: str) -> PlanQuestion | None:
        """The question that a document `QUESTION.plan.json` answers, as where it is graded."""
        stem = name.removesuffix(ENDING)
        return next((each for each in self._plan_questions if each.name == stem), None)

    def question_for(self, name: str, plan: Plan) -> str | None:
        """The question to show over a plan: by the document's name, else the first that it could answer; `None` where the plan is about
        something else that lies in the same folder."""
        if named := self.question_of(name):
            return named.name
        found = next((each.name for each in self._plan_questions if each.is_of(plan)), None)
        return found if self._plan_questions else ""

    @property
    def _plan_questions(self) -> list[PlanQuestion]:
        return [each for each in self.exercise.questions if isinstance(each, PlanQuestion)]

    def verify(self) -> None:
        """Whoever opens a document may answer."""

    def counts(self) -> bool:
        return True

    def hand_in(self, answered: Answered) -> None:
        """Keep an answer; a wrong one takes no right one's place."""
        name, is_done = answered.question, self.progress.attempts[answered.question].is_done
        record: dict[str, Any] = {"format": f"sharding-workbench.{ANSWERS}", "version": VERSION, "exercise": self.exercise.name}
        answer = answered.answer
        given = json.loads(dump_plan(answer)) if isinstance(answer, Plan) else answer
        record["answers"] = {name: given} if answered.verdict or not is_done else {}
        record["attempts"] = {name: answered.attempt}
        record["right"] = [name] if is_done else []
        if not self.problem:
            self._keep(json.dumps(record))

    def _restore(self, kept: Mapping[str, Any]) -> None:
        attempts, right = kept.get("attempts", {}), kept.get("right", ())
        self.progress.restore((each.name, attempts.get(each.name, 0), each.name in right) for each in self.exercise.questions)


def is_exercise(text: str) -> bool:
    """Whether a file `exercise.json` means to be one of ours; other programs have files of that name."""
    return f"sharding-workbench.{EXERCISE}" in text
