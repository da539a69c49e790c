"""A database or a disk that does not do what it should, in the words of the people who wait for it."""

import errno
import logging
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError, TimeoutError  # noqa: A004 - it is raised by its pool

from workbench.errors import WorkbenchError


class DatabaseProblemError(WorkbenchError):
    """A database that does not answer, or not as it should: nothing was changed, and it may be tried again later."""


class FullDiskError(DatabaseProblemError):
    """There is no space for what is to be stored."""


_BUSY = ("The database is busy, so nothing was changed.", ["try again in a moment"])
_AWAY = (
    "The database does not answer. The change was not made, unless it was already in progress.",
    ["check the result and try again", "ask the operator to start the database"],
)
_READ_ONLY = (
    "The server may not write to its disk, so nothing was changed.",
    ["ask the operator to make the disk writable", "go on reading"],
)
_FAILING = ("The disk of the server failed, so nothing was changed.", ["ask the operator to check the log and the disk"])
_FULL = (
    "The disk of the server is full, so nothing was changed.",
    ["ask the operator to free disk space, then try again", "go on reading"],
)
_OF_SQLITE: Mapping[int, tuple[str, list[str]]] = {
    **dict.fromkeys((sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED), _BUSY),
    **dict.fromkeys((sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM), _READ_ONLY),
    **dict.fromkeys((sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB), _FAILING),
    sqlite3.SQLITE_FULL: _FULL,
}
"""By the primary result code (https://sqlite.org/rescode.html)."""
_OF_POSTGRESQL: Mapping[str, tuple[str, list[str]]] = {
    **dict.fromkeys(("40", "53", "55"), _BUSY),  # rolled back for another, resources, locks
    **dict.fromkeys(("08", "57"), _AWAY),
    "25006": _READ_ONLY,
    "58": _FAILING,
    "53100": _FULL,
}
"""By the state, or its class (https://www.postgresql.org/docs/current/errcodes-appendix.html)."""
_OF_SYSTEM: Mapping[int | None, tuple[str, list[str]]] = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), _FULL),
    errno.EROFS: _READ_ONLY,
    errno.EIO: _FAILING,
}
_log = logging.getLogger(__name__)


def as_database_problem(error: BaseException | None) -> DatabaseProblemError | None:
    """An error of a database or a disk in words; `None` for any other error, such as a bug."""
    if isinstance(error, DatabaseProblemError):
        return error
    found = _words_of(error)
    if found is None:
        return None
    return (FullDiskError if found is _FULL else DatabaseProblemError)(*found)


def _words_of(error: BaseException | None) -> tuple[str, list[str]] | None:
    if isinstance(error, OSError):
        return _OF_SYSTEM.get(error.errno)
    if isinstance(error, TimeoutError):  # all connections are in use
        return _BUSY
    if not isinstance(error, DBAPIError):
        return None
    if (code := getattr(error.orig, "sqlite_errorcode", None)) is not None:
        return _OF_SQLITE.get(code & 0xFF)
    state = getattr(error.orig, "sqlstate", "")
    if state is None:  # of psycopg: the server said nothing
        return _AWAY if isinstance(error, OperationalError) else None
    return _OF_POSTGRESQL.get(state) or _OF_POSTGRESQL.get(state[:2])


@contextmanager
def say_database_problems() -> Iterator[None]:
    """Raise what `as_database_problem` knows as that, and every other error as it is."""
    try:
        yield
    except SQLAlchemyError as error:
        if (problem := as_database_problem(error)) is None:
            raise
        _log.error("%s (%s)", problem.message, getattr(error, "orig", None) or error)
        raise problem from error


@contextmanager
def explain_database_errors() -> Iterator[None]:
    """Say errors of the database in its own words, which have no password in them. Raises `DatabaseProblemError`."""
    try:
        yield
    except SQLAlchemyError as error:
        reason = str(getattr(error, "orig", None) or error).splitlines()[0]
        ways_out = ["is it running?", "is its address right?"]
        raise DatabaseProblemError(f"The database does not answer: {reason[:300]}.", ways_out) from None
