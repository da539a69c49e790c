"""One visitor's board: the plan that it shows and where it is saved."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from time import time
from typing import Any, NamedTuple

from workbench.app.page.part_changes import SentParts, VisitorWindow
from workbench.app.page.served_board_history import BoardHistory
from workbench.app.page.watched_plan_file import PlanFile
from workbench.core.public_error_text import describe_error, strip_folders
from workbench.errors import WorkbenchError
from workbench.plan.edits import OpenPlan
from workbench.plan.plan import Plan
from workbench.session.figure_tiers import Partitioner
from workbench.session.journal import Journal
from workbench.session.journal_folder import JournalEntry, find_journal, is_board_id
from workbench.session.plan_history import Session
from workbench.widgets.board.board import Board
from workbench.widgets.board.board_host import Host
from workbench.widgets.run.runner_protocol import Runner
from workbench.widgets.shared_states import Defer

WATCHED = 1500  # milliseconds between two checks of a file

_log = logging.getLogger(__name__)

Message = Mapping[str, Any]
"""A page's message: `{"gesture": {...}}` to the board, or `{"heard": {"kind": ...}}` from the window around it."""


class Settling(NamedTuple):
    """The partitioner client of a board, and further arguments of `Board.begin_settling`."""

    partitioner: Partitioner
    defer: Defer
    is_idle: Callable[[], bool] = lambda: True


class VisitContext(NamedTuple):
    """Surroundings of a visit: its window, the runner, the event loop, history storage, and settling."""

    window: VisitorWindow
    runner: Runner | None
    defer: Defer
    keeping: BoardHistory | None = None
    settling: Settling | None = None


class Visit:
    """The board of one visitor, and the messages to its window."""

    def __init__(self, context: VisitContext) -> None:
        self.window, self._runner, self._defer, self._keeping, self._settling = context
        self.board: Board | None = None
        self._journal: Journal | None = None
        self._sent = SentParts()
        self._first: dict[str, Any] | None = None  # parts of a board under construction, shown together

    def show(self, make: Callable[[], Plan], host: Host, *, tour: bool = False) -> None:
        """Replace the present board by one over the plan of `make`, or over the stored history."""
        self.close()
        session, problem = self._begin(make)
        host = replace(host, start_open=host.start_open and len(session.nodes) == 1)  # a resumed board needs no start panel
        if host.save is None:
            unsaved = Unsaved(session.nodes[0].plan, lambda is_so: self.window.tell(unsaved=is_so))
            host = replace(host, changed=unsaved.note_change, downloaded=unsaved.note_kept)
            unsaved.note_change(session.plan)
        self._first = {}
        self.board = Board(session, self._publish, runner=self._runner, defer=self._defer, host=host)
        if self._settling:
            self.board.begin_settling(*self._settling)
            if host.runs:
                self.board.begin_compiling(self._settling.defer)
        first, self._first = self._first, None
        self.window.show_board(new=True, tour=tour, **first)
        notice = {"title": "Not all of this board could be restored", "text": problem, "choices": [["dismiss", "All right"]]}
        self.window.tell(notice=notice if problem else {}, failure={}, title=session.plan.name)
        self.window.count("shown")

    def _begin(self, make: Callable[[], Plan]) -> tuple[Session, str]:
        if self._keeping is None:
            return Session(make()), ""
        begun = self._keeping.begin(make)
        self._journal = begun.journal
        self.window.tell(board=self._journal.board_id, board_name=begun.session.plan.name)
        return begun.session, begun.problem

    def show_failure(self, error: Exception, *, by_link: bool = False) -> None:
        """Show the error in place of the board; `by_link` if a link led here."""
        self.close()
        self.window.show_board(closed=True)
        self.window.tell(failure={"text": failure_text(error), "by_link": by_link})
        self.window.count("shown")

    def close(self) -> None:
        if self.board:
            self.board.close()
            self.board = None
        if self._journal:
            self._journal.close()
            self._journal = None

    def hear(self, message: Message) -> None:
        if "heard" in message:
            self._hear(message["heard"])
        elif self.board and "gesture" in message:
            self.board.answer(message["gesture"])

    def look(self) -> None:
        """Run periodic checks, every `WATCHED` milliseconds."""

    def show_again(self) -> None:
        """Send everything to a newly connected page."""
        if self.board:
            self._first = {}
            self.board.answer({"verb": "refresh"})
            first, self._first = self._first, None
            self.window.show_board(new=True, tour=False, **first)
        self.window.tell_again()

    def _publish(self, part: str, state: dict[str, Any]) -> None:
        if self._first is not None:
            self._first[part] = self._sent.begin(part, state)
        elif parameters := self._sent.next(part, state):
            self.window.show_board(**parameters)

    def _hear(self, message: Message) -> None:
        if message.get("kind") == "save" and self.board:
            self.board.answer({"verb": "save"})
        elif message.get("kind") == "boards" and self._keeping:
            self._offer_boards(message)
        elif message.get("kind") in ("dismiss", "later"):
            self.window.tell(notice={})

    def _offer_boards(self, message: Message) -> None:
        """Offer boards that this browser remembers, in the start panel or in a notice on a new page."""
        assert self._keeping is not None  # it stores them
        entries = (find_journal(self._keeping.folder, board_id) for board_id in parse_board_ids(message))
        boards = recent_boards(entry for entry in entries if entry and entry.board_id != self._keeping.board_id)
        in_panel = self.board is not None and self.board.offer_recent(boards)
        if message.get("offer") and not in_panel:
            self.window.tell(notice=offer_boards(boards))


