"""The folder of journals: one file per board, readable by this user alone, each locked by the one process that writes it."""

import json
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from workbench.core.operating_system import try_lock
from workbench.core.parse_untrusted import open_plain
from workbench.errors import DocumentError
from workbench.session.journal.journal_content import read_document
from workbench.session.journal.journal_lines import JournalLine, parse_lines

ENDING = ".journal.jsonl"
KEEP_BYTES = 256 << 20
KEEP_DAYS = 90.0
MOST_BYTES = 64 << 20
"""Bytes of one journal: some 100,000 plans."""

MOST_LISTED = 50

_BOARD_ID = re.compile(r"[A-Za-z0-9_-]{8,64}")
_DAY = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """A board that can be resumed: the name of its present plan, how many plans it has, the last edit in seconds since the epoch."""

    board_id: str
    name: str
    plans: int
    edit: str
    last_changed: float


def journal_folder() -> Path:
    """`$WORKBENCH_STATE`, else the user's own state folder."""
    if chosen := os.environ.get("WORKBENCH_STATE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "sharding-workbench" / "boards"


def new_board_id() -> str:
    """A new unguessable id: whoever knows it may have the board."""
    return secrets.token_urlsafe(16)


def is_board_id(text: str) -> bool:
    """Whether a text has the form of an id, and so is safe as a file name."""
    return _BOARD_ID.fullmatch(text) is not None


def journal_path(folder: Path, board_id: str) -> Path:
    """The file of a board. Raises `DocumentError` for a malformed id."""
    if not is_board_id(board_id):
        raise no_journal_error(board_id)
    return folder / f"{board_id}{ENDING}"


def no_journal_error(board_id: str) -> DocumentError:
    return DocumentError(
        f"There is no board `{board_id[:64]}` to restore: nothing was changed on it, or it is longer ago than boards are kept.",
        ["begin a new board: open the page without `board=` in the address"],
    )


def list_journals(folder: Path, most: int = MOST_LISTED) -> list[JournalEntry]:
    """The boards of a folder that can be resumed, the last changed first; damaged ones up to the damage."""
    newest = sorted(((status.st_mtime, path) for path in _list_paths(folder) if (status := _read_status(path))), reverse=True)[:most]
    return [entry for _, path in newest if (entry := _read_entry(path))]


def find_journal(folder: Path, board_id: str) -> JournalEntry | None:
    """The entry of one board, if it can be resumed."""
    return _read_entry(journal_path(folder, board_id)) if is_board_id(board_id) else None


def prune_journals(folder: Path, keep_bytes: int = KEEP_BYTES, keep_days: float = KEEP_DAYS) -> list[str]:
    """Remove journals that were not changed for `keep_days`, then the oldest until the rest takes `keep_bytes`; returns their ids.

    One that a process is writing is kept.
    """
    aged = sorted(((status.st_mtime, status.st_size, path) for path in _list_paths(folder) if (status := _read_status(path))), reverse=True)
    removed, total, oldest = [], 0, time.time() - keep_days * _DAY
    for changed, size, path in aged:
        total += size
        if (changed < oldest or total > keep_bytes) and _remove_journal(path):
            total -= size
            removed.append(path.name.removesuffix(ENDING))
    return removed


def _remove_journal(path: Path) -> bool:
    with suppress(OSError):
        file = open_locked(path)
        if file is not None:
            try:
                path.unlink()
                path.with_suffix(".damaged").unlink(missing_ok=True)
            finally:
                os.close(file)
            return True
    return False


def _list_paths(folder: Path) -> Iterator[Path]:
    with suppress(OSError):
        yield from folder.glob(f"*{ENDING}")


def _read_status(path: Path) -> os.stat_result | None:
    with suppress(OSError):
        return path.stat()
    return None


def read_lines(path: Path) -> tuple[bytes, list[JournalLine]]:
    """The content of a journal and its complete lines; nothing for a file that is longer than any journal. Raises `OSError`."""
    with open_plain(path) as file:
        content = file.read(MOST_BYTES + 1)
    content = content if len(content) <= MOST_BYTES else b""
    return content, parse_lines(content)


def _read_entry(path: Path) -> JournalEntry | None:
    try:
        _, lines = read_lines(path)
        rows = [row for line in lines for row in line.record.get("nodes", ())]
        now = next((line.record["now"] for line in reversed(lines) if "now" in line.record), 0)
        name = str(json.loads(read_document(rows[now]))["name"])
        edit = next((str(row["edit"]) for row in reversed(rows) if "edit" in row), "")
        return JournalEntry(path.name.removesuffix(ENDING), name, len(rows), edit, path.stat().st_mtime)
    except (OSError, LookupError, TypeError, ValueError, AttributeError):
        return None


# The lock on a journal: one process writes it, and another finds that it is taken.


def open_locked(path: Path, *, create: bool = False) -> int | None:
    """The file, open to append and locked for this process; `None` if another one holds it. Raises `OSError`.

    The operating system holds the lock (`flock`) and releases it when the process ends. Where there is none (Windows, some network drives)
    the user must run only one server per folder.
    """
    file = os.open(path, os.O_RDWR | os.O_APPEND | (os.O_CREAT | os.O_EXCL if create else 0), 0o600)
    try:
        if try_lock(file) and _is_same_file(file, path):
            return file
    except BaseException:
        os.close(file)
        raise
    os.close(file)
    return None


def _is_same_file(file: int, path: Path) -> bool:
    """Whether the file was not removed between opening and locking it."""
    on_disk, opened = path.stat(), os.fstat(file)
    return (on_disk.st_dev, on_disk.st_ino) == (opened.st_dev, opened.st_ino)
