"""Runs and compilations of all boards: so many at a time, first come first served, and every ending gives its slot back."""

import threading

import pytest

from tests.support.scripted import compiled, measurement
from tests.widgets.test_board import Screen
from workbench.app.runners.job_queue import RUN_LIMIT, JobQueue
from workbench.app.runners.queued_runner import QueuedRunner
from workbench.app.runners.worker_runner import WorkerRunner
from workbench.errors import EngineError
from workbench.hardware.catalogue import parse_hardware
from workbench.public_plan import Plan
from workbench.reports.run_events import Cancelled, CompileDone, Failed, Progress, RunDone, StepDone, Waiting
from workbench.session.plan_history import Session

DONE, CANCELLED = RunDone(None), Cancelled()


class Job:
    def __init__(self, plan, tell):
        self.plan, self.tell, self.cancels = plan, tell, 0

    def cancel(self):
        self.cancels += 1


class Jobs:
    """A runner that keeps what was started; the test tells their events."""

    def __init__(self, error=None):
        self.started, self.error = [], error

    def start(self, plan, steps, on_event):  # noqa: ARG002 - a runner's
        return self.compile(plan, on_event)

    def compile(self, plan, on_event, *, behind=False):  # noqa: ARG002 - a runner's
        if self.error is not None:
            raise self.error
        self.started.append(Job(plan, on_event))
        return self.started[-1]


class Line:
    """What each of those who stand in a queue was told, by name."""

    def __init__(self, **limits):
        self.queue, self.told = JobQueue(**limits), {}

    def enter(self, name, kind="run"):
        self.told[name] = []
        return self.queue.enter(kind, self.told[name].append)


def test_first_come_first_served_and_each_knows_how_many_are_ahead():
    line = Line(runs=1)
    tickets = {name: line.enter(name) for name in "abcd"}
    assert line.told == {"a": [0], "b": [1], "c": [2], "d": [3]}
    tickets["c"].leave()
    tickets["a"].leave()
    assert line.told == {"a": [0], "b": [1, 0], "c": [2], "d": [3, 2, 1]}
    tickets["b"].leave()
    assert line.told["d"] == [3, 2, 1, 0]


def test_a_place_is_left_once():
    line = Line(runs=1)
    first, _second, _third = (line.enter(name) for name in "abc")
    first.leave()
    first.leave()
    assert line.told == {"a": [0], "b": [1, 0], "c": [2, 1]}


def test_runs_and_compilations_have_lines_of_their_own():
    line = Line(runs=1, compilations=2)
    for name, kind in (("a", "run"), ("b", "compile"), ("c", "compile"), ("d", "compile"), ("e", "run")):
        line.enter(name, kind)
    assert line.told == {"a": [0], "b": [0], "c": [0], "d": [2], "e": [1]}


def test_who_cannot_be_told_leaves(caplog):
    line = Line(runs=1)
    first = line.enter("a")

    def gone(_ahead):
        raise BrokenPipeError

    line.queue.enter("run", gone)
    line.enter("c")
    assert line.told["c"] == [1]
    first.leave()
    assert line.told["c"] == [1, 0]
    assert "was removed" in caplog.text


