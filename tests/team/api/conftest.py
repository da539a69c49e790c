"""One server for the tests of a file, with a whole team."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.team_server import RunningServer, new_store, team_server
from tests.support.team_world import TeamWorld, add_things, parts_of_server, people_world
from workbench.team.api.api_routes import api_routes


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder: Path = tmp_path_factory.mktemp("team")
    store = new_store(folder)
    with team_server(folder, api_routes(), store=store, **parts_of_server(store)) as server:
        yield server


@pytest.fixture(scope="module")
def world(running: RunningServer) -> TeamWorld:
    """Tests of refusals share it: nothing in it may change."""
    return add_things(people_world(running.services.store, running.services))
