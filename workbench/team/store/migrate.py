"""The tables of a store, brought to the version of this program.

**Invariants**

- A change is carried out whole or not at all, and by one process of several that start at once.
- A store of a newer program is left alone.

The first migration is frozen; each change of `tables.py` after it takes a further one, drafted by `python tools/make_migration.py`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text

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
        raise MigrationError("This installation has no migrations.", ["install sharding-workbench[team] again"])
    return found


def known_versions() -> frozenset[str]:
    """All versions that this program knows."""
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
        raise MigrationError(f"{made}: a newer one made them.", ways_out)
    tables = set(inspect(connection).get_table_names())
    if present is None and tables & set(Base.metadata.tables):
        raise MigrationError("The database has tables of these names already, and no version of them.", ["give an empty database"])


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
