"""Boards in processes of their own: what one does, or breaks, is felt by no other, and a visitor is told what happened."""

import json
import os
import pickle
import signal
import threading
import time
from contextlib import closing
from pathlib import Path

import jax
import jax.numpy as jnp
import optax
import pytest

from workbench import layer, trace_training
from workbench.app.page.part_changes import with_change
from workbench.app.page.serve_options import ServeOptions, live_plan
from workbench.app.processes import board_process_pool
from workbench.app.processes.board_process_pool import Boards
from workbench.app.processes.child_table import BOARDS, FORK_SERVER, health_report
from workbench.app.processes.healing_child import ForkServer
from workbench.app.runners.job_queue import JobQueue
from workbench.core.remat import Remat
from workbench.engine import shared_worker
from workbench.engine.worker.pickling import sendable
from workbench.errors import DocumentError, EngineError, WorkbenchError
from workbench.models import build
from workbench.public_plan import Plan

pytestmark = [pytest.mark.compile, pytest.mark.worker]

PATIENCE = 60.0  # seconds, on a machine that does much else


class Page:
    """A screen that remembers what it was shown."""

    def __init__(self) -> None:
        self.hear = lambda _message: None
        self.board, self.bridge, self._news = {}, {}, threading.Condition()

    def show(self, target, parameters):
        with self._news:
            if target == "board":
                parts = {name: json.loads(part) if isinstance(part, str) else part for name, part in parameters.items()}
                change = parts.pop("changes", None)
                if change and self.board.get(change["part"], {}).get("edition") == change["of"]:  # else the whole is under way
                    parts[change["part"]] = with_change(self.board[change["part"]], change["by"])
                self.board.update(parts)
            else:
                self.bridge.update(parameters)
            self._news.notify_all()

    def is_watched(self):
        return True

    def show_busy(self, seconds, doing=""):
        self.show("bridge", {"busy": seconds, "doing": doing})

    def until(self, is_so):
        with self._news:
            assert self._news.wait_for(lambda: is_so(self), PATIENCE), (self.board.keys(), self.bridge)
        return self

    def place(self, dim, axis, seq):
        self.hear({"gesture": {"verb": "drop", "dim": dim, "source": "", "target": axis, "add": False, "view": "v", "seq": seq}})
        return self.until(lambda page: page.board["board"]["answer"]["seq"] == seq)


def two_layer():
    return Plan(build("two_layer", batch=16, io=64, hidden=32), "data:4 model:2", "batch:data")


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    """Where histories are kept."""
    with pytest.MonkeyPatch.context() as patched:
        folder = tmp_path_factory.mktemp("boards")
        patched.setenv("WORKBENCH_STATE", str(folder))
        patched.setenv("WORKBENCH_CACHE", str(folder / "cache"))
        yield folder


class SharedForkServer(ForkServer):
    """Starts the boards of all servers of this file: it has imported what a board needs, which takes two seconds of processor time."""

    def close(self):
        """It stays for the next server."""


@pytest.fixture(scope="module", autouse=True)
def forking(folder):
    server = SharedForkServer()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(board_process_pool, "ForkServer", lambda: server)
        yield
    ForkServer.close(server)


@pytest.fixture(scope="module")
def boards(folder):
    boards = Boards(ServeOptions(two_layer), JobQueue())
    yield boards
    boards.close()


def opened(boards, **asked):
    page = Page()
    board = boards.open(asked, page)
    page.until(lambda page: page.bridge.get("shown"))
    return board, page


def pid_of(board):
    return board._remote.pid


def is_there(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def gone(pid):
    return within(lambda: not is_there(pid))


def within(is_so):
    deadline = time.monotonic() + PATIENCE
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.05)
    return is_so()


def test_each_visitor_has_a_process_of_its_own_that_ends_when_nobody_wants_it(boards):
    (one, here), (two, there) = opened(boards), opened(boards)
    assert len({pid_of(one), pid_of(two), os.getpid()}) == 3
    here.place("hidden", "model", 1)
    assert "hidden:model" in here.board["board"]["layout"]
    assert "hidden:model" not in there.board["board"]["layout"]
    assert here.bridge["title"] == "two-layer"
    pid = pid_of(one)
    one.close()
    assert gone(pid)
    two.close()


def test_a_page_that_comes_back_finds_its_board_as_it_left_it(boards):
    board, page = opened(boards)
    page.place("hidden", "model", 1)
    board.leave(page)
    again = Page()
    assert boards.open({"board": board.name}, again) is board
    again.until(lambda page: "hidden:model" in page.board.get("board", {}).get("layout", ""))
    assert again.board["new"]
    assert again.board["board"]["undo"]
    board.close()


def test_whoever_asks_for_a_board_that_somebody_watches_gets_a_copy_of_it(boards):
    board, page = opened(boards)
    page.place("hidden", "model", 1)
    other, copy = opened(boards, board=board.name)
    assert pid_of(other) != pid_of(board)
    assert other.name != board.name
    assert copy.board["board"]["undo"]
    copy.place("io", "model", 1)
    assert "io:model" not in page.board["board"]["layout"]
    board.close()
    other.close()


