"""A run is held against the memory of where it would run, when it is submitted and when it begins, and leaves the server some."""

import asyncio
import json
import resource

import pytest

from tests.support.team_jobs import DIGEST, dispatching, job_of, states_of, tiny_spec, wait_until
from workbench.core.memory_limits import machine_memory
from workbench.team.jobs import dispatcher
from workbench.team.jobs.dispatcher import Dispatcher, JobMemory, most_reliable_peak, own_memory, verify_fits
from workbench.team.jobs.job_spec import JobError
from workbench.team.jobs.local_engine import LocalEngine
from workbench.team.jobs.queue import JobLimits, JobResult, finish
from workbench.team.jobs.slurm import Slurm
from workbench.team.store.tables import StoredFigures, StoredPlan
from workbench.team.web.team_services import JobRequest

GIB = 1 << 30
SMALL = JobMemory(24 * GIB, 20 * GIB)
NEEDS_TOO_MUCH = (
    "The run needs 8 x 27.0 GiB = 216 GiB of memory on this server, which has 24.0 GiB; jobs may use 20.0 GiB of that.\n"
    "  Try: choose fewer devices · choose a smaller batch or a layout that needs less memory · choose another engine."
)
SHOW_LIMITS = ["/bin/sh", "-c", "ulimit -d; cat /proc/self/oom_score_adj"]


@pytest.fixture
def needs(store):
    """Sets what the plan of the tests needs."""

    def needs(devices, peak, tier="planned"):
        with store.write() as session:
            session.get_one(StoredPlan, DIGEST).devices = devices
            figures = {"values": {"peak_bytes": peak}, "version": "0", "created": 0.0}
            session.merge(StoredFigures(digest=DIGEST, tier=tier, **figures))

    return needs


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr("workbench.team.jobs.dispatcher.own_memory", lambda _environment: SMALL)


def dispatcher_of(store, tmp_path, engine=None, **limits):
    engine = engine or LocalEngine()
    command = lambda *_: SHOW_LIMITS  # noqa: E731
    return Dispatcher(store, tmp_path / "jobs", [engine], command=command, limits={engine.name: JobLimits(**limits)})


def submit(dispatcher, **options):
    request = JobRequest(project_id="alpha", author_id="ada", digest=DIGEST, **options)
    return asyncio.run(dispatcher.submit(request))


def test_a_run_that_needs_more_than_there_is_is_refused_with_the_arithmetic(store, tmp_path, needs, small):
    needs(8, 27 * GIB)
    with pytest.raises(JobError) as caught:
        submit(dispatcher_of(store, tmp_path))
    assert str(caught.value) == NEEDS_TOO_MUCH
    assert states_of(store) == {}
    assert submit(dispatcher_of(store, tmp_path), kind="compile")


def test_what_fits_is_taken_and_the_surest_figure_counts(store, tmp_path, needs, small):
    needs(8, 27 * GIB)
    needs(8, 2.5 * GIB, "partitioned")
    assert submit(dispatcher_of(store, tmp_path))


def test_a_run_that_waited_while_the_memory_shrank_is_refused_when_it_begins(store, tmp_path, needs, small, monkeypatch):
    needs(8, 27 * GIB)
    dispatcher = dispatcher_of(store, tmp_path)
    job_id = dispatcher.put(tiny_spec(devices=8), "here", project_id="alpha", author_id="ada")
    with dispatching(dispatcher):
        wait_until(lambda: states_of(store)[job_id] == "failed")
    assert job_of(store, job_id).problem == NEEDS_TOO_MUCH
    assert not (tmp_path / "jobs" / job_id / "started").exists()


def test_two_runs_that_fit_only_one_after_the_other_run_so(store, tmp_path, needs, small):
    needs(2, 6 * GIB)
    dispatcher = dispatcher_of(store, tmp_path)
    first, second = (submit(dispatcher, steps=steps) for steps in (1, 2))
    assert [job_of(store, each).spec["host_bytes"] for each in (first, second)] == [12 * GIB] * 2
    lane = dispatcher.lanes["here"]
    assert lane.claim().id == first
    assert lane.claim() is None
    finish(store, first, JobResult("done", {}))
    assert lane.claim().id == second


def test_of_another_engine_what_its_limits_say_of_each_host_counts(store, tmp_path, needs):
    needs(8, 27 * GIB)
    known = dispatcher_of(store, tmp_path, Slurm(), memory=100 * GIB)
    with pytest.raises(JobError, match=r"4 x 27\.0 GiB = 108 GiB of memory on each of 2 hosts, which has 100 GiB; jobs may use 100 GiB"):
        submit(known, engine="slurm", hosts=2)
    assert submit(known, engine="slurm", hosts=4)
    assert submit(dispatcher_of(store, tmp_path, Slurm()), engine="slurm"), "what is not known is not refused"


def test_of_this_machine_the_limits_can_only_take_away(store, tmp_path, needs, small):
    needs(2, 9 * GIB)
    assert submit(dispatcher_of(store, tmp_path, memory=100 * GIB))
    with pytest.raises(JobError, match=r"which has 24\.0 GiB; jobs may use 16\.0 GiB of that"):
        submit(dispatcher_of(store, tmp_path, memory=16 * GIB))


def test_a_job_may_allocate_its_share_and_ends_before_the_server(store, tmp_path, needs, small):
    with dispatching(dispatcher_of(store, tmp_path)) as dispatcher:
        job_id = dispatcher.put(tiny_spec(processes=2, devices=2), "here", project_id="alpha", author_id="ada")
        wait_until(lambda: states_of(store)[job_id] == "failed")  # it reports nothing
    folder = tmp_path / "jobs" / job_id
    assert json.loads((folder / "spec.json").read_text())["data_limit"] == 10 * GIB
    most, score = (folder / "stdout").read_text().split()
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    expected = 10 * GIB if hard == resource.RLIM_INFINITY else min(10 * GIB, hard)
    assert (int(most) * 1024, score) == (expected, "1000")


def test_the_memory_of_this_machine_leaves_the_server_some_and_is_unknown_where_accelerators_have_their_own(tmp_path, monkeypatch):
    found = own_memory({}, tmp_path)
    assert found.total == machine_memory()
    assert 0 < found.usable <= found.total - dispatcher.LEAST_RESERVE
    (tmp_path / "nvidia0").touch()
    assert own_memory({}, tmp_path) is None
    assert own_memory({"JAX_PLATFORMS": "cpu"}, tmp_path) == found
    monkeypatch.setattr(dispatcher, "machine_memory", lambda: GIB)
    assert own_memory({}, tmp_path / "none").usable == 0


def test_what_is_not_known_is_not_refused():
    spec = tiny_spec(devices=8)
    for peak, memory in ((None, SMALL), (0.0, SMALL), (100 * GIB, None)):
        verify_fits(spec, peak, memory, 1)
    assert most_reliable_peak({"measured": {"peak_bytes": 1.0}}) is None, "of another machine"
    assert most_reliable_peak({"planned": {"peak_bytes": 1.0}, "partitioned": {"peak_bytes": None}}) == 1.0


def test_a_control_group_bounds_the_memory(tmp_path, monkeypatch):
    whole = machine_memory()
    (tmp_path / "memory.max").write_text("1048576\n")
    monkeypatch.setattr("workbench.core.memory_limits.memory_groups", lambda: iter([tmp_path]))
    assert machine_memory() == 1 << 20
    (tmp_path / "memory.max").write_text("max\n")
    assert machine_memory() >= whole
