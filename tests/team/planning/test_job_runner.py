"""A run of a room's board is a job of the team: what the server says of it is what the board hears."""

import json
from dataclasses import replace

import pytest

from tests.support.room_sessions import first_plan
from workbench.documents import measurement_record
from workbench.reports.measurement import Measurement, ShardCheck
from workbench.reports.run_events import Cancelled, Failed, Progress, RunDone, StepDone, Waiting
from workbench.team.planning.grade_answers import describe_plan
from workbench.team.planning.job_runner import TeamJobs, measurement_of

PLAN = first_plan()
MEASURED = Measurement(
    device_kind="cpu",
    devices=8,
    processes=1,
    compile_seconds=1.5,
    step_seconds=(0.1, 0.2, 0.15),
    losses=(3.0, 2.0, 1.0),
    shards=(ShardCheck("w", (8, 8), (8, 8)),),
    compiled={(("data",), "all-reduce"): 512},
    compiled_peak=4096,
    max_error=0.0,
)
FIGURES = json.loads(json.dumps(measurement_record(MEASURED)))


class Server:
    """What a room's process sends, and what its board hears of the run that was begun last."""

    def __init__(self):
        self.sent, self.heard = [], []
        self.jobs = TeamJobs(self.sent.append)

    def start(self, visitor=1):
        return self.jobs.start(PLAN, 20, self.heard.append, visitor)

    def tell(self, state, *events, job=1, **more):
        self.jobs.tell({"job": job, "state": state, "events": list(events), **more})


@pytest.fixture
def server():
    return Server()


def test_a_measurement_is_read_back_but_for_what_is_left_out():
    assert measurement_of(FIGURES) == MEASURED


@pytest.mark.parametrize("error", [0.5, float("inf")])
def test_a_wrong_result_is_wrong_when_it_is_read_back(error):
    wrong = replace(MEASURED, max_error=error, explained_error=1e-5, first_wrong="grad/conv (model.py:3)")
    assert measurement_of(json.loads(json.dumps(measurement_record(wrong)))) == wrong
    assert wrong.is_wrong


def test_a_run_is_submitted_with_all_that_the_gallery_keeps_of_its_plan(server):
    server.start(visitor=7)
    [sent] = server.sent
    assert sent["run"]["digest"] == describe_plan(PLAN, PLAN.report()).digest
    assert (sent["name"], sent["steps"], sent["job"], sent["visitor"]) == ("two-layer", 20, 1, 7)
    json.dumps(sent)


def test_a_run_waits_works_and_ends_with_what_it_measured(server):
    server.start()
    server.tell("queued", ahead=2)
    server.tell("running")
    server.tell("running", {"kind": "progress", "stage": "compiling", "fraction": 0.5, "seconds": 1.0})
    server.tell("running", {"kind": "progress", "step": 1, "of": 20, "seconds": 0.1, "loss": 3.0})
    server.tell("done", {"kind": "measured", "figures": FIGURES}, {"kind": "done"})
    assert server.heard == [Waiting(2), Progress("starting"), Progress("compiling", 0.5, 1.0), StepDone(1, 20, 0.1, 3.0), RunDone(MEASURED)]
    server.tell("running", {"kind": "progress", "stage": "late", "fraction": 0.5, "seconds": 1.0})
    assert len(server.heard) == 5, "it is over"


@pytest.mark.parametrize(
    ("state", "events", "end"),
    [
        ("cancelled", [], Cancelled()),
        (
            "failed",
            [{"kind": "failed", "message": "Out of memory.", "ways_out": ["shard more"]}],
            Failed("Out of memory.", ("shard more",)),
        ),
        ("failed", [], Failed("The job ended without a result.", ("see its output on its page",))),
        ("done", [], Failed("The job ended without a result.", ("see its output on its page",))),
    ],
    ids=["cancelled", "failed", "without a word", "without figures"],
)
def test_how_a_run_ended_is_heard_once(server, state, events, end):
    server.start()
    server.tell(state, *events)
    server.tell(state, *events)
    assert server.heard == [end]


@pytest.mark.parametrize(
    "event",
    [
        {"kind": "measured", "figures": {}},
        {"kind": "measured", "figures": {**FIGURES, "shards": 7}},
        {"kind": "measured", "figures": {**FIGURES, "step_seconds": None}},
        {"kind": "progress"},
        {"kind": "progress", "step": 1},
        {"kind": "failed"},
        {},
    ],
)
def test_what_a_job_writes_that_makes_no_sense_ends_it_in_words(server, event):
    """It runs somebody's program, which may write what it likes."""
    server.start()
    server.tell("running", event)
    [end] = server.heard
    assert isinstance(end, Failed)
    assert end.message.startswith("The result of the job cannot be read: ")


def test_what_keeps_a_run_from_being_submitted_is_heard(server):
    server.start()
    server.jobs.tell({"job": 1, "problem": {"message": "This server runs no jobs.", "ways_out": ["ask its administrator"]}})
    assert server.heard == [Failed("This server runs no jobs.", ("ask its administrator",))]


def test_a_run_is_cancelled_by_asking_the_server(server):
    handle = server.start()
    handle.cancel()
    assert server.sent[-1] == {"cancel": 1}
    assert server.heard == []
    server.tell("cancelled")
    assert server.heard == [Cancelled()]


def test_each_run_hears_of_itself(server):
    first, second = [], []
    for heard in (first, second):
        server.jobs.start(PLAN, 20, heard.append, 1)
    server.tell("cancelled", job=2)
    server.tell("queued", job=3)
    assert (first, second) == ([], [Cancelled()])
