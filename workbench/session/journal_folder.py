"""Manage the folder of journals: a file per board, readable only by this user and locked by the process that writes it."""

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
from workbench.session.journal_lines import JournalLine, parse_lines, read_document

ENDING = ".journal.jsonl"
KEEP_BYTES = 256 << 20
KEEP_DAYS = 90.0
MOST_BYTES = 64 << 20
"""Maximum bytes of one journal, about 100,000 plans."""

_BOARD_ID = re.compile(r"[A-Za-z0-9_-]{8,64}")
_DAY = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """A board that can be resumed: its present plan's name, plan count, last edit and time (seconds since the epoch)."""

    board_id: str
    name: str
    plans: int
    edit: str
    last_changed: float


def journal_folder() -> Path:
    """Return `$WORKBENCH_STATE`, or the user's state folder."""
    if chosen := os.environ.get("WORKBENCH_STATE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "sharding-workbench" / "boards"


def new_board_id() -> str:
    """Return a new unguessable id, which is the only credential for the board."""
    return secrets.token_urlsafe(16)


def is_board_id(text: str) -> bool:
    """Return whether a text is a well-formed id, and so safe as a file name."""
    return _BOARD_ID.fullmatch(text) is not None


def journal_path(folder: Path, board_id: str) -> Path:
    """Return the file of a board. Raises `DocumentError` for a malformed id."""
    if not is_board_id(board_id):
        raise no_journal_error(board_id)
    return folder / f"{board_id}{ENDING}"


def no_journal_error(board_id: str) -> DocumentError:
    return DocumentError(
        f"There is no board `{board_id[:64]}` to restore: it was never changed, or it has expired.",
        ["start a new board: open the page without `board=` in the address"],
    )


def find_journal(folder: Path, board_id: str) -> JournalEntry | None:
    return _read_entry(journal_path(folder, board_id)) if is_board_id(board_id) else None


def prune_journals(folder: Path, keep_bytes: int = KEEP_BYTES, keep_days: float = KEEP_DAYS) -> list[str]:
    """Remove unlocked journals unchanged for `keep_days`, then the oldest beyond `keep_bytes`; return their ids."""
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
    """Read a journal and its complete lines; empty if it exceeds the maximum size. Raises `OSError`."""
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


# A journal is locked by the process that writes it.


def open_locked(path: Path, *, create: bool = False) -> int | None:
    """Open a file for appending with a lock; `None` if it is locked. Raises `OSError`.

    `flock` is released when the process ends; without it (Windows, some network drives) run one server per folder.
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
    """Return whether the file was not removed between opening and locking it."""
    on_disk, opened = path.stat(), os.fstat(file)
    return (on_disk.st_dev, on_disk.st_ino) == (opened.st_dev, opened.st_ino)