def test_from_many_threads_never_more_than_the_limit_and_all_have_their_turn():
    queue, lock, at_work, most, told = JobQueue(runs=3), threading.Lock(), [0], [0], []

    def work():
        turn, mine = threading.Event(), []

        def moved(ahead):
            mine.append(ahead)
            if ahead == 0:
                with lock:
                    at_work[0] += 1
                    most[0] = max(most[0], at_work[0])
                turn.set()

        ticket = queue.enter("run", moved)
        assert turn.wait(30)
        with lock:
            at_work[0] -= 1
        ticket.leave()
        told.append(mine)

    threads = [threading.Thread(target=work) for _ in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert most[0] <= 3
    assert len(told) == 60
    assert all(mine == sorted(set(mine), reverse=True) for mine in told)  # never an older number after a newer one


@pytest.fixture
def plan(two_layer) -> Plan:
    return Plan(two_layer, "data:4 model:2", "batch:data")


def begin(runner, plan, name, heard):
    heard[name] = []
    return runner.start(plan, 3, heard[name].append)


def test_the_next_starts_when_one_ends_and_is_told_of_its_turn(plan):
    runner, heard = QueuedRunner(inner := Jobs(), JobQueue(runs=1)), {}
    for name in "abc":
        begin(runner, plan, name, heard)
    assert len(inner.started) == 1
    inner.started[0].tell(StepDone(1, 3, 0.1, None))
    assert len(inner.started) == 1
    inner.started[0].tell(DONE)
    assert len(inner.started) == 2
    assert heard["b"] == [Waiting(1), Progress("starting")]
    assert heard["c"] == [Waiting(2), Waiting(1)]
    assert [type(each) for each in heard["a"]] == [StepDone, RunDone]


@pytest.mark.parametrize("ending", [DONE, CANCELLED, Failed("out of memory")])
def test_each_ending_gives_one_slot_back_however_often_it_is_told(plan, ending):
    runner, heard = QueuedRunner(inner := Jobs(), JobQueue(runs=1)), {}
    handles = [begin(runner, plan, name, heard) for name in "abc"]
    inner.started[0].tell(ending)
    inner.started[0].tell(ending)
    handles[0].cancel()
    assert len(inner.started) == 2
    assert heard["a"] == [ending]


def test_a_job_is_cancelled_while_it_waits_and_never_starts(plan):
    runner, heard = QueuedRunner(inner := Jobs(), JobQueue(runs=1)), {}
    _, second, _third = (begin(runner, plan, name, heard) for name in "abc")
    second.cancel()
    second.cancel()
    assert heard["b"] == [Waiting(1), CANCELLED]
    assert heard["c"][-1] == Waiting(1)
    inner.started[0].tell(DONE)
    assert len(inner.started) == 2
    assert heard["b"][-1] == CANCELLED


def test_a_job_under_way_is_cancelled_by_its_runner(plan):
    runner, heard = QueuedRunner(inner := Jobs(), JobQueue(runs=1)), {}
    first, _second = (begin(runner, plan, name, heard) for name in "ab")
    first.cancel()
    assert (inner.started[0].cancels, len(inner.started)) == (1, 1)
    inner.started[0].tell(CANCELLED)
    assert len(inner.started) == 2


def test_what_cannot_start_says_so_and_gives_its_slot_back(plan, caplog):
    heard = {}
    for error, said in (
        (EngineError("A lambda cannot be sent."), "A lambda cannot be sent."),
        (OSError("no more processes"), "The workbench itself failed: OSError: no more processes"),
    ):
        runner = QueuedRunner(Jobs(error), queue := JobQueue(runs=1))
        begin(runner, plan, "a", heard)
        assert heard["a"] == [Failed(said)]
        begin(QueuedRunner(inner := Jobs(), queue), plan, "b", heard)
        assert len(inner.started) == 1
    assert "could not be started" in caplog.text


def test_who_breaks_at_hearing_an_event_gives_the_slot_back(plan):
    """The engine ends such a job, and tells nothing any more."""
    runner, heard = QueuedRunner(inner := Jobs(), JobQueue(runs=1)), {}
    runner.start(plan, 3, lambda event: heard[event])
    begin(runner, plan, "b", heard)
    with pytest.raises(KeyError):
        inner.started[0].tell(Progress("compiling", 0.2))
    assert len(inner.started) == 2


def test_what_is_compiled_for_the_attached_devices_waits_for_their_run(plan):
    runner = QueuedRunner(inner := Jobs(), JobQueue(runs=1, compilations=1))
    begin(runner, plan, "run", heard := {})
    runner.compile(plan, (here := []).append)
    runner.compile(plan.updated(hardware=parse_hardware("TPU v5e 4x2")), (there := []).append)
    assert (here, there, len(inner.started)) == ([Waiting(1)], [], 2)
    assert heard["run"] == []


def test_two_boards_press_run_and_the_second_waits_in_words(plan):
    runner = QueuedRunner(inner := Jobs(), JobQueue(runs=1))
    first, second, third = (Screen(Session(plan), runner=runner) for _ in range(3))
    for screen in (first, second, third):
        screen.send("run", steps="3")
    waits = [(screen.shown["live"]["stage"], screen.shown["live"]["waits"]) for screen in (first, second, third)]
    assert waits == [("starting · 0 s", False), ("waiting: 1 job ahead", True), ("waiting: 2 jobs ahead", True)]
    assert second.shown["live"]["said"] == "The run is waiting: 1 job ahead."
    second.send("cancel")
    assert (second.shown["live"]["phase"], second.shown["live"]["message"]) == ("cancelled", "Cancelled.")
    assert third.shown["live"]["stage"] == "waiting: 1 job ahead"
    inner.started[0].tell(RunDone(measurement(plan)))
    assert (first.shown["live"]["phase"], third.shown["live"]["stage"]) == ("done", "starting · 0 s")
    assert [line["text"] for line in third.shown["live"]["log"][1:]] == ["waiting: 2 jobs ahead", "waiting: 1 job ahead", "starting"]
    third.board.close()
    assert inner.started[1].cancels == 1


def test_a_compilation_waits_in_words_and_is_cancelled(plan):
    runner = QueuedRunner(inner := Jobs(), JobQueue(runs=1))
    first, second = (Screen(Session(plan), runner=runner) for _ in range(2))
    first.send("compile")
    second.send("compile")
    panel = second.shown["live"]["compile"]
    assert (panel["stage"], panel["waits"], panel["said"]) == ("waiting: 1 job ahead", True, "The compilation is waiting: 1 job ahead.")
    second.send("cancel_compilation")
    assert second.shown["live"]["compile"]["phase"] == "cancelled"
    inner.started[0].tell(CompileDone(compiled(plan)))
    assert (len(inner.started), first.shown["live"]["compile"]["phase"]) == (1, "done")


def test_a_board_that_goes_gives_up_its_place(plan):
    runner = QueuedRunner(inner := Jobs(), JobQueue(runs=1))
    screens = [Screen(Session(plan), runner=runner) for _ in range(3)]
    for screen in screens:
        screen.send("run", steps="3")
    screens[1].board.close()
    assert screens[2].shown["live"]["stage"] == "waiting: 1 job ahead"
    assert len(inner.started) == 1


def test_a_run_of_a_board_has_a_time_limit(plan):
    """The real engine, with a limit that nothing keeps."""
    assert WorkerRunner().run_limit == RUN_LIMIT == 1800
    heard, ended = [], threading.Event()

    def hear(event):
        heard.append(event)
        if isinstance(event, Failed):
            ended.set()

    QueuedRunner(WorkerRunner(run_limit=0.01), JobQueue()).start(plan, 10_000, hear)
    assert ended.wait(60)
    assert "passed its time limit of 10.0 ms while starting" in heard[-1].text
    assert "run fewer steps" in heard[-1].text
