"""The database of a team: `Store.open(address)`, then `with store.read() as session` and `with store.write() as session`; one server may
have it at a time.

SQLite by default, in write-ahead mode with one writer at a time; PostgreSQL by its address.
"""

import secrets
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

from sqlalchemy import Engine, create_engine, event, text
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, OperationalError, SQLAlchemyError
from sqlalchemy.orm import Session as DatabaseSession

from workbench.core.operating_system import try_lock
from workbench.errors import WorkbenchError
from workbench.team.store.database_errors import DatabaseProblemError, say_database_problems

BUSY = 10.0
"""Seconds to wait for another process that writes to SQLite."""
PATIENCE = 30.0
"""Seconds to wait for other threads that write to it."""


class Store:
    """One database. It may be used from any thread."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._writing, self._writer = threading.Lock(), 0  # and the thread that has it

    @classmethod
    def open(cls, address: str) -> Self:
        """The database at an address such as `sqlite:///team.db` or `postgresql://user@host/team`; its tables are made by
        `team.store.migrate`. Raises `WorkbenchError` for an address that names none."""
        try:
            engine = create_engine(_with_driver(address), pool_pre_ping=not address.startswith("sqlite"))
        except (ArgumentError, NoSuchModuleError) as error:
            ways_out = ["give `sqlite:///folder/team.db`", "give `postgresql://user@host/name`"]
            raise WorkbenchError(f"`{address[:200]}` is not an address of a database: {error}.", ways_out) from None
        if engine.dialect.name == "sqlite":
            event.listen(engine, "connect", _set_up_sqlite)
            event.listen(engine, "begin", _begin_sqlite)
        return cls(engine)

    @property
    def is_sqlite(self) -> bool:
        return self.engine.dialect.name == "sqlite"

    @contextmanager
    def read(self) -> Iterator[DatabaseSession]:
        """A session that only reads. Raises `DatabaseProblemError`."""
        with say_database_problems(), DatabaseSession(self.engine, expire_on_commit=False) as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[DatabaseSession]:
        """A session that is committed at the end, or rolled back by an exception. On SQLite one thread writes at a time. Raises
        `DatabaseProblemError` for a full disk, a database that is locked for too long, and the like; nothing was changed then."""
        alone = self._alone() if self.is_sqlite else nullcontext()
        with say_database_problems(), alone, DatabaseSession(self.engine, expire_on_commit=False) as session:
            if self.is_sqlite:
                session.connection(execution_options={"workbench_writes": True})
            yield session
            session.commit()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """The one writer among the threads. Raises `DatabaseProblemError` rather than wait for ever."""
        assert self._writer != threading.get_ident(), "a thread that already writes would wait for itself"
        if not self._writing.acquire(timeout=PATIENCE):
            raise DatabaseProblemError(f"Another process has been writing to the store for {PATIENCE:.0f} s.", ["try again in a moment"])
        self._writer = threading.get_ident()
        try:
            yield
        finally:
            self._writer = 0
            self._writing.release()

    def is_ready(self) -> bool:
        """Whether it answers."""
        try:
            with self.engine.connect() as connection:
                connection.exec_driver_sql("SELECT 1")
        except OperationalError:
            return False
        return True

    def close(self) -> None:
        self.engine.dispose()


def new_id() -> str:
    """An id for an address: 80 random bits, in letters and digits.

    >>> len(new_id())
    16
    """
    alphabet = "abcdefghijkmnpqrstuvwxyz23456789"  # 32 of them, none like another
    return "".join(secrets.choice(alphabet) for _ in range(16))


def new_secret() -> str:
    """A secret of 256 random bits, as text for a cookie, a token or a link."""
    return secrets.token_urlsafe(32)


def digest_of(secret: str) -> str:
    """What the store keeps of a secret, or of a document: its SHA-256."""
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def now() -> float:
    return time.time()


def _with_driver(address: str) -> str:
    """The address with the driver that this package brings."""
    for short in ("postgresql://", "postgres://"):
        if address.startswith(short):
            return "postgresql+psycopg://" + address.removeprefix(short)
    return address


def _set_up_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # we begin transactions ourselves: Python's own way begins them too late
    cursor = connection.cursor()
    _use_write_ahead_log(cursor)
    for pragma in ("synchronous=FULL", "foreign_keys=ON", f"busy_timeout={BUSY * 1000:.0f}"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _use_write_ahead_log(cursor: Any) -> None:
    """SQLite does not wait for others to change this: two servers that start at once would meet `database is locked`."""
    until = time.monotonic() + BUSY
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.01)
        else:
            return


def _begin_sqlite(connection: Any) -> None:
    """A writer takes the lock at its start: one that read first could be refused when it begins to write."""
    writes = connection.get_execution_options().get("workbench_writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


# One server for each database: `with claim_store(store, "The server at http://...")` refuses a second one, for rooms live in one process.
#
# The lock ends with its process, however that ends. On SQLite it is the kernel's, on a file beside the database that names its holder; on
# PostgreSQL an advisory lock, which also ends where its connection is lost.

SUFFIX = "-server"
"""Of the file that is locked, after the name of the database's."""
_LOCK = 0x73657276  # of PostgreSQL's advisory locks: "serv"
_NAME = text(
    "SELECT set_config('application_name', :holder, false), "  # PostgreSQL keeps 63 bytes of it
    "set_config('tcp_keepalives_idle', '10', false), set_config('tcp_keepalives_interval', '5', false), "
    "set_config('tcp_keepalives_count', '4', false)"  # else a machine that is gone would hold the lock for two hours
)
_HOLDER = text(
    "SELECT application_name FROM pg_locks JOIN pg_stat_activity USING (pid) "
    "WHERE locktype = 'advisory' AND objid = :key AND classid = 0 AND datname = current_database()"
)


class StoreInUseError(WorkbenchError):
    """A database that a server uses, or a command that no server may run beside."""

    def __init__(self, holder: str) -> None:
        super().__init__(
            f"{holder.strip() or 'Another process'} uses this database. A second process cannot: open rooms live in the first one.",
            ["stop it first", "choose another folder: workbench team --data DIR"],
        )


def claim_store(store: Store, holder: str) -> AbstractContextManager[None]:
    """Use a database alone, as `holder`, which begins a sentence. Raises `StoreInUseError`."""
    if not store.is_sqlite:
        return _claim_postgresql(store, holder)
    return _claim_file(Path(f"{store.engine.url.database}{SUFFIX}"), holder)


@contextmanager
def _claim_file(path: Path, holder: str) -> Iterator[None]:
    try:
        file = path.open("a+", encoding="utf-8")
    except OSError as error:
        raise WorkbenchError(f"{path} cannot be opened: {error.strerror}.", ["choose your own data folder with --data"]) from None
    with file:
        file.seek(0)
        if not try_lock(file.fileno()):
            raise StoreInUseError(file.read())
        with suppress(OSError):  # on a full disk the name is missing, and the lock holds
            file.truncate(0)
            file.write(holder)
            file.flush()
        yield


@contextmanager
def _claim_postgresql(store: Store, holder: str) -> Iterator[None]:
    with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        if not connection.scalar(text("SELECT pg_try_advisory_lock(:key)"), {"key": _LOCK}):
            raise StoreInUseError(connection.scalar(_HOLDER, {"key": _LOCK}) or "")
        connection.execute(_NAME, {"holder": holder})
        try:
            yield
        finally:
            with suppress(SQLAlchemyError):  # of a connection that is lost, and the lock with it
                connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": _LOCK})
            connection.invalidate()  # the pool would keep its settings
