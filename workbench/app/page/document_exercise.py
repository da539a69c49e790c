"""The exercise beside a document of JupyterLab: `exercise.json` in the same folder, and `exercise.answers.json` with what was answered.

The page of JupyterLab reads both files and writes the second one; nothing in either is run.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from workbench.documents import dump_plan
from workbench.errors import WorkbenchError
from workbench.exercises import Exercise, PlanQuestion
from workbench.exercises.exercise_document import ANSWERS, EXERCISE, VERSION, parse_document
from workbench.plan.plan import Plan
from workbench.widgets.board.board_host import ENDING
from workbench.widgets.exercise.exercise_progress import Answered, ExerciseProgress

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
            self.problem = f"{error.message} What is answered here is not kept until it can be read."

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
