"""A run from a board is a job of the team: submitted by who may, followed to its end, and it outlives the room's process."""

import asyncio

import pytest
from sqlalchemy import select

from tests.support.team_rooms import within
from tests.support.team_server import make_services
from tests.support.team_world import parts_of_server
from tests.team.planning.test_job_runner import FIGURES
from workbench.team.jobs.job_events import JobEvent
from workbench.team.rooms.stored_room_actions import RoomJobs
from workbench.team.store.tables import GalleryEntry, StoredJob, TeamHardware

pytestmark = [pytest.mark.compile, pytest.mark.worker]


@pytest.fixture
def jobs(room, hub, tmp_path):
    services = make_services(tmp_path, room.team.store, **{**parts_of_server(room.team.store), "rooms": hub})
    jobs = RoomJobs(services)
    hub.use_jobs(jobs)
    return jobs


def jobs_of(room):
    with room.team.store.read() as session:
        return session.scalars(select(StoredJob)).all()


def the_job(room):
    """As soon as it is submitted."""
    [job] = within(lambda: jobs_of(room))
    return job


def event(seq, kind, **fields):
    return JobEvent(seq, 1.7e9, kind, fields)


def test_a_run_is_a_job_that_the_board_follows_to_its_end(room, jobs):
    rosa, ada = room.enter("rosa"), room.enter("ada")
    rosa.do("run", steps="20")
    rosa.until(lambda page: page.board["live"]["phase"] == "running")
    job = the_job(room)
    assert (job.author_id, job.kind, job.engine) == (room.team.people["rosa"], "run", "here")
    with room.team.store.read() as session:
        assert [each.digest for each in session.scalars(select(GalleryEntry))] == [job.digest], "its figures will stand in the gallery"
    jobs.hear(job.id, [event(1, "progress", stage="running", step=3, of=20, seconds=0.1, loss=2.0, fraction=0.2)], "running")
    rosa.until(lambda page: "3" in str(page.board["live"]))
    jobs.hear(job.id, [event(2, "measured", figures=FIGURES), event(3, "done", seconds=3.0)], "done")
    rosa.until(lambda page: page.board["live"]["phase"] != "running")
    ada.until(lambda page: any("run done" in each["text"] for each in page.room.get("said", [])))


def test_who_may_not_run_submits_nothing(room, jobs):
    bob = room.enter("bob")
    bob.do("run", steps="20")
    bob.until(lambda page: "To run a plan takes the role runner in this project; yours is editor." in str(page.board))
    assert jobs_of(room) == []


def test_a_run_is_cancelled_from_the_board(room, jobs):
    rosa = room.enter("rosa")
    rosa.do("run", steps="20")
    rosa.do("cancel")  # at once: it may not be submitted yet
    within(lambda: the_job(room).cancel_asked)
    jobs.hear(the_job(room).id, [], "cancelled")
    rosa.until(lambda page: page.board["live"]["phase"] != "running")


def test_a_run_goes_where_the_projects_hardware_is(room, jobs):
    with room.team.store.write() as session:
        session.add(
            TeamHardware(
                project_id=room.team.project_id,
                name="pod",
                hardware="TPU v5e 4x2",
                engine="slurm",
                options={},
                dollars_per_device_hour=None,
            )
        )
    rosa = room.enter("rosa")
    rosa.do("hardware", chip="TPU v5e", shape="4x2")
    rosa.do("run", steps="20")
    assert the_job(room).engine == "slurm"


def test_a_job_goes_on_when_the_rooms_process_dies(room, jobs):
    rosa = room.enter("rosa")
    rosa.do("run", steps="20")
    the_job(room)
    room.kill()
    rosa.until(lambda page: page.boards == 2)
    assert the_job(room).cancel_asked is None
    jobs.hear(the_job(room).id, [], "done")
    assert asyncio.run(jobs._services.jobs.events(the_job(room).id, 0, 10)) == []


def test_where_there_is_no_queue_the_board_says_so(room):
    rosa = room.enter("rosa")
    rosa.do("run", steps="20")
    rosa.until(lambda page: "This server runs no jobs." in str(page.board["live"]))
