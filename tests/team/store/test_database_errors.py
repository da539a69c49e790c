"""A database that does not do what it should: what is said, and that nothing is half done."""

import errno
import os
import sqlite3
from contextlib import closing, suppress

import pytest
from sqlalchemy import event, select
from sqlalchemy.exc import IntegrityError, OperationalError, ProgrammingError

from workbench.team.store import migrate
from workbench.team.store import store as store_module
from workbench.team.store.database_errors import DatabaseProblemError, FullDiskError, as_database_problem
from workbench.team.store.store import Store
from workbench.team.store.tables import Setting


def put(store, name, text="x"):
    with store.write() as session:
        session.add(Setting(key=name, value={"text": text}))


def names(store):
    with store.read() as session:
        return set(session.scalars(select(Setting.key)))


def test_a_full_disk_loses_nothing_that_was_stored_and_stores_no_half(sqlite_store, caplog):
    migrate.upgrade(sqlite_store)
    with sqlite_store.engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
    limits = [pages + 2]
    event.listen(sqlite_store.engine, "begin", lambda connection: connection.exec_driver_sql(f"PRAGMA max_page_count={limits[-1]}"))
    stored = set()
    with suppress(FullDiskError):
        for number in range(100):
            put(sqlite_store, f"s{number}", "x" * 1000)
            stored.add(f"s{number}")
    assert caplog.messages == ["The disk of the server is full, so nothing was changed. (database or disk is full)"]
    assert 0 < len(stored) < 100
    assert names(sqlite_store) == stored
    limits.append(pages + 100)
    put(sqlite_store, "after")
    assert names(sqlite_store) == stored | {"after"}


def test_a_database_that_may_only_be_read_can_be_read(store):
    migrate.upgrade(store)
    put(store, "before")
    only_reads = "PRAGMA query_only=ON" if store.is_sqlite else "SET TRANSACTION READ ONLY"
    event.listen(store.engine, "begin", lambda connection: connection.exec_driver_sql(only_reads))
    with pytest.raises(DatabaseProblemError, match="may not write to its disk"):
        put(store, "after")
    assert names(store) == {"before"}


def test_a_lock_that_another_process_holds_is_waited_for_and_then_said(tmp_path, monkeypatch):
    monkeypatch.setattr(store_module, "BUSY", 0.05)
    with closing(Store.open(f"sqlite:///{tmp_path}/team.db")) as store:
        migrate.upgrade(store)
        with closing(sqlite3.connect(tmp_path / "team.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(DatabaseProblemError, match="The database is busy"):
                put(store, "one")
            assert names(store) == set()
            other.execute("ROLLBACK")
        put(store, "one")


def test_a_database_that_is_gone_is_said_without_its_password():
    with closing(Store.open("postgresql://nobody:secret@127.0.0.1:9/none")) as store:
        with pytest.raises(DatabaseProblemError, match="The database does not answer") as error, store.read() as session:
            session.scalar(select(1))
        assert "secret" not in str(error.value)


def test_what_is_wrong_with_a_statement_is_no_problem_of_the_database(store):
    with pytest.raises((OperationalError, ProgrammingError), match="setting"):  # there are no tables
        names(store)
    migrate.upgrade(store)
    put(store, "one")
    with pytest.raises(IntegrityError):
        put(store, "one")


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, FullDiskError),
        (errno.EDQUOT, FullDiskError),
        (errno.EROFS, DatabaseProblemError),
        (errno.EIO, DatabaseProblemError),
        (errno.ENOENT, type(None)),
        (errno.EACCES, type(None)),
    ],
)
def test_disks_fail_files_as_they_fail_databases(number, kind):
    assert type(as_database_problem(OSError(number, os.strerror(number)))) is kind
