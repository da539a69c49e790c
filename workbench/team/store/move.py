"""A store moved to another database, such as from SQLite to PostgreSQL: the same rows, or nothing."""

from workbench.errors import WorkbenchError
from workbench.team.store import migrate
from workbench.team.store.rows import digests, is_empty, read_lines, snapshot, tables_of, write_lines
from workbench.team.store.store import Store


class MoveError(WorkbenchError):
    """A store that cannot be moved there."""


def move(source: Store, target: Store) -> dict[str, int]:
    """Copy all rows into an empty database, in one transaction, and hold both against each other before it ends; how many rows each table
    has. Nobody may serve the source meanwhile: in SQLite writers wait. Raises `MoveError`, and `MigrationError`."""
    _verify_version(source)
    migrate.upgrade(target)
    with snapshot(source, locked=True) as read, target.engine.connect().execution_options(workbench_writes=True) as write, write.begin():
        if not is_empty(write):
            raise MoveError("The database to move to has rows already.", ["give an empty database"])
        to = {table.name: table for table in tables_of(write)}
        counts = {table.name: write_lines(write, to[table.name], read_lines(read, table)) for table in tables_of(read)}
        theirs = digests(write)
        different = sorted(name for name, digest in digests(read).items() if theirs[name] != digest)
        if different:
            raise MoveError(f"The rows of {', '.join(different)} are not the same there; nothing was moved.", ["report this as a bug"])
    return counts


def _verify_version(source: Store) -> None:
    present = migrate.current(source)
    if present != migrate.newest():
        raise MoveError(
            f"The tables are of version `{present}`; only those of `{migrate.newest()}` are moved.",
            ["start the server once: it brings them there"],
        )
