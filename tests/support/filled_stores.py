"""A store with rows in every table, made from the tables themselves: a table that is added is filled too."""

import random
from typing import Any

from sqlalchemy import JSON, Boolean, Column, Float, Integer, Table, UniqueConstraint, insert

from workbench.team.store.store import Store
from workbench.team.store.tables import Base

TEXTS = ("plain", "Ünïcode 漢字 🧩", "line\nbreak\ttab", "\"quotes\" \\ and 'those'", "", "<b>&amp;", "\u2028 \u00a0")
NUMBERS = (0.1 + 0.2, 1e-300, -1.5, 1.7976931348623157e308, 1763650000.123456, 3.0)


def fill(store: Store, rows: int = 5, seed: int = 0) -> None:
    """Put `rows` rows into each table."""
    draw = random.Random(seed)
    with store.write() as session:
        written: dict[str, list[dict[str, Any]]] = {}
        for table in Base.metadata.sorted_tables:
            made = [_row(table, number, written, draw) for number in range(rows)]
            for row in made:
                session.execute(insert(table), row)
            written[table.name] = made


def _row(table: Table, number: int, written: dict[str, list[dict[str, Any]]], draw: random.Random) -> dict[str, Any]:
    return {column.name: _value(table, column, number, written, draw) for column in table.columns}


def _value(table: Table, column: Column[Any], number: int, written: dict[str, list[dict[str, Any]]], draw: random.Random) -> Any:
    if column.foreign_keys:
        (key,) = column.foreign_keys
        if key.column.table is table:  # a later row is the parent of an earlier one in the order of keys
            return None if number == 0 else f"{table.name}-{9 - (number - 1)}"
        return written[key.column.table.name][number][key.column.name]
    if column.primary_key or column.unique or _is_in_unique_constraint(column):
        return number + 1 if isinstance(column.type, Integer) else f"{table.name}-{9 - number}"
    if column.nullable and draw.random() < 0.3:
        return None
    return _plain(column, draw)


def _is_in_unique_constraint(column: Column[Any]) -> bool:
    indexed = any(index.unique and column.name in index.columns for index in column.table.indexes)
    constraints = (each for each in column.table.constraints if isinstance(each, UniqueConstraint))
    return indexed or any(column.name in each.columns for each in constraints)


def _plain(column: Column[Any], draw: random.Random) -> Any:
    kind = column.type
    if isinstance(kind, JSON):
        return draw.choice([{}, {"a": [1, 2.5, None, True, {"ü": "漢"}]}, {"empty": ""}]) if column.type.python_type is not list else []
    if isinstance(kind, Boolean):
        return draw.random() < 0.5
    if isinstance(kind, Integer):
        return draw.randrange(10**6)
    if isinstance(kind, Float):
        return draw.choice(NUMBERS)
    return draw.choice(TEXTS)
