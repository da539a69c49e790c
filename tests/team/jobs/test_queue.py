"""The queue: who is served when, under which limits, by several servers at a time, in SQLite and PostgreSQL."""

import random
import threading
from collections import Counter

import pytest
from sqlalchemy import select

from tests.support.team_jobs import (
    DIGEST,
    PEOPLE,
    dispatching,
    in_a_process,
    job_of,
    states_of,
    tiny_command,
    tiny_spec,
    wait_until,
)
from workbench.team.jobs.dispatcher import Dispatcher
from workbench.team.jobs.job_spec import JobError
from workbench.team.jobs.local_engine import LocalEngine
from workbench.team.jobs.queue import JobLimits, JobResult, active_jobs, ask_to_cancel, claim, enqueue, finish, mark_running
from workbench.team.store.tables import StoredFigures, StoredJob

WIDE = JobLimits(jobs=10_000, devices=1 << 20, person=10_000, project=10_000)


@pytest.fixture
def store(either_store):
    return either_store


def put(store, author, project="alpha", **options):
    return enqueue(store, tiny_spec(**options), "here", project_id=project, author_id=author, limits=WIDE)


def end(store, job_id):
    assert finish(store, job_id, JobResult("done", {}))


@pytest.mark.compile
def test_five_people_are_served_in_turn_whoever_came_first_and_with_however_many(store):
    for each in PEOPLE:
        for _ in range(8):
            put(store, each)
    served = []
    for _ in range(40):
        job = claim(store, "here", WIDE)
        served.append(job.author_id)
        end(store, job.id)
    assert claim(store, "here", WIDE) is None
    counts = Counter()
    for each in served:
        counts[each] += 1
        assert max(counts.values()) - min(counts[name] for name in PEOPLE) <= 1


def test_who_has_fewest_running_is_served_first_and_nobody_gets_two_more(store):
    for _ in range(6):
        put(store, "ada")
    first = [claim(store, "here", WIDE).author_id for _ in range(3)]
    for _ in range(3):
        put(store, "bob")
    assert first == ["ada"] * 3
    assert [claim(store, "here", WIDE).author_id for _ in range(6)] == ["bob", "bob", "bob", "ada", "ada", "ada"]


def test_of_people_who_are_equal_the_projects_are_served_in_turn(store):
    ids = [put(store, "ada", project) for project in ("alpha", "alpha", "beta", "alpha", "beta")]
    order = []
    while (job := claim(store, "here", WIDE)) is not None:
        order.append((job.project_id, job.id))
        end(store, job.id)
    assert [project for project, _ in order] == ["alpha", "beta", "alpha", "beta", "alpha"]
    assert [job_id for project, job_id in order if project == "alpha"] == [ids[0], ids[1], ids[3]]


LIMITS = {
    "jobs": (JobLimits(jobs=2), 2),
    "devices": (JobLimits(devices=7), 3),
    "person": (JobLimits(person=1), 2),
    "project": (JobLimits(project=1), 1),
}


@pytest.mark.compile
@pytest.mark.parametrize("limit", LIMITS)
def test_no_more_are_claimed_than_a_limit_says_until_one_has_ended(limit, store):
    limits, most = LIMITS[limit]
    for each in ("ada", "bob", "ada", "bob"):
        put(store, each, devices=2)
    claimed = []
    while (job := claim(store, "here", limits)) is not None:
        claimed.append(job.id)
    assert len(claimed) == most
    end(store, claimed[0])
    assert claim(store, "here", limits) is not None
    assert claim(store, "here", limits) is None


def test_jobs_beside_each_other_share_the_memory_of_the_machine(store):
    gib = 1 << 30
    first = put(store, "ada", host_bytes=9 * gib)
    second = put(store, "bob", host_bytes=9 * gib)
    unknown = put(store, "cyd")
    assert claim(store, "here", WIDE, 16 * gib).id == first
    assert claim(store, "here", WIDE, 16 * gib) is None, "the next needs more than is left, and those behind it wait with it"
    end(store, first)
    assert claim(store, "here", WIDE, 16 * gib).id == second
    assert claim(store, "here", WIDE, 16 * gib).id == unknown, "nothing is known of what it needs"
    assert claim(store, "here", WIDE, 16 * gib) is None
    too_large = put(store, "ada", host_bytes=20 * gib)
    assert claim(store, "here", WIDE, 16 * gib) is None
    end(store, second)
    assert claim(store, "here", WIDE, 16 * gib).id == too_large, "alone it is tried, and refused where it begins"


def test_jobs_of_before_say_nothing_of_their_memory(store):
    first = put(store, "ada")
    with store.write() as session:
        row = session.get_one(StoredJob, first)
        row.spec = {name: value for name, value in row.spec.items() if name != "host_bytes"}
    second = put(store, "bob", host_bytes=9)
    assert {claim(store, "here", WIDE, 10).id for _ in range(2)} == {first, second}


def test_a_large_job_is_not_starved_by_small_ones(store):
    limits = JobLimits(devices=8)
    small = [put(store, "ada", devices=4) for _ in range(2)]
    assert [claim(store, "here", limits).id for _ in range(2)] == small
    large = put(store, "bob", devices=8)
    put(store, "ada", devices=4)
    end(store, small[0])
    assert claim(store, "here", limits) is None  # four devices are free, and wait for four more
    end(store, small[1])
    assert claim(store, "here", limits).id == large


def test_an_engine_takes_none_of_anothers(store):
    enqueue(store, tiny_spec(), "slurm", project_id="alpha", author_id="ada")
    assert claim(store, "here", WIDE) is None
    assert claim(store, "slurm", WIDE) is not None


