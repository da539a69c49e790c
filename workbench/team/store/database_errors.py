"""Convert database and disk errors to errors for users."""

import errno
import logging
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError, TimeoutError  # noqa: A004 - raised by the connection pool

from workbench.errors import WorkbenchError


class DatabaseProblemError(WorkbenchError):
    """The database does not respond as it should; nothing was changed, and the request can be repeated."""


class FullDiskError(DatabaseProblemError):
    """The disk is full."""


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
"""Messages by primary result code (https://sqlite.org/rescode.html)."""
_OF_POSTGRESQL: Mapping[str, tuple[str, list[str]]] = {
    **dict.fromkeys(("40", "53", "55"), _BUSY),  # rollback after conflict, resources, locks
    **dict.fromkeys(("08", "57"), _AWAY),
    "25006": _READ_ONLY,
    "58": _FAILING,
    "53100": _FULL,
}
"""Messages by SQLSTATE or its class (https://www.postgresql.org/docs/current/errcodes-appendix.html)."""
_OF_SYSTEM: Mapping[int | None, tuple[str, list[str]]] = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), _FULL),
    errno.EROFS: _READ_ONLY,
    errno.EIO: _FAILING,
}
_log = logging.getLogger(__name__)


def as_database_problem(error: BaseException | None) -> DatabaseProblemError | None:
    """Convert a database or disk error; `None` for any other error, such as a bug."""
    if isinstance(error, DatabaseProblemError):
        return error
    message = _words_of(error)
    if message is None:
        return None
    return (FullDiskError if message is _FULL else DatabaseProblemError)(*message)


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
    if state is None:  # psycopg: no answer from the server
        return _AWAY if isinstance(error, OperationalError) else None
    return _OF_POSTGRESQL.get(state) or _OF_POSTGRESQL.get(state[:2])


@contextmanager
def converting_database_errors() -> Iterator[None]:
    """Convert known database errors raised inside the context."""
    try:
        yield
    except SQLAlchemyError as error:
        if (problem := as_database_problem(error)) is None:
            raise
        _log.error("%s (%s)", problem.message, getattr(error, "orig", None) or error)
        raise problem from error


@contextmanager
def explain_database_errors() -> Iterator[None]:
    """Convert database errors to their own message without passwords. Raises `DatabaseProblemError`."""
    try:
        yield
    except SQLAlchemyError as error:
        reason = str(getattr(error, "orig", None) or error).splitlines()[0]
        ways_out = ["is it running?", "is its address right?"]
        raise DatabaseProblemError(f"The database does not answer: {reason[:300]}.", ways_out) from None
