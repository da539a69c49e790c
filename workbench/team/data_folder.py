"""The folder of a server's data: only the user that the server runs as may read it, whoever made what is in it.

**Invariants**

- Folders have mode 0700 and files 0600. The exceptions are what a program of the team's own reads, which runs as another user where the
  server is root: the files of programs, and the plan of a job. The private folders above them keep other users out; a sandbox mounts them.
- Without a sandbox such a program passes through folders of mode 0710 and writes the events of its job, of mode 0660, as their group
  (`sandbox/sandbox.py`).
- Symbolic links are not followed, so nothing outside the folder changes.
- A folder is made private before its content is listed, so that nobody can exchange what is in it meanwhile.
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

from workbench.errors import WorkbenchError
from workbench.team.jobs.job_folder import EVENTS, PLAN

_PRIVATE = 0o077
"""The permission bits of other users: none of them is set."""
_PASSED_THROUGH, _WRITTEN = 0o710, 0o660
"""The modes of folders and of events that are left to the group of a program's user."""
_ROOT = 0
_log = logging.getLogger(__name__)


@dataclass
class _Repair:
    """How many modes let other users in and were changed, and what could not be changed, with the reason."""

    changed: int = 0
    left: list[tuple[Path, str]] = field(default_factory=list)


@contextmanager
def private_data(data: Path) -> Iterator[None]:
    """Make the folder if there is none and everything in it private; what this process writes meanwhile is private, too.

    Raises `WorkbenchError` for a folder that cannot be made, and for one with files of another user.
    """
    before = os.umask(_PRIVATE)
    try:
        _make(data)
        make_private(data)
        yield
    finally:
        os.umask(before)


def make_private(data: Path) -> None:
    """Repair the modes of a data folder, and log how many were wrong. Raises `WorkbenchError` for files of another user."""
    repair, root = _Repair(), data.resolve()
    for path in chain([root], _below(root)):
        with suppress(FileNotFoundError):  # SQLite and jobs delete files meanwhile
            _repair_mode(path, root, repair)
    _log_repair(data, repair)


def _make(data: Path) -> None:
    try:
        data.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WorkbenchError(f"{data} cannot be created: {error.strerror}.", ["choose another folder with --data"]) from None


def _below(folder: Path) -> Iterator[Path]:
    """Files and folders at any depth, each before what is in it; not what only another user may list, such as `lost+found`."""
    with suppress(PermissionError, FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            yield Path(entry)
            if entry.is_dir(follow_symlinks=False):
                yield from _below(Path(entry))


def _repair_mode(path: Path, data: Path, repair: _Repair) -> None:
    """Change a mode that is wrong. Raises `WorkbenchError` for what belongs to another user, who could read it all the same."""
    found = path.lstat()
    wanted = _wanted_mode(found.st_mode, path.relative_to(data).parts)
    if wanted == stat.S_IMODE(found.st_mode):
        return
    try:
        path.chmod(wanted)
        repair.changed += bool(stat.S_IMODE(found.st_mode) & ~wanted)
    except OSError as error:
        if error.errno != errno.EROFS and found.st_uid not in (_ROOT, os.geteuid()):
            raise _foreign_error(path, found.st_uid) from None
        repair.left.append((path, error.strerror or ""))


def _wanted_mode(mode: int, parts: tuple[str, ...]) -> int:
    """The mode that something of this path should have; links and sockets keep theirs."""
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
        _log.warning("Other users could read %d files or folders in %s: their modes are repaired.", repair.changed, data)
    if repair.left:
        path, reason = repair.left[0]
        more = f" and {len(repair.left) - 1} more" if len(repair.left) > 1 else ""
        _log.warning("Other users can read %s%s, and that cannot be changed: %s.", path, more, reason)
