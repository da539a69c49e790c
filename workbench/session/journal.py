"""Save the history of a board continuously: `Journal.begin`, and later `Journal.resume`.

A file is created with the first edit, name or pin. Each change is passed to the operating system before listeners added
after the journal are called, so a process crash loses no acknowledged change: begin a journal before a board. It is
synced to disk within a second, so a power failure loses at most that.
"""

import os
import shutil
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from workbench.documents.durable_files import sync_folder
from workbench.documents.plan_documents import parse_plan
from workbench.errors import DocumentError, WorkbenchError
from workbench.plan.plan import Plan
from workbench.reports.report import Report
from workbench.session.journal_content import EMPTY_HISTORY, History, Parse, record_between, share_programs
from workbench.session.journal_folder import MOST_BYTES, journal_path, new_board_id, no_journal_error, open_locked, read_lines
from workbench.session.journal_lines import is_torn, line_bytes
from workbench.session.plan_history import Session

FORMAT, VERSION = "sharding-workbench.journal", 1
SYNC_DELAY = 1.0
"""Maximum seconds until a change is synced to disk."""


@dataclass(frozen=True, slots=True)
class RestoredJournal:
    """A restored session, a description of unreadable content (or empty), and the valid part of the file.

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

    `problem` describes unreadable content, or is empty.
    """

    session: Session
    journal: "Journal"
    problem: str


class Journal:
    """Saves the history of one session in one file.

    It never raises into the session: failures (a program without a reference, a full disk) are described in `problem`,
    which is empty otherwise, and are retried with the next change.
    """

    def __init__(self, folder: Path, board_id: str, session: Session) -> None:
        self.board_id, self.problem = board_id, ""
        self._path, self._session = journal_path(folder, board_id), session
        self._file: int | None = None
        self._is_closed = False
        self._written, self._chain, self._end = EMPTY_HISTORY, 0, 0
        self._lock, self._disk = threading.Lock(), threading.RLock()  # acquired in reverse order; edits do not wait for the disk
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
        """Resume a board. Raises `DocumentError` if nothing is readable, and the errors of `parse` for its first plan."""
        path = journal_path(folder, board_id)
        try:
            file = open_locked(path)
        except FileNotFoundError:
            raise no_journal_error(board_id) from None
        except OSError:  # read-only folder
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
        """Begin a journal with a new id and the session's whole history."""
        return cls.begin(folder, new_board_id(), session)

    def write(self) -> None:
        """Write new changes; failures are described in `problem`."""
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
        with self._disk:
            with self._lock:
                timer, self._syncing = self._syncing, None
            if timer is not None:
                timer.cancel()
            if self._file is not None:
                with suppress(OSError):  # file system without sync
                    os.fsync(self._file)

    def close(self) -> None:
        """Sync and close the file, and release its lock."""
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
        for entry in (record,) if self._end else ({"format": FORMAT, "version": VERSION}, record):
            line, chain = line_bytes(entry, chain)
            lines += line
        if self._end + len(lines) > MOST_BYTES:
            raise DocumentError(f"It has {self._end:,} bytes; the limit per board is {MOST_BYTES:,}.")
        if self._file is None:
            self._file = _create_file(self._path)
        _write_whole(self._file, lines, self._end)
        self._written, self._chain, self._end = history, chain, self._end + len(lines)
        self._sync_soon()

    def _continue_file(self, file: int, restored: RestoredJournal) -> None:
        """Continue a file after its valid part; if more than one incomplete line follows, save a copy first."""
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
    """Restore a session up to the first damaged line or unreadable plan; only the present plan is analyzed.

    Raises `DocumentError` if nothing is readable, and the errors of `parse` for the first plan.
    """
    try:
        content, lines = read_lines(path)
    except OSError as error:
        raise DocumentError(f"`{path}` cannot be read: {error.strerror or error}.", ["begin a new board"]) from None
    if len(lines) < 2:
        raise DocumentError(f"Nothing in `{path}` can be restored: it is damaged from the start.", ["begin a new board"])
    _verify_version(lines[0].record, path)
    parse_shared = share_programs(parse)
    history, last, problem = EMPTY_HISTORY, lines[0], ""
    for line in lines[1:]:
        try:
            history, last = history.with_record(line.record, parse_shared), line
        except WorkbenchError as error:
            if not history.nodes:
                raise
            problem = f"A later plan is not readable: {error.message}"
            break
        except (LookupError, TypeError, ValueError, AttributeError):
            problem = "A line of it is damaged."
            break
    is_whole = not problem and is_torn(content, lines)
    if not is_whole:
        count = f"the first {len(history.nodes)} plans" if len(history.nodes) > 1 else "the first plan"
        problem = f"Restored {count} of the history of this board. {problem or 'The rest of its file is damaged.'}"
    return RestoredJournal(history.session(), problem, is_whole, last.chain, last.end)


def _verify_version(header: Mapping[str, object], path: Path) -> None:
    if header.get("format") != FORMAT or header.get("version") != VERSION:
        raise DocumentError(f"`{path}` was written by another version of the workbench.", ["begin a new board", "take that version"])


def _is_worth_keeping(history: History) -> bool:
    return len(history.nodes) > 1 or bool(history.nodes[0].name) or history.nodes[0].pinned


def _create_file(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = open_locked(path, create=True)
    if file is None:
        raise FileExistsError(None, "another process has this board")
    with suppress(OSError):
        sync_folder(path.parent)
    return file


def _write_whole(file: int, content: bytes, end: int) -> None:
    written = 0
    try:
        while written < len(content):
            written += os.write(file, content[written:])
    except OSError:
        with suppress(OSError):
            os.ftruncate(file, end)
        raise
