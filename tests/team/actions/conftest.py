"""A whole team without a server, for each test its own: a copy of one that is made once a file."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.team_server import make_services, new_store
from tests.support.team_world import TeamWorld, make_world, parts_of_server


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> tuple[TeamWorld, bytes]:
    folder: Path = tmp_path_factory.mktemp("template")
    world = make_world(folder)
    world.store.close()
    return world, (folder / "team.db").read_bytes()


@pytest.fixture
def world(template: tuple[TeamWorld, bytes], tmp_path: Path) -> Iterator[TeamWorld]:
    made, content = template
    store = new_store(tmp_path, content)
    services = make_services(tmp_path, store, **parts_of_server(store))
    yield replace(made, store=store, services=services)
    store.close()
