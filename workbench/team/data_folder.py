"""Keep the server's data folder readable only by the user that the server runs as.

**Invariants**

- Folders have mode 0700 and files 0600. The exceptions are files that a team program reads, because it runs as another
  user if the server is root: the program's files and a job's plan. Their private parent folders keep other users out; a
  sandbox mounts them.
- Without a sandbox, such a program traverses folders of mode 0710 and writes its job's events file, mode 0660, through
  its group (`sandbox/sandbox.py`).
- Symbolic links are not followed, so nothing outside the folder changes.
- A folder is made private before its content is listed, so that nobody can exchange the content in between.
"""

import errno
import logging
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from workbench.errors import WorkbenchError, explain_os_errors
from workbench.team.jobs.job_folder import EVENTS, PLAN

_PRIVATE = 0o077
"""Permission bits of group and others, which must be clear."""
_PASSED_THROUGH, _WRITTEN = 0o710, 0o660
"""Modes of folders and events files that belong to a program user's group."""
_ROOT = 0
_log = logging.getLogger(__name__)


@dataclass
class _Repair:
    changed: int = 0
    left: list[tuple[Path, str]] = field(default_factory=list)


@contextmanager
def private_data(data: Path) -> Iterator[None]:
    """Create the folder and make it and new files private. Raises `WorkbenchError` for others' files."""
    previous_umask = os.umask(_PRIVATE)
    try:
        _make(data)
        make_private(data)
        yield
    finally:
        os.umask(previous_umask)


def make_private(data: Path) -> None:
    """Repair and log wrong modes in a data folder. Raises `WorkbenchError` for files of another user."""
    repair, root = _Repair(), data.resolve()
    for path in chain([root], _below(root)):
        with suppress(FileNotFoundError):  # SQLite and jobs delete files meanwhile
            _repair_mode(path, root, repair)
    _log_repair(data, repair)


def _make(data: Path) -> None:
    with explain_os_errors(f"{data} cannot be created", WorkbenchError, "choose another folder with --data"):
        data.mkdir(parents=True, exist_ok=True)


def _below(folder: Path) -> Iterator[Path]:
    """Yield files and folders, parents first, skipping folders that this user may not list (`lost+found`)."""
    with suppress(PermissionError, FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            yield Path(entry)
            if entry.is_dir(follow_symlinks=False):
                yield from _below(Path(entry))


def _repair_mode(path: Path, data: Path, repair: _Repair) -> None:
    """Repair a wrong mode. Raises `WorkbenchError` if the file belongs to another user, who could read it anyway."""
    status = path.lstat()
    mode = _wanted_mode(status.st_mode, path.relative_to(data).parts)
    if mode == stat.S_IMODE(status.st_mode):
        return
    try:
        path.chmod(mode)
        repair.changed += bool(stat.S_IMODE(status.st_mode) & ~mode)
    except OSError as error:
        if error.errno != errno.EROFS and status.st_uid not in (_ROOT, os.geteuid()):
            raise _foreign_error(path, status.st_uid) from None
        repair.left.append((path, error.strerror or ""))


def _wanted_mode(mode: int, parts: tuple[str, ...]) -> int:
    """Return the required mode of a path; links and sockets keep theirs."""
    present = stat.S_IMODE(mode)
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        return present
    if present == (_PASSED_THROUGH if stat.S_ISDIR(mode) else _WRITTEN if parts[2:] == (EVENTS,) else None):
        return present
    if not _is_read_by_programs(parts):
        return present & ~_PRIVATE
    return present & ~0o022 | (0o055 if stat.S_ISDIR(mode) else 0o044)


def _is_read_by_programs(parts: tuple[str, ...]) -> bool:
    return parts[:2] == ("programs", "trees") or (len(parts) == 3 and parts[0] == "jobs" and parts[2] == PLAN)


def _foreign_error(path: Path, owner: int) -> WorkbenchError:
    text = f"{path} belongs to the user with the number {owner}, this process runs as {os.geteuid()}, and other users can read it."
    return WorkbenchError(text, [f"run `chown -R {os.geteuid()}` on the data folder", "choose your own data folder with --data"])


def _log_repair(data: Path, repair: _Repair) -> None:
    if repair.changed:
        _log.warning("Other users could read %d files or folders in %s; the modes were corrected.", repair.changed, data)
    if repair.left:
        path, reason = repair.left[0]
        others = f" and {len(repair.left) - 1} more" if len(repair.left) > 1 else ""
        _log.warning("Other users can read %s%s, and the mode cannot be changed: %s.", path, others, reason)