def test_a_board_whose_process_has_ended_is_taken_up_from_its_journal(boards):
    board, page = opened(boards)
    page.place("hidden", "model", 1)
    pid = pid_of(board)
    board.close()
    assert gone(pid)
    again, later = opened(boards, board=board.name)
    assert again.name == board.name
    assert "hidden:model" in later.board["board"]["layout"]
    assert later.board["board"]["undo"]
    again.close()


def test_a_board_on_which_nothing_was_done_begins_anew(boards):
    board, page = opened(boards, board="nobody-has-this-one")
    assert board.name == page.bridge["board"]
    assert not page.board["board"]["undo"]
    board.close()


def test_what_a_board_is_at_can_be_stopped_and_the_visitor_is_told(boards):
    board, page = opened(boards)
    first = pid_of(board)
    os.kill(first, signal.SIGSTOP)  # it hears nothing, as one in a long computation
    page.hear({"gesture": {"verb": "undo", "view": "v", "seq": 1}})
    page.hear({"heard": {"kind": "stop"}})
    page.until(lambda page: "You stopped its current task" in page.bridge.get("notice", {}).get("text", ""))
    assert gone(first)
    page.place("hidden", "model", 2)
    board.close()


def test_a_board_whose_process_dies_is_started_again_and_says_how_it_ended(boards):
    board, page = opened(boards)
    page.place("hidden", "model", 1)
    os.kill(pid_of(board), signal.SIGSEGV)
    page.until(lambda page: "SIGSEGV" in page.bridge.get("notice", {}).get("text", ""))
    assert "hidden:model" in page.board["board"]["layout"]
    page.place("hidden", "data", 2)
    board.close()


def test_what_makes_boards_is_replaced_when_it_is_killed_and_the_boards_stay(boards):
    (kept, here), (killed, there) = opened(boards), opened(boards)
    there.place("hidden", "model", 1)
    before = boards.children()
    pid = pid_of(kept)
    os.kill(boards._forking.pid, signal.SIGKILL)
    os.kill(pid_of(killed), signal.SIGKILL)
    there.until(lambda page: page.bridge.get("notice", {}).get("text", "").startswith("The process of this board "))
    assert "hidden:model" in there.board["board"]["layout"]
    there.place("hidden", "data", 2)
    here.place("hidden", "model", 1)
    assert pid_of(kept) == pid
    new, _ = opened(boards)
    after = boards.children()
    assert [after[each.name].deaths - before[each.name].deaths for each in (FORK_SERVER, BOARDS)] == [1, 1]
    assert health_report(after)[0]["degraded"] == []
    for each in (kept, killed, new):
        each.close()


def test_a_board_that_dies_again_and_again_is_left_with_a_word(boards):
    board, page = opened(boards)
    for death in range(3):
        page.until(lambda _page: board._remote is not None and pid_of(board) is not None)
        os.kill(pid_of(board), signal.SIGABRT)
        page.until(lambda _page, death=death: len(board._deaths) > death)
        page.until(lambda page: page.bridge.get("failure") or board._remote is not None)
    page.until(lambda page: "3 times within 60 s" in page.bridge.get("failure", {}).get("text", ""))
    assert page.board["closed"]


def test_the_runs_of_all_boards_go_through_one_queue_and_a_board_that_dies_gives_its_place_back(boards):
    (one, here), (two, there) = opened(boards), opened(boards)
    for page in (here, there):
        page.hear({"gesture": {"verb": "run", "steps": "10000", "view": "v", "seq": 1}})
        page.until(lambda page: page.board.get("live", {}).get("phase") == "running")
    there.until(lambda page: page.board["live"]["stage"] == "waiting: 1 job ahead")
    os.kill(pid_of(one), signal.SIGKILL)
    there.until(lambda page: not page.board["live"]["waits"])
    one.close()
    two.close()


def is_settled(page):
    return page.board.get("board", {}).get("standing", {}).get("mark", {}).get("key") == "partitioned"


def test_the_figures_of_all_boards_settle_through_one_process_of_the_server(boards):
    (one, here), (two, there) = opened(boards), opened(boards)
    for page in (here, there):
        page.until(is_settled)
        page.place("hidden", "model", 1)
        page.until(is_settled)
        assert {figure["tier"]["key"] for figure in page.board["board"]["figures"]} == {"planned", "partitioned"}
    assert is_there(shared_worker().pid)
    one.close()
    two.close()


