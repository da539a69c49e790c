"""One fork server for all tests of a process: a room's process is a fork, and so is what reads documents."""

import pytest

from tests.support.room_sessions import first_plan
from tests.support.team_front import PlannersAlone
from tests.support.team_rooms import RoomTeam, VisitedRoom
from workbench.app.processes.healing_child import ForkServer
from workbench.documents import dump_plan
from workbench.team.rooms.planners import PartitionBroker
from workbench.team.rooms.room_hub import RoomHub

ADDRESS = "http://localhost:5007"


@pytest.fixture(scope="session")
def planners(tmp_path_factory):
    """Nobody asks the partitioner for them: these tests are not about figures."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("WORKBENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        started = PlannersAlone(ForkServer("workbench.team.planning.room_process:serve_room"))
        yield started
        started.close()


@pytest.fixture
def settling_planners(planners, monkeypatch):
    """The same with a partitioner's process."""
    broker = PartitionBroker()
    monkeypatch.setattr(planners, "_broker", broker)
    for each in planners._describers._idle:
        each.is_closed = True  # begun without
    yield planners
    broker.close()


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
