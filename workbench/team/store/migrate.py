"""The tables of a store, brought to the version of this program, and its rows as JSON lines: the same from SQLite and PostgreSQL, so that a
backup, or a move between them, can be held against its origin.

**Invariants**

- A change is carried out whole or not at all, and by one process of several that start at once.
- A store whose version is not known, as of a newer program, is left alone.
- Rows are in the order of their primary key, an object of its columns each, with sorted names; two stores with the same rows have the same
  digest, table by table.
- Tables, and rows that name others of their own table, are written after those that they name.

The first migration is frozen; each change of `tables.py` after it takes a further one, drafted by `python tools/make_migration.py`.
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
_LOCK = 0x776F726B  # of PostgreSQL's advisory locks: "work"


class MigrationError(WorkbenchError):
    """A store whose tables this program does not know."""


def upgrade(store: Store, version: str = "head") -> None:
    """Make the tables, or bring them to a version, this program's own. Raises `MigrationError` for a store of another program or of a newer
    one, and for a version that there is not."""
    if version != "head" and version not in known_versions():
        raise MigrationError(f"This program knows no version `{version[:40]}` of the tables.", ["install the newest sharding-workbench"])
    with _changing(store) as connection:
        _verify_known(connection)
        command.upgrade(_config(connection), version)


def downgrade(store: Store, version: str = "base") -> None:
    """Take the tables back to an earlier version; `base` is none at all, and everything in them is gone."""
    with _changing(store) as connection:
        command.downgrade(_config(connection), version)


def current(store: Store) -> str | None:
    """The version of a store's tables; `None` for an empty database."""
    with store.engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def newest() -> str:
    """The version of this program."""
    found = _scripts().get_current_head()
    if found is None:
        raise MigrationError("This installation has no migrations.", [f"install it again: {install_command('team')}"])
    return found


def known_versions() -> frozenset[str]:
    return frozenset(each.revision for each in _scripts().walk_revisions())


def differences(store: Store) -> list[object]:
    """Where the tables differ from `tables.py`, as alembic writes it; empty where they do not."""
    with store.engine.connect() as connection:
        return list(compare_metadata(MigrationContext.configure(connection), Base.metadata))


def _verify_known(connection: Connection) -> None:
    present = MigrationContext.configure(connection).get_current_revision()
    if present is not None and present not in known_versions():
        ways_out = ["install the newest sharding-workbench", "restore a backup that this version made"]
        made = f"The tables are of version `{present[:40]}`, which this program does not know"
        raise MigrationError(f"{made}: from a newer version, or from before the first release.", ways_out)
    tables = set(inspect(connection).get_table_names())
    if present is None and tables & set(Base.metadata.tables):
        raise MigrationError("The database already has tables of these names, without a version.", ["give an empty database"])


@contextmanager
def _changing(store: Store) -> Iterator[Connection]:
    """A transaction in which nobody else changes the tables."""
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


# The rows of a store as JSON lines.

VERSION_TABLE = "alembic_version"
_AT_ONCE = 500


@contextmanager
def snapshot(store: Store, *, locked: bool = False) -> Iterator[Connection]:
    """A connection that sees one moment; `locked` so that nobody writes meanwhile, in SQLite."""
    options: dict[str, Any] = {"workbench_writes": locked} if store.is_sqlite else {"isolation_level": "REPEATABLE READ"}
    with store.engine.connect().execution_options(**options) as connection, connection.begin():
        yield connection


def tables_of(connection: Connection) -> list[Table]:
    """The tables as the database has them, those that others name first."""
    found = MetaData()
    found.reflect(connection)
    return [each for each in found.sorted_tables if each.name != VERSION_TABLE]


def read_lines(connection: Connection, table: Table) -> Iterator[bytes]:
    """The rows of a table, one JSON line each."""
    rows = connection.execution_options(yield_per=_AT_ONCE).execute(select(table).order_by(*table.primary_key.columns))
    for row in rows.mappings():
        yield json.dumps(dict(row), sort_keys=True, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def digest_of_lines(lines: Iterable[bytes]) -> str:
    """The SHA-256 of all lines."""
    digest = sha256()
    for line in lines:
        digest.update(line)
    return digest.hexdigest()


def digests(connection: Connection) -> dict[str, str]:
    """The digest of each table's rows."""
    return {table.name: digest_of_lines(read_lines(connection, table)) for table in tables_of(connection)}


def write_lines(connection: Connection, table: Table, lines: Iterable[bytes]) -> int:
    """Put rows into a table; how many."""
    written = 0
    for rows in _batches(_parents_first(table, map(json.loads, lines))):
        connection.execute(insert(table), rows)
        written += len(rows)
    _continue_counting(connection, table)
    return written


def is_empty(connection: Connection) -> bool:
    return not any(connection.execute(select(table).limit(1)).first() for table in tables_of(connection))


def _parents_first(table: Table, rows: Iterable[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    """Rows that name others of the same table after those; the table's key has one column then."""
    own = [key.parent.name for key in table.foreign_keys if key.column.table is table]
    if not own:
        return rows
    (key,) = (each.name for each in table.primary_key.columns)
    waiting, written = list(rows), set()
    ready: list[dict[str, Any]] = []
    while waiting:
        free = [row for row in waiting if all(row[name] is None or row[name] in written or row[name] == row[key] for name in own)]
        if not free:  # a circle: the database says what it has against it
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
    """PostgreSQL counts ids by itself, from where it was told to."""
    column = table.autoincrement_column
    if column is None or connection.dialect.name != "postgresql":
        return
    greatest = connection.scalar(select(func.max(column)))
    sequence = connection.scalar(
        text("SELECT pg_get_serial_sequence(:table, :column)"), {"table": f'"{table.name}"', "column": column.name}
    )
    if greatest is not None and sequence is not None:
        connection.execute(text("SELECT setval(:sequence, :greatest)"), {"sequence": sequence, "greatest": greatest})
