"""The history of a board on disk as it grows, so that it outlives its process: `Journal.begin`, and later `Journal.resume`.

A file is created when there is something to keep: an edit, a name, a pin. Each change is handed to the operating system before listeners
that were added to the session after the journal are called, so that a crash of the process loses nothing that was answered: begin a journal
before a board. It is synced to the disk a second later, so that a power failure loses that second at most.
"""

import os
import shutil
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from workbench.documents.plan_documents import parse_plan
from workbench.errors import DocumentError, WorkbenchError
from workbench.plan.plan import Plan
from workbench.reports.report import Report
from workbench.session.journal.journal_content import EMPTY_HISTORY, History, Parse, record_between, share_programs
from workbench.session.journal.journal_folder import MOST_BYTES, journal_path, new_board_id, no_journal_error, open_locked, read_lines
from workbench.session.journal.journal_lines import is_torn, line_bytes
from workbench.session.plan_history import Session

FORMAT, VERSION = "sharding-workbench.journal", 1
SYNC_DELAY = 1.0
"""Seconds after which a change is synced to the disk at the latest."""


@dataclass(frozen=True, slots=True)
class RestoredJournal:
    """The content of a journal: the restored session; what could not be read, in words, or nothing; and the valid part of the file.

    `is_whole` if everything could be read.
    """

    session: Session
    problem: str
    is_whole: bool
    chain: int
    end: int


@dataclass(frozen=True, slots=True)
class ResumedJournal:
    """A resumed session and its journal, which is a copy if another process holds the requested one.

    `problem` says in words what could not be read, or is empty.
    """

    session: Session
    journal: "Journal"
    problem: str


class Journal:
    """Keeps the history of one session in one file.

    It never raises into the session: what cannot be kept (a program without a reference, a full disk) is described in `problem`, which is
    empty while all is kept, and is tried again with the next change.
    """

    def __init__(self, folder: Path, board_id: str, session: Session) -> None:
        self.board_id, self.problem = board_id, ""
        self._path, self._session = journal_path(folder, board_id), session
        self._file: int | None = None
        self._is_closed = False
        self._written, self._chain, self._end = EMPTY_HISTORY, 0, 0
        self._lock, self._disk = threading.Lock(), threading.RLock()  # taken in the opposite order; no edit waits for the disk
        self._syncing: threading.Timer | None = None
        self._stop_listening = session.listen(self._on_change)

    @classmethod
    def begin(cls, folder: Path, board_id: str, session: Session) -> "Journal":
        """Begin the journal of a session that has none yet. Raises `DocumentError` for a malformed board id."""
        journal = cls(folder, board_id, session)
        journal.write()
        return journal

    @classmethod
    def resume(cls, folder: Path, board_id: str, parse: Parse = parse_plan) -> ResumedJournal:
        """Resume a board; `parse` reads plan documents, and may refuse some.

        Raises `DocumentError` if there is no such journal or nothing in it can be read, and the errors of `parse` for its first plan.
        """
        path = journal_path(folder, board_id)
        try:
            file = open_locked(path)
        except FileNotFoundError:
            raise no_journal_error(board_id) from None
        except OSError:  # in a read-only folder the journal is read but not written
            file = None
        try:
            restored = restore_session(path, parse)
        except BaseException:
            if file is not None:
                os.close(file)
            raise
        if file is None:
            return ResumedJournal(restored.session, cls.fork(folder, restored.session), restored.problem)
        journal = cls(folder, board_id, restored.session)
        journal._continue_file(file, restored)
        return ResumedJournal(restored.session, journal, restored.problem)

    @classmethod
    def fork(cls, folder: Path, session: Session) -> "Journal":
        """A journal under a new id, with all of a session's history."""
        return cls.begin(folder, new_board_id(), session)

    def write(self) -> None:
        """Write what is new; what cannot be kept is described in `problem`."""
        with self._lock:
            try:
                self._append(History.from_session(self._session))
            except DocumentError as error:
                self.problem = f"The history of this board is not kept. {error.message}"
            except OSError as error:
                self.problem = f"The history of this board is not kept: `{self._path.parent}` cannot be written: {error.strerror or error}."
            else:
                self.problem = ""

    def sync(self) -> None:
        """Sync to the disk what was written."""
        with self._disk:
            with self._lock:
                timer, self._syncing = self._syncing, None
            if timer is not None:
                timer.cancel()
            if self._file is not None:
                with suppress(OSError):  # a file system that cannot sync
                    os.fsync(self._file)

    def close(self) -> None:
        """Close the file, synced; another process may then have the board."""
        self._stop_listening()
        with self._disk:
            self.sync()
            with self._lock:
                if self._file is not None:
                    os.close(self._file)
                self._file, self._is_closed = None, True

    def _on_change(self, _plan: Plan, _report: Report) -> None:
        self.write()

    def _append(self, history: History) -> None:
        record = record_between(self._written, history)
        if self._is_closed or not record or (self._file is None and not _is_worth_keeping(history)):
            return
        lines, chain = b"", self._chain
        for each in (record,) if self._end else ({"format": FORMAT, "version": VERSION}, record):
            line, chain = line_bytes(each, chain)
            lines += line
        if self._end + len(lines) > MOST_BYTES:
            raise DocumentError(f"It has grown to {self._end:,} bytes, and at most {MOST_BYTES:,} are kept of one board.")
        if self._file is None:
            self._file = _create_file(self._path)
        _write_whole(self._file, lines, self._end)
        self._written, self._chain, self._end = history, chain, self._end + len(lines)
        self._sync_soon()

    def _continue_file(self, file: int, restored: RestoredJournal) -> None:
        """Continue a file after its valid part; if more than an incomplete line follows that, it is saved in another file."""
        self._file, self._chain, self._end = file, restored.chain, restored.end
        self._written = History.from_session(self._session)
        with suppress(OSError):
            if not restored.is_whole:
                shutil.copyfile(self._path, self._path.with_suffix(".damaged"))
                self._path.with_suffix(".damaged").chmod(0o600)
            os.ftruncate(file, restored.end)

    def _sync_soon(self) -> None:
        if self._syncing is None:
            self._syncing = threading.Timer(SYNC_DELAY, self.sync)
            self._syncing.daemon = True
            self._syncing.start()