def test_a_partitioner_that_dies_is_a_reason_on_the_board_and_the_next_edit_settles(boards):
    board, page = opened(boards)
    page.until(is_settled)
    pid = shared_worker().pid
    os.kill(pid, signal.SIGSTOP)
    page.place("hidden", "data", 1)  # not asked before: the disk knows nothing of it
    assert within(lambda: shared_worker().is_busy)
    os.kill(pid, signal.SIGKILL)
    page.until(lambda page: "ended by SIGKILL" in page.board["board"]["standing"]["text"])
    assert "hidden:data" in page.board["board"]["layout"]
    assert not page.board["board"]["standing"]["settling"]
    page.place("io", "model", 2)
    page.until(is_settled)
    board.close()


def test_a_board_whose_process_dies_gives_its_question_up(boards):
    board, page = opened(boards)
    page.until(is_settled)
    pid = shared_worker().pid
    os.kill(pid, signal.SIGSTOP)
    page.place("hidden", "data", 1)
    assert within(lambda: shared_worker().is_busy)
    board.close()
    assert gone(pid), "a question that nobody waits for is cancelled once it is old"
    assert within(lambda: not shared_worker().is_busy)


def test_what_keeps_the_plan_from_being_made_is_said_on_the_page():
    def broken():
        raise RuntimeError("the program is broken")

    boards = Boards(ServeOptions(broken), JobQueue())
    board, page = opened(boards)
    assert page.bridge["failure"] == {"text": "RuntimeError: the program is broken", "by_link": False}
    board.close()
    boards.close()


def test_what_keeps_the_plan_or_the_exercise_from_being_made_is_refused_before_anything_is_served_if_asked():
    def refused():
        raise DocumentError("`mine` is not a plan.", ["give another"])

    for served in (ServeOptions(refused), ServeOptions(two_layer, exercise=refused)):
        boards = Boards(served, JobQueue())
        with pytest.raises(WorkbenchError) as caught:
            boards.verify()
        assert str(caught.value) == "`mine` is not a plan.\n  Try: give another."


def test_what_cannot_leave_this_process_is_refused_before_anything_is_served():
    lock = threading.Lock()
    with pytest.raises(EngineError, match="cannot be sent to a worker process"):
        Boards(ServeOptions(lambda: lock), JobQueue())


def own_plan(width=64):
    """A program that nothing names, as somebody traces it in a script."""
    shape = lambda *shape: jax.ShapeDtypeStruct(shape, "float32")  # noqa: E731

    def loss(params, batch):
        hidden = layer(lambda x: jnp.tanh(x @ params["up"]))(batch["x"])
        return jnp.mean((hidden @ params["down"] - batch["y"]) ** 2)

    params, batch = {"up": shape(32, width), "down": shape(width, 8)}, {"x": shape(16, 32), "y": shape(16, 8)}
    names = {"up": "io hidden", "down": "hidden out", "x": "batch io"}
    return Plan(trace_training(loss, params, batch, optimizer=optax.sgd(0.1), dims=names), "data:4 model:2", "batch:data")


def test_a_program_that_nothing_names_can_be_traced_again_in_the_process_of_its_board():
    plan = own_plan()
    there = pickle.loads(sendable(live_plan(plan), "", ""))()
    assert there == plan
    full = there.program.variant(remat=Remat.parse("full"))
    assert full == plan.program.variant(remat=Remat.parse("full"))
    assert full != plan.program
    assert [str(each) for each in there.program.removed] == [str(each) for each in plan.program.removed]


def test_the_board_of_a_program_that_nothing_names_is_kept_for_a_server_of_the_same_program():
    boards = Boards(ServeOptions(live_plan(own_plan())), JobQueue())
    board, page = opened(boards)
    page.place("hidden", "model", 1)
    boards.close()
    for plan, is_the_same in ((own_plan(), True), (own_plan(width=128), False)):
        restarted = Boards(ServeOptions(live_plan(plan)), JobQueue())
        again, later = opened(restarted, board=board.name)
        assert ("hidden:model" in later.board["board"]["layout"]) == is_the_same
        assert bool(later.board["board"]["undo"]) == is_the_same
        assert ("traced in another process" in later.bridge["notice"].get("text", "")) != is_the_same
        again.close()
        restarted.close()


def test_whoever_asks_for_a_process_of_a_server_that_has_closed_is_told():
    server = ForkServer()
    server.close()
    with pytest.raises(EngineError, match="The process that starts boards ended"):
        server.connect()


def test_where_processes_cannot_fork_each_board_is_an_interpreter_of_its_own(folder, monkeypatch):
    monkeypatch.setenv("WORKBENCH_START", "spawn")
    monkeypatch.setattr(board_process_pool, "ForkServer", ForkServer)
    with closing(Boards(ServeOptions(two_layer), JobQueue())) as boards:
        board, page = opened(boards)
        page.place("hidden", "model", 1)
        assert "hidden:model" in page.board["board"]["layout"]
        command = Path(f"/proc/{pid_of(board)}/cmdline").read_bytes().split(b"\0")
        assert b"workbench.app.processes.board_process:serve_board" in command
        pid, starter = pid_of(board), boards._forking.pid
        board.close()
        assert gone(pid)
    assert gone(starter), "what starts boards ends with their server"
