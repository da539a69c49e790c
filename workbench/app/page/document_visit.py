"""A visit of a document tab of JupyterLab, which keeps the text and writes the files; an exercise beside the document is over its board."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from workbench.app.page.document_exercise import FILE, DocumentExercise, is_exercise
from workbench.app.page.visit import Message, Visit, VisitContext, failure_text
from workbench.documents import dump_plan, parse_plan
from workbench.errors import WorkbenchError
from workbench.plan.edits import OpenPlan
from workbench.plan.plan import Plan
from workbench.widgets.board.board_host import Host


class LabVisit(Visit):
    """A document of JupyterLab, which keeps the text and writes the file: the page gets the text, and sends each change of it."""

    def __init__(self, make: Callable[[], Plan], context: VisitContext, allow: tuple[str, ...] = ()) -> None:
        super().__init__(context)
        self._make, self._name, self._opening, self._allow = make, "", False, allow
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
        plan = parse_plan(text, f"`{self._name}`", self._allow) if text.strip() else self._new_plan()
        self._tell_text(text, plan)  # before the board is shown: the visitor may save at once
        self._opening = True
        if self.board:
            self.board.session.apply(OpenPlan(plan, self._name))
        else:
            self.show(lambda: plan, self._host(plan))
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
            title = f"{FILE} beside this plan" if self._exercise is None else "Earlier answers"
            self._notice = {"title": title, "text": problem, "choices": [["dismiss", "All right"]]}

    def _new_plan(self) -> Plan:
        """What a new document begins with: the plan that the exercise beside it starts from."""
        try:
            return self._exercise.first_plan(self._name) if self._exercise else self._make()
        except WorkbenchError:  # it asks for no plan
            return self._make()

    def _host(self, plan: Plan) -> Host:
        """The host of the board over a plan: with the exercise beside it, if the plan is about that."""
        host = Host(save=self._save, path=self._name, changed=self._tell, allow=self._allow)
        beside = self._exercise
        question = beside.question_for(self._name, plan) if beside else None
        if beside is None or question is None:
            return host
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
