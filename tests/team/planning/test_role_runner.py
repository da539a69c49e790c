"""What a person may start on the server's devices: a runner of the project may run, an editor may compile and search."""

from unittest.mock import Mock

import pytest

from tests.support.room_sessions import ADA, BOB, CAROL, VIC, first_plan, with_role
from workbench.errors import WorkbenchError
from workbench.team.access import ProjectRole
from workbench.team.planning.room_visit import RoleRunner
from workbench.widgets.run.runner_protocol import Runner

PLAN = first_plan()
DEEDS = {
    "start": (PLAN, 20, print),
    "calibrate": (PLAN, print),
    "compile": (PLAN, print),
    "search": (Mock(), print),
}
NEEDED = {"start": ProjectRole.RUNNER, "calibrate": ProjectRole.RUNNER, "compile": ProjectRole.EDITOR, "search": ProjectRole.EDITOR}


@pytest.fixture
def behind():
    """What a role allows goes to; `behind.job` is where runs are submitted."""
    return Mock(spec=Runner, refuses=Mock(return_value=""), job=Mock())


def runner_of(behind, person):
    return RoleRunner(behind, lambda: person, behind.job)


@pytest.mark.parametrize("person", [VIC, BOB, CAROL, ADA], ids=lambda person: str(person.role))
@pytest.mark.parametrize("deed", DEEDS)
def test_each_may_start_what_their_role_allows_and_nothing_else_is_started(behind, deed, person):
    runner, started = runner_of(behind, person), behind.job if deed == "start" else getattr(behind, deed)
    if person.role >= NEEDED[deed]:
        assert getattr(runner, deed)(*DEEDS[deed]) is started.return_value
        started.assert_called_once()
        assert len(behind.mock_calls) == 1, "a run is a job of the team, and no process of the room's"
    else:
        with pytest.raises(WorkbenchError, match=f"takes the role {NEEDED[deed]} in this project; yours is {person.role}."):
            getattr(runner, deed)(*DEEDS[deed])
        assert behind.mock_calls == []


def test_the_role_is_that_of_the_moment(behind):
    held = [CAROL]
    runner = RoleRunner(behind, lambda: held[0], behind.job)
    runner.start(PLAN, 20, print)
    held[0] = with_role(CAROL, ProjectRole.VIEWER)
    with pytest.raises(WorkbenchError):
        runner.start(PLAN, 20, print)
    assert len(behind.mock_calls) == 1


def test_why_nothing_is_compiled_by_itself_is_said_and_nothing_is_prepared_for_who_may_not(behind):
    runner = runner_of(behind, VIC)
    assert runner.refuses(PLAN) == "To compile a plan takes the role editor in this project; yours is viewer."
    runner.expect(PLAN)
    runner.expect_search(PLAN)
    assert behind.mock_calls == []


def test_who_may_compile_is_told_what_the_runner_says(behind):
    runner = runner_of(behind, BOB)
    behind.refuses.return_value = "this machine is busy"
    assert runner.refuses(PLAN) == "this machine is busy"
    runner.expect(PLAN)
    behind.expect.assert_not_called()
    behind.refuses.return_value = ""
    runner.expect(PLAN)
    runner.expect_search(PLAN)
    behind.expect.assert_called_once_with(PLAN)
    behind.expect_search.assert_called_once_with(PLAN)


def test_what_was_measured_before_anybody_may_know(behind):
    assert runner_of(behind, VIC).calibrated(PLAN) is behind.calibrated.return_value
