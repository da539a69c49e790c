"""One fork server for all tests of a process: a room's process is a fork, and so is what reads documents."""

import pytest

from tests.support.room_sessions import first_plan
from tests.support.team_rooms import RoomTeam, VisitedRoom
from workbench.documents import dump_plan
from workbench.team.rooms.planners import Planners
from workbench.team.rooms.room_hub import RoomHub

ADDRESS = "http://localhost:5007"


@pytest.fixture(scope="session")
def planners(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("WORKBENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        started = Planners()
        yield started
        started.close()


@pytest.fixture
def team(tmp_path):
    team = RoomTeam.begin(tmp_path / "store")
    yield team
    team.store.close()


@pytest.fixture
def hub(team, planners):
    hub = RoomHub(team.store, planners, ADDRESS)
    yield hub
    hub.close()


@pytest.fixture
def document():
    return dump_plan(first_plan())


@pytest.fixture
def room(team, hub, document):
    """A room in which nobody is yet."""
    return VisitedRoom(team, hub, team.new_room(document))