def restore_session(path: Path, parse: Parse = parse_plan) -> RestoredJournal:
    """The session of a journal, up to the first line that is damaged or names a plan that cannot be read any more.

    Only the present plan is analysed. Raises `DocumentError` if there is nothing in it, and the errors of `parse` for its first plan.
    """
    try:
        content, lines = read_lines(path)
    except OSError as error:
        raise DocumentError(f"`{path}` cannot be read: {error.strerror or error}.", ["begin a new board"]) from None
    if len(lines) < 2:
        raise DocumentError(f"There is nothing in `{path}` that could be restored: it is damaged from its start.", ["begin a new board"])
    _verify_version(lines[0].record, path)
    parse_shared = share_programs(parse)
    history, last, problem = EMPTY_HISTORY, lines[0], ""
    for line in lines[1:]:
        try:
            history, last = history.with_record(line.record, parse_shared), line
        except WorkbenchError as error:
            if not history.nodes:
                raise
            problem = f"A later plan cannot be read any more: {error.message}"
            break
        except (LookupError, TypeError, ValueError, AttributeError):
            problem = "A line of it is damaged."
            break
    is_whole = not problem and is_torn(content, lines)
    if not is_whole:
        count = f"the first {len(history.nodes)} plans" if len(history.nodes) > 1 else "the first plan"
        problem = f"Of the history of this board, {count} could be restored. {problem or 'What follows in its file is damaged.'}"
    return RestoredJournal(history.session(), problem, is_whole, last.chain, last.end)


def _verify_version(header: Mapping[str, object], path: Path) -> None:
    if header.get("format") != FORMAT or header.get("version") != VERSION:
        raise DocumentError(f"`{path}` was written by another version of the workbench.", ["begin a new board", "take that version"])


def _is_worth_keeping(history: History) -> bool:
    """Whether there is more than the plan that everybody begins with."""
    return len(history.nodes) > 1 or bool(history.nodes[0].name) or history.nodes[0].pinned


def _create_file(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = open_locked(path, create=True)
    if file is None:
        raise FileExistsError(None, "another process has this board")
    with suppress(OSError):
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    return file


def _write_whole(file: int, content: bytes, end: int) -> None:
    """Append all of the bytes, or none."""
    written = 0
    try:
        while written < len(content):
            written += os.write(file, content[written:])
    except OSError:
        with suppress(OSError):
            os.ftruncate(file, end)
        raise
