"""The history of a served board on disk: begun with the board, and resumed after a lost connection, a crash or a restart."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from workbench.core.program import Program
from workbench.documents import parse_plan
from workbench.errors import WorkbenchError
from workbench.plan.plan import Plan
from workbench.session.journal import Journal, ResumedJournal, find_journal, restore_session
from workbench.session.journal.journal_folder import journal_path
from workbench.session.plan_history import Session


@dataclass(frozen=True, slots=True)
class BoardHistory:
    """Where a board's history is stored: in `folder`, as `board_id`. It begins as a copy of the board `source`, if that is stored there.

    `allow` are modules and functions whose programs its plans may name (`documents.read_allowed`).
    """

    folder: Path
    board_id: str
    source: str = ""
    allow: tuple[str, ...] = ()

    def begin(self, make: Callable[[], Plan]) -> ResumedJournal:
        """The restored session, or a new one over the plan that `make` returns; errors are those of `make`."""
        problem = ""
        if self.source and find_journal(self.folder, self.source):
            try:
                return self._resume(make)
            except WorkbenchError as error:
                problem = str(error)
        elif self.source and self.source != self.board_id:
            problem = "The board that the address names is not stored here: it was never edited, or it has expired."
        session = Session(make())
        return ResumedJournal(session, Journal.begin(self.folder, self.board_id, session), problem)

    def _resume(self, make: Callable[[], Plan]) -> ResumedJournal:
        parse = partial(parse_plan, name="The history of this board", allow=self.allow, known=_program(make))
        if self.source == self.board_id:
            return Journal.resume(self.folder, self.board_id, parse)
        # another page shows that board: this one is a copy from now on
        restored = restore_session(journal_path(self.folder, self.source), parse)
        return ResumedJournal(restored.session, Journal.begin(self.folder, self.board_id, restored.session), restored.problem)


def _program(make: Callable[[], Plan]) -> Program | None:
    """The program of the first plan, if it can be made."""
    try:
        return make().program
    except WorkbenchError:
        return None


def served_program(make: Callable[[], Plan]) -> tuple[str, ...]:
    """The served program was built by the person who serves it: its history may name it too."""
    with suppress(Exception):
        reference = make().program.reference
        if reference is not None and ":" in reference.target:
            return (reference.target,)
    return ()