@pytest.mark.compile
def test_several_that_claim_at_once_get_each_job_once(store):
    ids = [put(store, PEOPLE[i % 5]) for i in range(30)]
    claimed = []

    def take():
        while (job := claim(store, "here", WIDE)) is not None:
            claimed.append(job.id)

    threads = [threading.Thread(target=take) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    while (job := claim(store, "here", WIDE)) is not None:  # what was locked by another when the last of them looked
        claimed.append(job.id)
    assert sorted(claimed) == sorted(ids)


def test_a_job_ends_once_and_its_figures_keep_the_thumbnail(store):
    with store.write() as session:
        session.add(StoredFigures(digest=DIGEST, tier="measured", version="0", values={}, thumbnail="<svg/>", job_id=None, created=0.0))
    job_id = put(store, "ada")
    claim(store, "here", WIDE)
    mark_running(store, job_id, "1:2")
    assert [(each.state, each.native) for each in active_jobs(store, "here")] == [("running", "1:2")]
    result = JobResult("done", {"step": 3}, "", {"measured": {"peak_bytes": 7}}, "1.0")
    assert [finish(store, job_id, result), finish(store, job_id, JobResult("failed", {}))] == [True, False]
    with store.read() as session:
        figures = session.get_one(StoredFigures, (DIGEST, "measured"))
    assert (figures.values, figures.thumbnail, figures.job_id, figures.version) == ({"peak_bytes": 7}, "<svg/>", job_id, "1.0")
    assert job_of(store, job_id).state == "done"


def test_cancelling_a_job_that_there_is_not_is_refused(store):
    with pytest.raises(JobError, match="There is no job `nothing`"):
        ask_to_cancel(store, "nothing")


SERVER = """
import sys, time
from pathlib import Path
from tests.support.team_jobs import tiny_command
from workbench.team.jobs.dispatcher import Dispatcher
from workbench.team.jobs.local_engine import LocalEngine
from workbench.team.jobs.queue import JobLimits
from workbench.team.store.store import Store
folder = Path(sys.argv[1])
limits = {"here": JobLimits(jobs=6, person=6, project=6)}
Dispatcher(Store.open(f"sqlite:///{folder}/team.db"), folder / "jobs", [LocalEngine()], command=tiny_command, limits=limits).start()
time.sleep(600)
"""


def many_jobs(store, folder, count):
    """So many jobs of five people; a server that is killed in the middle, and another; some are cancelled meanwhile."""
    limits = {"here": JobLimits(jobs=6, person=6, project=6)}
    dispatcher = Dispatcher(store, folder / "jobs", [LocalEngine()], command=tiny_command, limits=limits)
    draw = random.Random(7)
    authors = [each for each in PEOPLE for _ in range(count // 5)]
    draw.shuffle(authors)
    ids = [
        dispatcher.put(tiny_spec(steps=draw.randint(1, 20)), "here", project_id=draw.choice(["alpha", "beta"]), author_id=each)
        for each in authors
    ]
    with in_a_process(SERVER, str(folder)) as server:
        wait_until(lambda: is_amid(states_of(store), count), 300.0)
        server.kill()
    under_way = {job_id for job_id, state in states_of(store).items() if state == "running"}
    waiting = [job_id for job_id, state in states_of(store).items() if state == "queued"]
    cancelled = draw.sample(waiting, 5)
    with dispatching(dispatcher):
        for each in cancelled:
            dispatcher.end(each)
        wait_until(lambda: not set(states_of(store).values()) & {"queued", "starting", "running"}, 300.0)
    return dispatcher, ids, under_way, cancelled


def is_amid(states, count):
    """Whether a third has ended, and several run."""
    found = Counter(states.values())
    return found["done"] >= count // 3 and found["running"] >= 3


def verify_many_jobs(store, folder, count):
    dispatcher, ids, under_way, cancelled = many_jobs(store, folder, count)
    states = states_of(store)
    assert {job_id for job_id, state in states.items() if state == "cancelled"} <= set(cancelled)
    assert {state for job_id, state in states.items() if job_id not in cancelled} == {"done"}
    kinds = {job_id: [each.kind for each in dispatcher.read_events(job_id)] for job_id in ids if states[job_id] == "done"}
    assert all(found.count("started") == found.count("done") == 1 for found in kinds.values())  # none is lost, none has run twice
    assert dispatcher.lanes["here"].reattached >= len(under_way)
    assert all((folder / "jobs" / each).exists() for each in kinds)
    verify_fair_share(store)


def verify_fair_share(store):
    """Whoever was served had fewest running of those who waited: with the job, at most one more than they."""
    with store.read() as session:
        jobs = [each for each in session.scalars(select(StoredJob).order_by(StoredJob.started)) if each.started]
    for position, job in enumerate(jobs):
        waiting = {each.author_id for each in jobs[position + 1 :]}
        running = Counter(each.author_id for each in jobs[:position] if each.ended > job.started)
        assert all(running[job.author_id] <= running[other] for other in waiting - {job.author_id})


@pytest.mark.compile
def test_twenty_five_jobs_of_five_people_over_a_killed_server(sqlite_store, tmp_path):
    verify_many_jobs(sqlite_store, tmp_path, 25)


@pytest.mark.nightly
def test_two_hundred_jobs_of_five_people_over_a_killed_server(sqlite_store, tmp_path):
    verify_many_jobs(sqlite_store, tmp_path, 200)
