"""The rows of a store as JSON lines: the same from SQLite and PostgreSQL, so that a backup or a move between them can be held against its
origin.

**Invariants**

- Rows are in the order of their primary key, an object of its columns each, with sorted names; two stores with the same rows have the same
  digest, table by table.
- Tables, and rows that name others of their own table, are written after those that they name.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from itertools import islice
from typing import Any

from sqlalchemy import Connection, MetaData, Table, func, insert, select, text

from workbench.team.store.store import Store

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
    """Whether no table has a row."""
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
