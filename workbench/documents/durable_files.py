"""Atomic, durable writes: a file is written whole or not at all, and is on disk when the call returns.

The content is written under a temporary name, synced and renamed. The folder is then synced too, because after a power
failure an unsynced name may be lost or refer to an empty file.
"""

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

from workbench.core.operating_system import try_lock
from workbench.errors import WorkbenchError

_NO_SYNC = (errno.EACCES, errno.EBADF, errno.EINVAL, errno.ENOTSUP)  # errors of file systems that cannot sync a folder
_LOCK_TIMEOUT = 5.0  # seconds to wait for another writer's lock
_WAYS_OUT = {
    errno.EBUSY: ("try again",),
    errno.EROFS: ("choose a folder on a writable disk",),
    errno.ENOSPC: ("free space on that disk", "choose another folder"),
    errno.EDQUOT: ("free space on that disk", "choose another folder"),
    errno.EACCES: ("choose a writable folder",),
    errno.EPERM: ("choose a writable folder",),
}


@contextmanager
def explain_write_errors(path: str | Path, kind: type[WorkbenchError]) -> Iterator[None]:
    """Convert an `OSError` on writing `path` to an error of class `kind`, with suggestions."""
    try:
        yield
    except OSError as error:
        ways_out = _WAYS_OUT.get(error.errno or 0, ("choose another folder",))
        raise kind(f"`{path}` cannot be written: {error.strerror or error}.", ways_out) from None


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file atomically and sync it. Raises `OSError`, which leaves the old file unchanged.

    A symbolic link is followed and kept. Mode, group and owner are kept as far as this user may set them. A special
    file (`/dev/stdout`) is written to, not replaced.
    """
    old_status = _read_status(path)
    if old_status is not None and not stat.S_ISREG(old_status.st_mode):
        path.write_bytes(content)
        return
    target = Path(os.path.realpath(path))
    if old_status is not None and not os.access(target, os.W_OK):  # replacing the file would bypass the check for write permission
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    draft = target.with_name(f".{token_hex(8)}.draft")
    try:
        write_synced(draft, content, old_status)
        draft.replace(target)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise
    sync_folder(target.parent)


def write_synced(path: Path, content: bytes, like: os.stat_result | None = None) -> None:
    """Write and sync a new file with the permissions of `like`, by default those of the umask. Raises `OSError`."""
    mode = 0o666 if like is None else stat.S_IMODE(like.st_mode)  # 0o666 is narrowed by the umask, as for any new file
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as stream:
        stream.write(content)
        stream.flush()
        if like is not None:
            _copy_access(stream.fileno(), like)
        os.fsync(stream.fileno())


def sync_file(path: Path) -> None:
    with path.open("rb") as stream:
        os.fsync(stream.fileno())


def sync_folder(folder: Path) -> None:
    """Sync the entries of a folder if the file system supports it (Windows cannot open folders). Raises `OSError`."""
    try:
        file = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise


def make_folder(folder: Path) -> None:
    """Create a folder and its parents, synced. Raises `OSError`."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


@contextmanager
def lock_folder(path: Path) -> Iterator[None]:
    """Lock a file's folder against other callers, if it can be opened and locks exist (`try_lock`). Raises `OSError`."""
    try:
        file = os.open(Path(os.path.realpath(path)).parent, os.O_RDONLY)
    except PermissionError:  # Windows, or a folder without read permission
        yield
        return
    try:
        deadline = time.monotonic() + _LOCK_TIMEOUT
        while not try_lock(file):
            if time.monotonic() > deadline:
                raise BlockingIOError(errno.EBUSY, f"another program has been writing to its folder for {_LOCK_TIMEOUT:g} seconds")
            time.sleep(0.01)
        yield
    finally:
        os.close(file)  # releases the lock


def _read_status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _copy_access(file: int, like: os.stat_result) -> None:
    """Copy owner and group before the mode, since changing them clears mode bits."""
    current = os.fstat(file)
    if (current.st_uid, current.st_gid) != (like.st_uid, like.st_gid):
        for owner in (like.st_uid, -1):  # only an administrator may change the owner
            with suppress(PermissionError):
                os.fchown(file, owner, like.st_gid)
                break
    os.fchmod(file, stat.S_IMODE(like.st_mode))
