"""Migrate a store's tables, and read and write rows as JSON lines.

Rows are the same from SQLite and PostgreSQL, so that a backup or a move can be compared with its source.

**Invariants**

- A migration is atomic, and one of several processes that start concurrently performs it.
- A store of an unknown version, such as a newer one, is not changed.
- Rows are sorted by primary key and are objects with sorted column names; stores with equal rows have equal digests,
  table by table.
- Referenced tables, and referenced rows of the same table, are written first.

The first migration is frozen; each later change of `tables.py` needs another one, drafted by `python
tools/make_migration.py`.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, MetaData, Table, func, insert, inspect, select, text

from workbench.core.installation import install_command
from workbench.errors import WorkbenchError
from workbench.team.store.store import Store
from workbench.team.store.tables import Base

FOLDER = Path(__file__).parent / "migrations"
_LOCK = 0x776F726B  # key of the PostgreSQL advisory lock: "work"


class MigrationError(WorkbenchError):
    """This program does not know the store's tables."""


def upgrade(store: Store, version: str = "head") -> None:
    """Create or migrate the tables. Raises `MigrationError` for a foreign, newer or unknown version."""
    if version != "head" and version not in known_versions():
        raise MigrationError(f"This program knows no version `{version[:40]}` of the tables.", ["install the newest sharding-workbench"])
    with _changing(store) as connection:
        _verify_known(connection)
        command.upgrade(_config(connection), version)


def downgrade(store: Store, version: str = "base") -> None:
    """Migrate the tables back to an earlier version; `base` deletes all tables and their rows."""
    with _changing(store) as connection:
        command.downgrade(_config(connection), version)


def current(store: Store) -> str | None:
    """Return the version of a store's tables; `None` for an empty database."""
    with store.engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def newest() -> str:
    version = _scripts().get_current_head()
    if version is None:
        raise MigrationError("This installation has no migrations.", [f"install it again: {install_command('team')}"])
    return version


def known_versions() -> frozenset[str]:
    return frozenset(script.revision for script in _scripts().walk_revisions())


def differences(store: Store) -> list[object]:
    with store.engine.connect() as connection:
        return list(compare_metadata(MigrationContext.configure(connection), Base.metadata))


def _verify_known(connection: Connection) -> None:
    present = MigrationContext.configure(connection).get_current_revision()
    if present is not None and present not in known_versions():
        ways_out = ["install the newest sharding-workbench", "restore a backup that this version made"]
        problem = f"The tables are of version `{present[:40]}`, which this program does not know"
        raise MigrationError(f"{problem}: from a newer version, or from before the first release.", ways_out)
    tables = set(inspect(connection).get_table_names())
    if present is None and tables & set(Base.metadata.tables):
        raise MigrationError("The database already has tables of these names, without a version.", ["give an empty database"])


@contextmanager
def _changing(store: Store) -> Iterator[Connection]:
    with store.engine.connect().execution_options(workbench_writes=True) as connection, connection.begin():
        if not store.is_sqlite:
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        yield connection


def _config(connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    if connection is not None:
        config.attributes["connection"] = connection
    return config


def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(_config())


# Rows as JSON lines.

VERSION_TABLE = "alembic_version"
_AT_ONCE = 500


@contextmanager
def snapshot(store: Store, *, locked: bool = False) -> Iterator[Connection]:
    """Open a connection with a consistent snapshot; with `locked`, SQLite blocks writers."""
    options: dict[str, Any] = {"workbench_writes": locked} if store.is_sqlite else {"isolation_level": "REPEATABLE READ"}
    with store.engine.connect().execution_options(**options) as connection, connection.begin():
        yield connection


def tables_of(connection: Connection) -> list[Table]:
    """Return the tables of the database, referenced ones first."""
    metadata = MetaData()
    metadata.reflect(connection)
    return [table for table in metadata.sorted_tables if table.name != VERSION_TABLE]


def read_lines(connection: Connection, table: Table) -> Iterator[bytes]:
    rows = connection.execution_options(yield_per=_AT_ONCE).execute(select(table).order_by(*table.primary_key.columns))
    for row in rows.mappings():
        yield json.dumps(dict(row), sort_keys=True, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def digest_of_lines(lines: Iterable[bytes]) -> str:
    digest = sha256()
    for line in lines:
        digest.update(line)
    return digest.hexdigest()


def digests(connection: Connection) -> dict[str, str]:
    return {table.name: digest_of_lines(read_lines(connection, table)) for table in tables_of(connection)}


def write_lines(connection: Connection, table: Table, lines: Iterable[bytes]) -> int:
    count = 0
    for rows in _batches(_parents_first(table, map(json.loads, lines))):
        connection.execute(insert(table), rows)
        count += len(rows)
    _continue_counting(connection, table)
    return count


def is_empty(connection: Connection) -> bool:
    return not any(connection.execute(select(table).limit(1)).first() for table in tables_of(connection))


def _parents_first(table: Table, rows: Iterable[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    """Sort rows so that referenced rows of the same table come first; its primary key must have one column."""
    references = [key.parent.name for key in table.foreign_keys if key.column.table is table]
    if not references:
        return rows
    (key,) = (column.name for column in table.primary_key.columns)
    waiting, written = list(rows), set()
    ready: list[dict[str, Any]] = []
    while waiting:
        free = [row for row in waiting if all(row[name] is None or row[name] in written or row[name] == row[key] for name in references)]
        if not free:  # a cycle: the database reports the error
            return [*ready, *waiting]
        ready += free
        written |= {row[key] for row in free}
        waiting = [row for row in waiting if row[key] not in written]
    return ready


def _batches(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    remaining = iter(rows)
    while batch := list(islice(remaining, _AT_ONCE)):
        yield batch


def _continue_counting(connection: Connection, table: Table) -> None:
    column = table.autoincrement_column
    if column is None or connection.dialect.name != "postgresql":
        return
    greatest = connection.scalar(select(func.max(column)))
    sequence = connection.scalar(
        text("SELECT pg_get_serial_sequence(:table, :column)"), {"table": f'"{table.name}"', "column": column.name}
    )
    if greatest is not None and sequence is not None:
        connection.execute(text("SELECT setval(:sequence, :greatest)"), {"sequence": sequence, "greatest": greatest})
