"""The history of a served board on disk, resumed after a lost connection, a crash or a restart."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from workbench.core.program import Program
from workbench.documents import parse_plan
from workbench.errors import WorkbenchError
from workbench.plan.plan import Plan
from workbench.session.journal import Journal, ResumedJournal, restore_session
from workbench.session.journal_folder import find_journal, journal_path
from workbench.session.plan_history import Session


@dataclass(frozen=True, slots=True)
class BoardHistory:
    """Storage of a board's history in `folder` as `board_id`, copied from `source` if that is stored."""

    folder: Path
    board_id: str
    source: str = ""
    allow: tuple[str, ...] = ()

    def begin(self, make: Callable[[], Plan]) -> ResumedJournal:
        """Restore the session, or start one over the plan of `make`, whose errors it raises."""
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
        # another page shows that board, so this one becomes a copy
        restored = restore_session(journal_path(self.folder, self.source), parse)
        return ResumedJournal(restored.session, Journal.begin(self.folder, self.board_id, restored.session), restored.problem)


def _program(make: Callable[[], Plan]) -> Program | None:
    try:
        return make().program
    except WorkbenchError:
        return None


def served_reference(make: Callable[[], Plan]) -> tuple[str, ...]:
    """Return the reference of the served program, which its history may name, since the server's owner built it."""
    with suppress(Exception):
        reference = make().program.reference
        if reference is not None and ":" in reference.target:
            return (reference.target,)
    return ()
