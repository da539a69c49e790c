"""Atomic, durable writes: a file is written whole or not at all, and is on the disk when the call returns.

It is written under a temporary name, synced, and renamed; then its folder is synced, because an unsynced name may be lost on a power
failure, or name an empty file. Errors are explained in words.
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

_NO_SYNC = (errno.EACCES, errno.EBADF, errno.EINVAL, errno.ENOTSUP)  # errors of file systems that cannot sync a folder on request
_LOCK_TIMEOUT = 5.0  # seconds that another writer may lock a folder
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
    """Turn the system's error on writing `path` into an error of this kind, with its ways out."""
    try:
        yield
    except OSError as error:
        ways_out = _WAYS_OUT.get(error.errno or 0, ("choose another folder",))
        raise kind(f"`{path}` cannot be written: {error.strerror or error}.", ways_out) from None


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file as a whole, or leave the one before untouched; synced when it returns. Raises `OSError`.

    A symbolic link stays one, and its target is written. Mode, group and owner stay as far as this user may set them. A special file
    (`/dev/stdout`) is written to and not replaced.
    """
    before = _read_status(path)
    if before is not None and not stat.S_ISREG(before.st_mode):
        path.write_bytes(content)
        return
    target = Path(os.path.realpath(path))
    if before is not None and not os.access(target, os.W_OK):  # replacing it would bypass the check for write permission
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    draft = target.with_name(f".{token_hex(8)}.draft")
    try:
        write_synced(draft, content, before)
        draft.replace(target)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise
    sync_folder(target.parent)


def write_synced(path: Path, content: bytes, like: os.stat_result | None = None) -> None:
    """Write and sync a new file that nobody reads yet, with the permissions of another one, if that is given. Raises `OSError`."""
    mode = 0o666 if like is None else stat.S_IMODE(like.st_mode)  # the first is narrowed by the umask, like any new file's
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as stream:
        stream.write(content)
        stream.flush()
        if like is not None:
            _copy_access(stream.fileno(), like)
        os.fsync(stream.fileno())


def sync_file(path: Path) -> None:
    """Sync a file's content. Raises `OSError`."""
    with path.open("rb") as stream:
        os.fsync(stream.fileno())


def sync_folder(folder: Path) -> None:
    """Sync a folder's entries, where the file system supports that: Windows opens no folder. Raises `OSError`."""
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
    """Make a folder and its parents, synced. Raises `OSError`."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


@contextmanager
def lock_folder(path: Path) -> Iterator[None]:
    """Lock the folder of this file against other threads and processes that use this function. Raises `OSError`.

    Where there are no locks (`try_lock`), or no folder can be opened, nobody is locked out.
    """
    try:
        file = os.open(Path(os.path.realpath(path)).parent, os.O_RDONLY)
    except PermissionError:  # Windows, or a folder that may not be listed
        yield
        return
    try:
        deadline = time.monotonic() + _LOCK_TIMEOUT
        while not try_lock(file):
            if time.monotonic() > deadline:
                raise BlockingIOError(errno.EBUSY, f"another program has been writing in its folder for {_LOCK_TIMEOUT:g} seconds")
            time.sleep(0.01)
        yield
    finally:
        os.close(file)  # which releases the lock


def _read_status(path: Path) -> os.stat_result | None:
    """The status of a path's target, if it exists."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _copy_access(file: int, like: os.stat_result) -> None:
    """Copy owner and group first: setting them clears bits of the mode."""
    current = os.fstat(file)
    if (current.st_uid, current.st_gid) != (like.st_uid, like.st_gid):
        for owner in (like.st_uid, -1):  # only an administrator may change the owner
            with suppress(PermissionError):
                os.fchown(file, owner, like.st_gid)
                break
    os.fchmod(file, stat.S_IMODE(like.st_mode))
