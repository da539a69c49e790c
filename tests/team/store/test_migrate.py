"""Migrations: up and down on a filled store, and their result is what `tables.py` says."""

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import inspect, text

from tests.support.filled_stores import fill
from workbench.team.store import migrate
from workbench.team.store.migrate import MigrationError, digests, snapshot, tables_of
from workbench.team.store.store import Store
from workbench.team.store.tables import Base

HINT = "tables.py says something else than the migrations: run `python tools/make_migration.py`, read what it wrote, and commit it"
WRITTEN_BEFORE = Path(__file__).parents[2] / "golden" / "team_store_quotas.sql"


def tables(store):
    return {each for each in inspect(store.engine).get_table_names() if each != "alembic_version"}


def test_the_migrations_make_the_tables_of_this_program(store):
    assert migrate.current(store) is None
    migrate.upgrade(store)
    assert migrate.differences(store) == [], HINT
    assert tables(store) == set(Base.metadata.tables)
    assert migrate.current(store) == migrate.newest() == "quotas"
    migrate.upgrade(store)


def test_up_and_down_and_up_on_a_filled_store(store):
    migrate.upgrade(store)
    fill(store)
    with snapshot(store) as connection:
        before = digests(connection)
        assert len(tables_of(connection)) == len(before) > 15
    migrate.upgrade(store)
    with snapshot(store) as connection:
        assert digests(connection) == before
    migrate.downgrade(store)
    assert tables(store) == set()
    migrate.upgrade(store)
    fill(store)
    with snapshot(store) as connection:
        assert digests(connection) == before


def test_a_store_that_the_migrations_before_the_first_release_made_opens_with_its_rows(tmp_path):
    """The dump is of a store that two migrations had made, `initial` and then `quotas`."""
    with closing(sqlite3.connect(tmp_path / "team.db")) as database:
        database.executescript(WRITTEN_BEFORE.read_text(encoding="utf-8"))
    with closing(Store.open(f"sqlite:///{tmp_path / 'team.db'}")) as store:
        migrate.upgrade(store)
        assert migrate.current(store) == "quotas"
        assert migrate.differences(store) == [], HINT
        with snapshot(store) as connection:
            kept = digests(connection)
        migrate.downgrade(store)
        migrate.upgrade(store)
        fill(store, rows=2)
        with snapshot(store) as connection:
            assert digests(connection) == kept


def test_several_processes_that_start_at_once_make_the_tables_once(store):
    address, errors = store.engine.url.render_as_string(hide_password=False), []

    def work():
        other = Store.open(address)
        try:
            migrate.upgrade(other)
        except Exception as error:  # noqa: BLE001 - of a thread
            errors.append(error)
        finally:
            other.close()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert errors == []
    assert migrate.differences(store) == [], HINT


def test_a_migration_that_fails_changes_nothing(store, monkeypatch):
    migrate.upgrade(store)
    fill(store)
    with snapshot(store) as connection:
        before = digests(connection)
    with store.write() as session:
        session.execute(text("CREATE TABLE in_the_way (id TEXT REFERENCES plan (digest))"))
        session.execute(text("INSERT INTO in_the_way SELECT digest FROM plan"))
    with pytest.raises(Exception, match=r"(?i)foreign key|depend"):
        migrate.downgrade(store)
    with snapshot(store) as connection:
        assert {name: digest for name, digest in digests(connection).items() if name != "in_the_way"} == before
    assert migrate.current(store) == "quotas"


def test_a_store_of_a_newer_program_and_a_database_of_others_are_left_alone(store):
    with store.write() as session:
        session.execute(text('CREATE TABLE "user" (id TEXT)'))
    with pytest.raises(MigrationError, match="already has tables of these names"):
        migrate.upgrade(store)
    with store.write() as session:
        session.execute(text('DROP TABLE "user"'))
    migrate.upgrade(store)
    with store.write() as session:
        session.execute(text("UPDATE alembic_version SET version_num = 'from_the_future'"))
    with pytest.raises(MigrationError, match="from a newer version, or from before the first release"):
        migrate.upgrade(store)
    with pytest.raises(MigrationError, match="knows no version"):
        migrate.upgrade(store, "nothing")
