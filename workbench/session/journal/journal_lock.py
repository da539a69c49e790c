"""The lock on a journal: one process writes it, and another finds that it is taken."""

import os
from pathlib import Path

from workbench.documents.durable_files import try_lock


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