class FileVisit(Visit):
    """A page over a file: saves to it, and detects changes by others."""

    def __init__(self, file: PlanFile, context: VisitContext, host: Host) -> None:
        super().__init__(context)
        self._file = file
        on_disk = file.read()
        self.show(lambda: on_disk, replace(host, save=self._save, path=file.name, changed=self._tell_unsaved))
        if self.board:
            self._tell_unsaved(self.board.session.plan)  # the stored history may be newer than the file

    def look(self) -> None:
        """Show a changed file at once if no unsaved edits would be lost, else ask."""
        if self.board is None or not self._file.changed_by_others():
            return
        if not self.window.bridge["unsaved"]:
            self._reread()
        else:
            self.window.tell(
                notice={
                    "title": f"{self._file.name} was changed by another person",
                    "text": "Your plan has changes that are not saved.",
                    "choices": [["theirs", "Show theirs (yours stays in the history)"], ["mine", "Keep mine"]],
                }
            )

    def _hear(self, message: Message) -> None:
        super()._hear(message)
        if message.get("kind") in ("theirs", "mine"):
            self.window.tell(notice={})
            if message["kind"] == "theirs":
                self._reread()

    def _reread(self) -> None:
        assert self.board is not None
        try:
            self.board.session.apply(OpenPlan(self._file.read(), self._file.name))
        except WorkbenchError as error:
            self.window.tell(notice={"title": f"{self._file.name} was changed, and cannot be shown", "text": str(error), "choices": []})
        else:
            self.window.tell(unsaved=False)

    def _save(self, plan: Plan) -> str:
        place = self._file.save(plan)
        self.window.tell(unsaved=False, notice={})
        return place

    def _tell_unsaved(self, plan: Plan) -> None:
        self.window.tell(unsaved=not self._file.holds(plan))


def failure_text(error: Exception) -> str:
    """Describe an error; any error but a `WorkbenchError` is also logged."""
    if isinstance(error, WorkbenchError):
        return strip_folders(str(error))
    _log.error("The page could not be created", exc_info=error)
    return describe_error(error)


class Unsaved:
    """Tracks whether a board without a file has changed since it was last opened or downloaded."""

    def __init__(self, plan: Plan, tell: Callable[[bool], None]) -> None:
        self._saved_plan, self._tell = plan, tell

    def note_change(self, plan: Plan) -> None:
        self._tell(plan != self._saved_plan)

    def note_kept(self, plan: Plan) -> None:
        self._saved_plan = plan
        self._tell(False)


# Earlier boards, offered on a newly opened page.

MOST_OFFERED = 3
MOST_REMEMBERED = 10
_LONGEST = 60  # characters of a name or an edit
_SPANS = (("day", 86_400), ("hour", 3_600), ("minute", 60))


def parse_board_ids(message: Mapping[str, Any]) -> list[str]:
    ids = message.get("ids")
    return (
        [board_id for board_id in ids[:MOST_REMEMBERED] if isinstance(board_id, str) and is_board_id(board_id)]
        if isinstance(ids, list)
        else []
    )


def recent_boards(entries: Iterable[JournalEntry], now: float | None = None) -> list[Mapping[str, str]]:
    """List boards by label and URL, the last changed first."""
    now = time() if now is None else now
    newest = sorted(entries, key=lambda entry: entry.last_changed, reverse=True)[:MOST_OFFERED]
    return [{"label": _label(journal, now), "link": f"?board={journal.board_id}"} for journal in newest]


def offer_boards(boards: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """Build a notice that offers boards by URL; empty without boards."""
    if not boards:
        return {}
    return {
        "title": "Resume a board?" if len(boards) == 1 else "Resume one of your boards?",
        "text": "Its plans and undo history are kept." if len(boards) == 1 else "Their plans and undo history are kept.",
        "choices": [*([f"board-{number}", board["label"], board["link"]] for number, board in enumerate(boards)), ["later", "Not now"]],
    }


def _label(entry: JournalEntry, now: float) -> str:
    """
    >>> _label(JournalEntry("a-board", "gpt", 3, "d_ff → model", 1000.0), 1130.0)
    'gpt · 3 plans · last d_ff → model · 2 minutes ago'
    """
    last = f" · last {_shorten(entry.edit)}" if entry.edit else ""
    plans = f"{entry.plans} plan{'s' * (entry.plans != 1)}"
    return f"{_shorten(entry.name)} · {plans}{last} · {_ago_text(now - entry.last_changed)}"


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _ago_text(seconds: float) -> str:
    """
    >>> _ago_text(5), _ago_text(60), _ago_text(2 * 86_400)
    ('just now', '1 minute ago', '2 days ago')
    """
    name, count = next(((name, int(seconds // span)) for name, span in _SPANS if seconds >= span), ("", 0))
    return f"{count} {name}{'s' * (count != 1)} ago" if count else "just now"
