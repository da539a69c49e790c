"""One server for each database: `with claim_store(store, "The server at http://...")` refuses a second one, for rooms live in one process.

The lock ends with its process, however that ends. On SQLite it is the kernel's, on a file beside the database that names its holder; on
PostgreSQL an advisory lock, which also ends where its connection is lost.
"""

import fcntl
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from workbench.errors import WorkbenchError
from workbench.team.store.store import Store

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
            ["stop it first", "give another folder: workbench team --data DIR"],
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
        raise WorkbenchError(f"{path} cannot be opened: {error.strerror}.", ["give a data folder of your own with --data"]) from None
    with file:
        file.seek(0)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreInUseError(file.read()) from None
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
