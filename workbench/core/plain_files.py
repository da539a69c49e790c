"""Open files that somebody else may have put there: regular files alone. A pipe would make its reader wait, and a device has no end."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

_FLAGS = ("O_CLOEXEC", "O_NONBLOCK", "O_BINARY")  # those that this system has


def open_plain(path: Path, *, follow_links: bool = True) -> BinaryIO:
    """A regular file, opened to read bytes. Raises `OSError` for a pipe, a device, a socket or a folder, and for a link that is not to be
    followed."""
    flags = (*_FLAGS, *(() if follow_links else ("O_NOFOLLOW",)))
    number = os.open(path, os.O_RDONLY | sum(getattr(os, each, 0) for each in flags))
    try:
        verify_regular(os.fstat(number))
        return os.fdopen(number, "rb")
    except BaseException:
        os.close(number)
        raise


def verify_regular(status: os.stat_result) -> None:
    """Raises `OSError` for what is no regular file."""
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is a pipe, a device or a socket, and only regular files are read")
