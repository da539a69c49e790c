"""Stores of SQLite that take nothing for a while, as SQLite itself refuses it."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from sqlalchemy import event

from workbench.team.store.store import Store


@contextmanager
def with_pragma(store: Store, pragma: str, meanwhile: object, afterwards: object) -> Iterator[None]:
    """Each connection has a pragma set to one value meanwhile, and to another one afterwards."""
    value = [meanwhile]
    event.listen(store.engine, "checkout", lambda connection, *_: connection.execute(f"PRAGMA {pragma}={value[-1]}"))
    try:
        yield
    finally:
        value.append(afterwards)


def only_read(store: Store) -> AbstractContextManager[None]:
    """SQLite refuses to write, as on a disk that is read-only."""
    return with_pragma(store, "query_only", "ON", "OFF")


def full(store: Store) -> AbstractContextManager[None]:
    """SQLite gets no further page, as on a disk that is full."""
    with store.engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
    return with_pragma(store, "max_page_count", pages, 1 << 30)
