"""The database: `Store.open(address)`, `store.read()` and `store.write()` sessions, and the lock of the one server that
uses it.

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
from workbench.errors import WorkbenchError, explain_os_errors
from workbench.team.store.database_errors import DatabaseProblemError, converting_database_errors

BUSY = 10.0
"""Seconds to wait for another process that writes to SQLite."""
PATIENCE = 30.0
"""Seconds to wait for other writing threads."""


class Store:
    """A database. Thread-safe."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._writing, self._writer = threading.Lock(), 0  # the lock and the ID of its thread

    @classmethod
    def open(cls, address: str) -> Self:
        """Open a database by URL; `team.store.migrate` creates the tables. Raises `WorkbenchError`."""
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
        with converting_database_errors(), DatabaseSession(self.engine, expire_on_commit=False) as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[DatabaseSession]:
        """Open a session that commits at the end; SQLite has one writer at a time. Raises `DatabaseProblemError`."""
        alone = self._alone() if self.is_sqlite else nullcontext()
        with converting_database_errors(), alone, DatabaseSession(self.engine, expire_on_commit=False) as session:
            if self.is_sqlite:
                session.connection(execution_options={"workbench_writes": True})
            yield session
            session.commit()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Acquire the lock of the writing thread. Raises `DatabaseProblemError` after `PATIENCE` seconds."""
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
        try:
            with self.engine.connect() as connection:
                connection.exec_driver_sql("SELECT 1")
        except OperationalError:
            return False
        return True

    def close(self) -> None:
        self.engine.dispose()


def new_id() -> str:
    """Return a random ID for addresses: 80 bits in letters and digits.

    >>> len(new_id())
    16
    """
    alphabet = "abcdefghijkmnpqrstuvwxyz23456789"  # 32 characters without look-alikes
    return "".join(secrets.choice(alphabet) for _ in range(16))


def new_secret() -> str:
    return secrets.token_urlsafe(32)


def digest_of(secret: str) -> str:
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def now() -> float:
    return time.time()


def _with_driver(address: str) -> str:
    for short in ("postgresql://", "postgres://"):
        if address.startswith(short):
            return "postgresql+psycopg://" + address.removeprefix(short)
    return address


def _set_up_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # transactions are started explicitly: Python's sqlite3 starts them too late
    cursor = connection.cursor()
    _use_write_ahead_log(cursor)
    for pragma in ("synchronous=FULL", "foreign_keys=ON", f"busy_timeout={BUSY * 1000:.0f}"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _use_write_ahead_log(cursor: Any) -> None:
    """Retry: the busy timeout does not apply here, and concurrent servers would get `database is locked`."""
    deadline = time.monotonic() + BUSY
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _begin_sqlite(connection: Any) -> None:
    """Take the write lock when the transaction starts, because upgrading a read transaction can fail."""
    writes = connection.get_execution_options().get("workbench_writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


# One server per database: `claim_store` refuses a second one, because rooms live in one process.
#
# The lock ends with its process. On SQLite it is a file lock beside the database, and the file names the holder; on
# PostgreSQL it is an advisory lock, which also ends when its connection is lost.

SUFFIX = "-server"
"""Suffix of the lock file, after the database's name."""
_LOCK = 0x73657276  # key of the PostgreSQL advisory lock: "serv"
_NAME = text(
    "SELECT set_config('application_name', :holder, false), "  # truncated to 63 bytes by PostgreSQL
    "set_config('tcp_keepalives_idle', '10', false), set_config('tcp_keepalives_interval', '5', false), "
    "set_config('tcp_keepalives_count', '4', false)"  # otherwise an unreachable machine would hold the lock for two hours
)
_HOLDER = text(
    "SELECT application_name FROM pg_locks JOIN pg_stat_activity USING (pid) "
    "WHERE locktype = 'advisory' AND objid = :key AND classid = 0 AND datname = current_database()"
)


class StoreInUseError(WorkbenchError):
    """Another server or exclusive command uses the database."""

    def __init__(self, holder: str) -> None:
        super().__init__(
            f"{holder.strip() or 'Another process'} uses this database. A second process cannot: open rooms live in the first one.",
            ["stop it first", "choose another folder: workbench team --data DIR"],
        )


def claim_store(store: Store, holder: str) -> AbstractContextManager[None]:
    """Use a database exclusively as `holder`, which starts a sentence. Raises `StoreInUseError`."""
    if not store.is_sqlite:
        return _claim_postgresql(store, holder)
    return _claim_file(Path(f"{store.engine.url.database}{SUFFIX}"), holder)


@contextmanager
def _claim_file(path: Path, holder: str) -> Iterator[None]:
    with explain_os_errors(f"{path} cannot be opened", WorkbenchError, "choose your own data folder with --data"):
        file = path.open("a+", encoding="utf-8")
    with file:
        file.seek(0)
        if not try_lock(file.fileno()):
            raise StoreInUseError(file.read())
        with suppress(OSError):  # on a full disk the name is missing, but the lock is held
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
            with suppress(SQLAlchemyError):  # the connection, and with it the lock, may be lost
                connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": _LOCK})
            connection.invalidate()  # keeps its settings out of the pool
