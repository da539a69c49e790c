"""Jobs from the queue to their end, as real processes of this machine."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.support.team_jobs import (
    DIGEST,
    Heard,
    dispatching,
    in_a_process,
    job_of,
    job_store,
    states_of,
    tiny_command,
    tiny_spec,
    wait_until,
)
from tests.support.team_rooms import FailingStore
from tests.support.team_server import new_store
from workbench.team.jobs.dispatcher import Dispatcher
from workbench.team.jobs.job_folder import read_exit
from workbench.team.jobs.job_spec import JobError
from workbench.team.jobs.local_engine import EngineUnavailableError, LocalEngine
from workbench.team.jobs.queue import JobLimits
from workbench.team.store.tables import StoredFigures, StoredPlan
from workbench.team.web.team_services import JobRequest


def dispatcher_of(store, tmp_path, **options):
    return Dispatcher(store, tmp_path / "jobs", [LocalEngine()], command=tiny_command, **options)


def test_a_job_runs_is_followed_and_leaves_its_figures(store, tmp_path):
    with dispatching(dispatcher_of(store, tmp_path)) as dispatcher:
        heard = Heard(dispatcher)
        job_id = dispatcher.put(tiny_spec(steps=3), "here", project_id="alpha", author_id="ada")
        heard.wait_for(lambda it: "done" in it.states(job_id))
        assert dispatcher.is_ready()
        assert [each.seq for each in dispatcher.read_events(job_id, 2)] == [3, 4, 5, 6]
    assert heard.kinds(job_id) == ["started", "progress", "progress", "progress", "measured", "done"]
    row = job_of(store, job_id)
    assert (row.state, row.problem, row.summary["step"], row.summary["of"], row.summary["loss"]) == ("done", "", 3, 3, 0.5)
    with store.read() as session:
        figures = session.get_one(StoredFigures, (DIGEST, "measured"))
    assert (figures.job_id, figures.values["peak_bytes"], figures.values["step_seconds"], figures.values["fits"]) == (
        job_id,
        100,
        0.01,
        True,
    )
    names = {each.name for each in (tmp_path / "jobs" / job_id).iterdir()}
    assert names == {"plan.json", "spec.json", "started", "events.jsonl", "stdout", "stderr", "supervisor", "exit"}


def test_a_job_that_runs_is_cancelled_and_says_so_itself(store, tmp_path):
    with dispatching(dispatcher_of(store, tmp_path)) as dispatcher:
        heard = Heard(dispatcher)
        job_id = dispatcher.put(tiny_spec(steps=10_000, options={"pause": "10"}), "here", project_id="alpha", author_id="ada")
        heard.wait_for(lambda it: "started" in it.kinds(job_id))
        dispatcher.end(job_id)
        heard.wait_for(lambda it: "cancelled" in it.states(job_id))
    assert heard.kinds(job_id) == ["started", "cancelled"]
    assert (job_of(store, job_id).state, read_exit(tmp_path / "jobs" / job_id)["reason"]) == ("cancelled", "cancelled")


def test_a_job_that_waits_is_cancelled_at_once_and_never_begun(store, tmp_path):
    dispatcher = dispatcher_of(store, tmp_path)
    job_id = dispatcher.put(tiny_spec(), "here", project_id="alpha", author_id="ada")
    dispatcher.end(job_id)
    with dispatching(dispatcher):
        other = dispatcher.put(tiny_spec(), "here", project_id="alpha", author_id="ada")
        wait_until(lambda: states_of(store)[other] == "done")
    assert (states_of(store)[job_id], (tmp_path / "jobs" / job_id).exists()) == ("cancelled", False)
    dispatcher.end(other)  # it has ended: nothing happens
    assert states_of(store)[other] == "done"


FAULTS = {
    "crashes": ("kill -SEGV $$", "crashed: signal 11"),
    "is killed": ("kill -KILL $$", "The job's process was killed (SIGKILL)."),
    "fails": ("echo broken >&2; exit 3", "ended with exit code 3, without its result. Last output: broken"),
    "says nothing": ("exit 0", "ended with exit code 0, without its result"),
    "tears a line": ("""printf '{"seq": 1, "ti' >> "$0"; kill -SEGV $$""", "crashed: signal 11"),
}


@pytest.mark.compile
@pytest.mark.parametrize("fault", FAULTS)
def test_a_job_that_ends_badly_ends_with_a_sentence(fault, store, tmp_path):
    script, sentence = FAULTS[fault]
    dispatcher = Dispatcher(
        store, tmp_path / "jobs", [LocalEngine()], command=lambda _, folder, __: ["/bin/sh", "-c", script, str(folder / "events.jsonl")]
    )
    with dispatching(dispatcher):
        job_id = dispatcher.put(tiny_spec(), "here", project_id="alpha", author_id="ada")
        wait_until(lambda: states_of(store)[job_id] == "failed")
    assert sentence in job_of(store, job_id).problem
    assert [each.kind for each in dispatcher.read_events(job_id)] == ["failed"]


def test_the_limit_of_minutes_ends_a_job_with_what_it_has_started(store, tmp_path):
    command = ["/bin/sh", "-c", "sleep 1000 & echo $! > %s; wait"]
    dispatcher = Dispatcher(store, tmp_path / "jobs", [LocalEngine()], command=lambda *_: [*command[:2], command[2] % (tmp_path / "child")])
    with dispatching(dispatcher):
        job_id = dispatcher.put(tiny_spec(minutes=0.005), "here", project_id="alpha", author_id="ada")
        wait_until(lambda: states_of(store)[job_id] == "failed")
    assert job_of(store, job_id).problem.startswith("The job was ended after 0.005 minutes, its limit.")
    child = int((tmp_path / "child").read_text())
    wait_until(lambda: not Path(f"/proc/{child}/exe").exists())


def test_a_command_that_does_not_exist_ends_the_job_with_a_sentence(store, tmp_path):
    with dispatching(Dispatcher(store, tmp_path / "jobs", [LocalEngine()], command=lambda *_: ["/no/such/program"])) as dispatcher:
        job_id = dispatcher.put(tiny_spec(), "here", project_id="alpha", author_id="ada")
        wait_until(lambda: states_of(store)[job_id] == "failed")
    assert job_of(store, job_id).problem.startswith("The job's command did not start: No such file")


SERVER = """
import sys, time
from pathlib import Path
from tests.support.team_jobs import tiny_command
from workbench.team.jobs.dispatcher import Dispatcher
from workbench.team.jobs.local_engine import LocalEngine
from workbench.team.store.store import Store
folder = Path(sys.argv[1])
Dispatcher(Store.open(f"sqlite:///{folder}/team.db"), folder / "jobs", [LocalEngine()], command=tiny_command).start()
time.sleep(600)
"""


@pytest.mark.compile
def test_a_server_that_was_killed_leaves_its_jobs_to_the_next_one(store, tmp_path):
    first = dispatcher_of(store, tmp_path)  # not started: it only puts them into the queue
    ids = [first.put(tiny_spec(steps=150), "here", project_id="alpha", author_id=each) for each in ("ada", "bob")]
    with in_a_process(SERVER, str(tmp_path)) as server:
        wait_until(lambda: all(first.read_events(each, 1) for each in ids))
        server.send_signal(signal.SIGKILL)
    natives = [job_of(store, each).native for each in ids]
    assert set(states_of(store).values()) == {"running"}
    with dispatching(dispatcher_of(store, tmp_path)) as second:
        heard = Heard(second)
        second.end(ids[0])
        heard.wait_for(lambda it: "cancelled" in it.states(ids[0]) and "done" in it.states(ids[1]))
    assert second.lanes["here"].reattached == 2
    assert [job_of(store, each).native for each in ids] == natives
    started = [sum(each.kind == "started" for each in second.read_events(job_id)) for job_id in ids]
    assert started == [1, 1]


@pytest.mark.compile
def test_what_a_killed_server_did_not_come_to_note_is_found_and_not_run_twice(store, tmp_path):
    """The server was killed when the engine had the job, and its row did not say so yet."""
    dispatcher = dispatcher_of(store, tmp_path)
    job_id = dispatcher.put(tiny_spec(steps=100), "here", project_id="alpha", author_id="ada")
    with dispatching(dispatcher):
        wait_until(lambda: job_of(store, job_id).state == "running" and bool(dispatcher.read_events(job_id)))
    with store.write() as session:
        row = session.get_one(type(job_of(store, job_id)), job_id)
        row.state, row.native = "starting", None
    with dispatching(dispatcher_of(store, tmp_path)) as second:
        wait_until(lambda: states_of(store)[job_id] == "done")
    assert sum(each.kind == "started" for each in second.read_events(job_id)) == 1


def test_a_disk_that_is_full_meanwhile_loses_no_job(tmp_path, caplog):
    """The job is claimed, and from then to its end nothing can be noted."""
    store = job_store(tmp_path, new_store(tmp_path, kind=FailingStore))

    def fill_disk(*arguments):
        store.full = True
        return tiny_command(*arguments)

    with dispatching(Dispatcher(store, tmp_path / "jobs", [LocalEngine()], command=fill_disk)) as dispatcher:
        job_id = dispatcher.put(tiny_spec(), "here", project_id="alpha", author_id="ada")
        wait_until(lambda: read_exit(tmp_path / "jobs" / job_id) and not dispatcher.is_ready())
        assert states_of(store) == {job_id: "starting"}
        store.full = False
        wait_until(lambda: states_of(store) == {job_id: "done"} and dispatcher.is_ready())
    assert sum(each.kind == "started" for each in dispatcher.read_events(job_id)) == 1
    assert sum("could not be checked" in each for each in caplog.messages) == 1
    store.close()


def test_a_folder_that_two_supervisors_are_given_is_run_by_one(store, tmp_path):
    dispatcher = dispatcher_of(store, tmp_path)
    job_id = dispatcher.put(tiny_spec(steps=30), "here", project_id="alpha", author_id="ada")
    engine, folder = LocalEngine(), tmp_path / "jobs" / job_id
    dispatcher._write_folder(job_id, tiny_spec(steps=30), engine)
    natives = [engine.submit(tiny_spec(), folder) for _ in range(3)]
    wait_until(lambda: read_exit(folder) and all(engine.state(each) == "gone" for each in natives))
    assert [each.kind for each in dispatcher.read_events(job_id)].count("started") == 1
    assert len(dispatcher.read_events(job_id)) == 33


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_a_job_that_nobody_knows_any_more_ends_with_a_sentence(store, tmp_path):
    dispatcher = dispatcher_of(store, tmp_path)
    job_id = dispatcher.put(tiny_spec(steps=10_000), "here", project_id="alpha", author_id="ada")
    with dispatching(dispatcher):
        wait_until(lambda: job_of(store, job_id).state == "running" and bool(dispatcher.read_events(job_id)))
    folder = tmp_path / "jobs" / job_id
    supervisor = json.loads((folder / "started").read_text())["pid"]
    (child,) = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
    os.kill(supervisor, signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{child}/exe").exists())  # it ends with its supervisor
    with dispatching(dispatcher_of(store, tmp_path)) as second:
        wait_until(lambda: states_of(store)[job_id] == "failed")
        assert second.read_events(job_id)[-1].kind == "failed"
    assert "no longer knows the job" in job_of(store, job_id).problem


class LateEngine(LocalEngine):
    """An engine that does not answer the first two times."""

    def __init__(self) -> None:
        self.asked = 0

    def submit(self, spec, folder):
        self.asked += 1
        if self.asked <= 2:
            raise EngineUnavailableError("It does not answer.", ["try again"])
        return super().submit(spec, folder)


def test_an_engine_that_does_not_answer_is_asked_again(store, tmp_path, monkeypatch):
    monkeypatch.setattr("workbench.team.jobs.engine_lane.SUBMIT_AGAIN", 0.05)
    with dispatching(Dispatcher(store, tmp_path / "jobs", [LateEngine()], command=tiny_command)) as dispatcher:
        job_id = dispatcher.put(tiny_spec(), "here", project_id="alpha", author_id="ada")
        wait_until(lambda: states_of(store)[job_id] == "done")
    assert dispatcher.lanes["here"].engine.asked == 3


@pytest.mark.parametrize("ending", ["failed", "cancelled"])
def test_an_engine_that_never_answers_is_given_up(ending, store, tmp_path, monkeypatch):
    monkeypatch.setattr("workbench.team.jobs.engine_lane.SUBMIT_AGAIN", 0.05)
    monkeypatch.setattr("workbench.team.jobs.engine_lane.GIVE_UP", 0.2 if ending == "failed" else 300.0)
    monkeypatch.setattr(LateEngine, "submit", lambda *_: (_ for _ in ()).throw(EngineUnavailableError("It does not answer.", ["wait"])))
    with dispatching(Dispatcher(store, tmp_path / "jobs", [LateEngine()], command=tiny_command)) as dispatcher:
        job_id = dispatcher.put(tiny_spec(), "here", project_id="alpha", author_id="ada")
        if ending == "cancelled":
            wait_until(lambda: states_of(store)[job_id] == "starting")
            dispatcher.end(job_id)
        wait_until(lambda: states_of(store)[job_id] == ending)
    assert ("It does not answer." in job_of(store, job_id).problem) is (ending == "failed")


def test_a_listener_that_fails_ends_nothing(store, tmp_path, caplog):
    with dispatching(dispatcher_of(store, tmp_path)) as dispatcher:
        stop = dispatcher.listen(lambda *_: 1 / 0)
        heard = Heard(dispatcher)
        job_id = dispatcher.put(tiny_spec(), "here", project_id="alpha", author_id="ada")
        heard.wait_for(lambda it: "done" in it.states(job_id))
        stop(), stop()
    assert "A listener to jobs failed." in caplog.text


REFUSED = {
    "engine": (tiny_spec(), "nowhere", "There is no engine `nowhere` on this server; there are `here`."),
    "devices": (tiny_spec(devices=100), "here", "The job takes 100 devices, and here has 64 in total."),
    "minutes": (tiny_spec(minutes=3000), "here", "The job asks for 3000 minutes, and here gives 1440."),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_could_never_run_is_refused_at_once(case, store, tmp_path):
    spec, engine, message = REFUSED[case]
    with pytest.raises(JobError) as caught:
        dispatcher_of(store, tmp_path).put(spec, engine, project_id="alpha", author_id="ada")
    assert caught.value.message == message


def test_a_compilation_and_a_search_take_none_of_the_devices_of_their_plan(store, tmp_path):
    with store.write() as session:
        session.get_one(StoredPlan, DIGEST).devices = 4096
    dispatcher = dispatcher_of(store, tmp_path)
    for kind in ("compile", "search"):
        job_id = asyncio.run(dispatcher.submit(JobRequest(project_id="alpha", author_id="ada", digest=DIGEST, kind=kind)))
        assert job_of(store, job_id).spec["devices"] == 1
    with pytest.raises(JobError, match="takes 4,096 devices"):
        asyncio.run(dispatcher.submit(JobRequest(project_id="alpha", author_id="ada", digest=DIGEST)))


def test_nobody_is_served_beyond_the_limits(store, tmp_path):
    limits = {"here": JobLimits(jobs=3, person=2)}
    with dispatching(dispatcher_of(store, tmp_path, limits=limits)) as dispatcher:
        heard = Heard(dispatcher)
        ids = [dispatcher.put(tiny_spec(steps=5), "here", project_id="alpha", author_id="ada") for _ in range(5)]
        heard.wait_for(lambda it: all("done" in it.states(each) for each in ids))
    running, most = set(), 0
    for job_id, _, state in heard.calls:
        running = running | {job_id} if state == "running" else running - {job_id}
        most = max(most, len(running))
    assert most <= 2
