"""Stores with people, projects and a plan, in databases of both kinds."""

from itertools import count

import pytest

from tests.support.postgres import new_database
from tests.support.team_jobs import job_store
from workbench.team.store.store import Store
from workbench.team.store.tables import Base

_NUMBERS = count()


@pytest.fixture
def postgres_store(postgres):
    with new_database(postgres, f"jobs{next(_NUMBERS)}") as address:
        store = Store.open(address)
        Base.metadata.create_all(store.engine)
        yield job_store(None, store)
        store.close()


@pytest.fixture
def sqlite_store(tmp_path):
    store = job_store(tmp_path)
    yield store
    store.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def either_store(request):
    return request.getfixturevalue("sqlite_store" if request.param == "sqlite" else "postgres_store")


@pytest.fixture
def store(sqlite_store):
    """The one that tests about the store itself are not about."""
    return sqlite_store
