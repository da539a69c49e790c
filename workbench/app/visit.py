"""One visitor's page: which plan it shows, and where that is saved. On a page of its own, or in a document tab of JupyterLab."""

import logging
from collections.abc import Callable
from typing import Any

import panel as pn
from bokeh.document import Document

from workbench.app.bridge import Bridge
from workbench.app.component import BoardComponent
from workbench.app.plan_file import PlanFile
from workbench.documents import dump_plan, parse_plan
from workbench.edits import OpenPlan
from workbench.errors import WorkbenchError
from workbench.plan import Plan
from workbench.session import Session
from workbench.widgets.host import Host
from workbench.widgets.runner import Runner

WATCHED = 1500  # milliseconds between two looks at a file

_log = logging.getLogger(__name__)


class Visit:
    """The board of one visitor, and the wire to the window around it. `root` is what the page shows."""

    def __init__(self, runner: Runner | None, document: Document | None) -> None:
        self._runner, self._document, self._theme = runner, document, "auto"
        self.bridge = Bridge(width=0, height=0, margin=0)
        self.bridge.param.watch(lambda event: self._hear(event.new), "heard")
        self.board: BoardComponent | None = None
        self._place = pn.Column(sizing_mode="stretch_width", margin=0)
        self.root = pn.Column(self.bridge, self._place, sizing_mode="stretch_width", margin=0)

    @property
    def title(self) -> str:
        """What the browser's tab says first."""
        return self.board.answering.session.plan.name if self.board else ""

    def show(self, plan: Plan, host: Host) -> None:
        """A board over a plan, in place of whatever was shown."""
        self.close()
        board = BoardComponent(
            Session(plan), runner=self._runner, document=self._document, host=host, theme=self._theme, sizing_mode="stretch_width"
        )
        self.board, self._place.objects = board, [board]
        self.bridge.param.update(notice={}, shown=self.bridge.shown + 1)

    def show_failure(self, error: Exception) -> None:
        """The error where the board would be."""
        self.close()
        self._place.objects = []
        notice = {"title": "This plan could not be opened", "text": failure_text(error), "choices": []}
        self.bridge.param.update(notice=notice, shown=self.bridge.shown + 1)

    def close(self) -> None:
        """Nobody watches any more."""
        if self.board:
            self.board.answering.close()
            self.board = None

    def _hear(self, message: dict[str, Any]) -> None:
        if message.get("theme") in ("light", "dark"):
            self._theme = message["theme"]
            if self.board:
                self.board.theme = self._theme
        if message.get("kind") == "save" and self.board:
            self.board.answering.answer({"verb": "save"})


class FileVisit(Visit):
    """A page opened with a file: it saves there, and notices when somebody else did."""

    def __init__(self, file: PlanFile, runner: Runner | None, document: Document | None, allow: tuple[str, ...] = ()) -> None:
        super().__init__(runner, document)
        self._file = file
        host = Host(save=self._save, path=file.name, link=address_of, changed=self._moved, allow=allow)
        self.show(file.read(), host)

    def look(self) -> None:
        """If the file was changed by others: shown at once where nothing unsaved would be lost, else asked."""
        if self.board is None or not self._file.changed_by_others():
            return
        if not self.bridge.unsaved:
            self._reread()
        else:
            self.bridge.notice = {
                "title": f"{self._file.name} was changed by somebody else",
                "text": "Your plan has changes that are not saved.",
                "choices": [["theirs", "Show theirs (yours stays in the history)"], ["mine", "Keep mine"]],
            }

    def _hear(self, message: dict[str, Any]) -> None:
        super()._hear(message)
        if message.get("kind") in ("theirs", "mine"):
            self.bridge.notice = {}
            if message["kind"] == "theirs":
                self._reread()

    def _reread(self) -> None:
        assert self.board is not None
        try:
            self.board.answering.session.apply(OpenPlan(self._file.read(), self._file.name))
        except WorkbenchError as error:
            self.bridge.notice = {"title": f"{self._file.name} was changed, and cannot be shown", "text": str(error), "choices": []}
        else:
            self.bridge.unsaved = False

    def _save(self, plan: Plan) -> str:
        place = self._file.save(plan)
        self.bridge.param.update(unsaved=False, notice={})
        return place

    def _moved(self, plan: Plan) -> None:
        self.bridge.unsaved = not self._file.holds(plan)


class LabVisit(Visit):
    """A document of JupyterLab, which keeps the text and writes the file: the page gets the text, and tells each change of it."""

    def __init__(self, make: Callable[[], Plan], runner: Runner | None, document: Document | None, allow: tuple[str, ...] = ()) -> None:
        super().__init__(runner, document)
        self._make, self._name, self._opening, self._allow = make, "", False, allow

    def _hear(self, message: dict[str, Any]) -> None:
        super()._hear(message)
        if message.get("kind") == "open":
            self._name = str(message.get("name", ""))[:300]
            try:
                self._open(str(message.get("text", "")))
            except Exception as error:  # noqa: BLE001 - the page must say so, whatever broke
                self._opening = False
                self.show_failure(error)

    def _open(self, text: str) -> None:
        """Show the plan of a text. An empty one is a new document, and gets a plan to begin with."""
        if self.board and text == dump_plan(self.board.answering.session.plan):
            return
        plan = parse_plan(text, f"`{self._name}`", self._allow) if text.strip() else self._make()
        self._opening = True
        if self.board:
            self.board.answering.session.apply(OpenPlan(plan, self._name))
        else:
            self.show(plan, Host(save=self._save, path=self._name, changed=self._tell, allow=self._allow))
        self._opening = False
        if text.strip():
            self.bridge.text = text  # as it stands: what a hand wrote is not changed by looking at it
        else:
            self.bridge.created = True
            self._tell(plan)
            self.bridge.created = False

    def _tell(self, plan: Plan) -> None:
        if not self._opening:
            self.bridge.text = dump_plan(plan)

    def _save(self, plan: Plan) -> str:
        self._tell(plan)
        self.bridge.saves += 1
        return self._name


def address_of(link: str) -> str:
    """The address of this page with the text of a link; the browser completes it."""
    return f"?plan={link}"


def failure_text(error: Exception) -> str:
    """What went wrong, in words; what is no `WorkbenchError` also goes to the log."""
    if isinstance(error, WorkbenchError):
        return str(error)
    _log.error("The page could not be made", exc_info=error)
    return f"{type(error).__name__}: {error}"
