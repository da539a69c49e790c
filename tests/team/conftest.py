"""Empty databases of both kinds."""

from itertools import count

import pytest

from tests.support.postgres import new_database, running_postgres
from workbench.team.store import store as store_module
from workbench.team.store.store import Store

_NUMBERS = count()


@pytest.fixture(scope="session", autouse=True)
def _quick_disk():
    """No test pulls the plug: SQLite does not wait until the disk has what it wrote."""
    set_up = store_module._set_up_sqlite

    def set_up_without_waiting(connection, record):
        set_up(connection, record)
        connection.execute("PRAGMA synchronous=OFF")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(store_module, "_set_up_sqlite", set_up_without_waiting)
        yield


@pytest.fixture(scope="session")
def postgres():
    with running_postgres() as folder:
        yield folder


@pytest.fixture
def postgres_store(postgres):
    with new_database(postgres, f"team{next(_NUMBERS)}") as address:
        store = Store.open(address)
        yield store
        store.close()


@pytest.fixture
def sqlite_store(tmp_path):
    store = Store.open(f"sqlite:///{tmp_path}/team.db")
    yield store
    store.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request):
    return request.getfixturevalue("sqlite_store" if request.param == "sqlite" else "postgres_store")
