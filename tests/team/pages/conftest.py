"""A server with a team that has worked for a while, for the tests of a file; another one in whose every text somebody put a script."""

from collections.abc import Iterator

import pytest

from tests.support.team_pages import in_thread
from tests.support.team_server import RunningServer, new_store, team_server
from tests.support.team_store import HOSTILE, fill_team
from tests.support.team_world import TeamWorld, parts_of_server, people_world
from workbench.team.pages.page_routes import page_routes
from workbench.team.sandbox.resource_limits import SandboxAbility, SandboxLevel

PLAIN = SandboxAbility(SandboxLevel.SEPARATE_PROCESS, "there is no bubblewrap here.")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    yield from _serve(tmp_path_factory, "team")


@pytest.fixture(scope="module")
def world(running: RunningServer) -> TeamWorld:
    return in_thread(lambda: fill_team(people_world(running.services.store, running.services)))


@pytest.fixture(scope="module")
def hostile_running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    yield from _serve(tmp_path_factory, "hostile")


@pytest.fixture(scope="module")
def hostile_world(hostile_running: RunningServer) -> TeamWorld:
    return in_thread(lambda: fill_team(people_world(hostile_running.services.store, hostile_running.services), HOSTILE))


def _serve(factory: pytest.TempPathFactory, name: str) -> Iterator[RunningServer]:
    folder = factory.mktemp(name)
    store = new_store(folder)
    serving = team_server(folder, page_routes(), store=store, sandbox=PLAIN, **parts_of_server(store))
    yield serving.__enter__()
    in_thread(serving.__exit__, None, None, None)
