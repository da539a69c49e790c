"""What a server needs is started again whenever it ends; it says that it is missing, and ends with the server."""

import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from multiprocessing.connection import Connection

import httpx
import pytest

from tests.support.servers import free_port, wait_for
from tests.support.team_rooms import is_there, send_signal, within
from workbench.app.page.page_template import template_of
from workbench.app.page.serve import listen
from workbench.app.processes import healing_child
from workbench.app.processes.child_table import FORK_SERVER, HOPELESS, ChildState, health_report
from workbench.app.processes.healing_child import HealingChild
from workbench.core.child_process import start_child
from workbench.errors import EngineError

CHILD = """
import os, pathlib, socket, sys
control = socket.socket(fileno=int(sys.argv[1]))
if (code := pathlib.Path(sys.argv[2]).read_text()):
    sys.exit(int(code))
control.sendall(b'{"ready": true}\\n')
while descriptors := socket.recv_fds(control, 1, 1)[1]:
    os.write(descriptors[0], f"{os.getpid()}\\n".encode())
    os.close(descriptors[0])
"""
SECONDS = 10.0


@pytest.fixture
def mode(tmp_path, monkeypatch):
    """The file with the exit code of each start; none while it is empty."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "small_child.py").write_text(CHILD)
    mode = tmp_path / "mode"
    mode.write_text("")
    return mode


@contextmanager
def healing(mode):
    child = HealingChild("does small things", "small_child", str(mode), listen=lambda _message: None)
    try:
        yield child
    finally:
        child.close()


def answer(child):
    """The number of the process that answers."""
    reading, writing = os.pipe()
    with os.fdopen(reading) as answers:
        try:
            child.send(writing)
        finally:
            os.close(writing)
        return int(answers.readline() or 0)


def report(child):
    return health_report({FORK_SERVER.name: child.state()})[0]


def test_one_that_is_killed_is_replaced_and_was_said_to_be_missing(mode, monkeypatch):
    monkeypatch.setattr(healing_child, "FIRST_PAUSE", 0.3)
    with healing(mode) as child:
        first = answer(child)
        assert report(child)["degraded"] == []
        send_signal(first, signal.SIGKILL)
        within(lambda: report(child)["degraded"] == [FORK_SERVER.name], SECONDS)
        assert answer(child) not in (0, first)
        assert report(child) == {"alive": True, "degraded": [], "missing_seconds": {}, "deaths": {FORK_SERVER.name: 1}}


def test_whoever_sends_as_it_is_killed_gets_an_answer_of_another_or_none_and_never_waits(mode):
    with healing(mode) as child:
        found = set()
        for _ in range(6):
            found.add(pid := answer(child))
            if pid:
                send_signal(pid, signal.SIGKILL)
        assert len(found - {0}) >= 2


def test_one_that_ends_before_it_is_ready_is_an_error_and_heals_once_it_can(mode):
    mode.write_text("3")
    with healing(mode) as child:
        with pytest.raises(
            EngineError, match=r"The process that does small things ended with exit code 3 before it was ready\. The server retries"
        ):
            answer(child)
        assert report(child)["degraded"] == [FORK_SERVER.name]
        mode.write_text("")
        within(child.is_ready, SECONDS)
        assert answer(child)


def test_the_pauses_grow_to_a_limit_and_begin_anew_after_it_was_steady(mode, monkeypatch):
    monkeypatch.setattr(healing_child, "STEADY", 0.0)
    with healing(mode) as child:
        answer(child)
        child._failures = 9
        assert child._pause() == 0.1 * 2**8
        child._failures = 999
        assert child._pause() == healing_child.LONGEST_PAUSE
        send_signal(child.pid, signal.SIGKILL)
        within(lambda: child.state().deaths == 1, SECONDS)
        assert child._failures == 1


def test_a_closed_one_stays_closed(mode):
    with healing(mode) as child:
        pid = answer(child)
    assert not is_there(pid)
    assert child.state().deaths == 0
    with pytest.raises(EngineError, match="the server is closing"):
        answer(child)


def test_the_page_of_a_board_says_what_is_missing_and_is_lost_where_that_does_not_come_back():
    states = {FORK_SERVER.name: ChildState(1, 2.0)}
    port = free_port()
    running = listen(lambda: template_of("t", None), port, False, "127.0.0.1", (), None, threaded=True, states=lambda: states)
    try:
        wait_for(f"http://127.0.0.1:{port}/liveness")
        degraded = httpx.get(f"http://127.0.0.1:{port}/liveness")
        assert (degraded.status_code, degraded.json()["degraded"]) == (200, [FORK_SERVER.name])
        states[FORK_SERVER.name] = ChildState(9, HOPELESS + 1)
        assert httpx.get(f"http://127.0.0.1:{port}/liveness").status_code == 503
    finally:
        running.stop()


PARENT = '''
import sys, threading, time
from workbench.core.child_process import start_child
code = """
import time
from workbench.core.child_process import end_with_parent
end_with_parent()
print("there", flush=True)
time.sleep(600)
"""
started = []
starter = threading.Thread(target=lambda: started.append(start_child([sys.executable, "-c", code], stdout=-1)))
starter.start()
starter.join()
started[0].stdout.readline()
print(started[0].pid, flush=True)
time.sleep(600)
'''


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the end of its connection ends a child")
def test_a_child_outlives_the_thread_that_asked_for_it_and_ends_with_the_process():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True, env=environment) as parent:
        child = int(parent.stdout.readline())
        assert is_there(child)
        parent.kill()
    within(lambda: not is_there(child), 2.0)


def test_what_cannot_be_started_is_an_error_in_whichever_thread_it_is_asked():
    found = []

    def start():
        with pytest.raises(FileNotFoundError):
            start_child(["/nonexistent/program"])
        found.append(True)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    start()
    assert found == [True, True]


HUNG = """
import sys, threading
from contextlib import suppress
from multiprocessing.connection import Connection
from workbench.app.processes import message_loop
message_loop.GRACE = 0.0
connection = Connection(int(sys.argv[1]))
threading.Thread(target=message_loop.exit_with_peer, args=(connection,), daemon=True).start()
while True:
    with suppress(OSError):
        connection.send("there")
"""


def test_a_fork_ends_when_its_server_is_gone_whatever_it_is_at_and_not_before():
    ours, theirs = socket.socketpair()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with theirs:
        process = subprocess.Popen([sys.executable, "-c", HUNG, str(theirs.fileno())], pass_fds=(theirs.fileno(),), env=environment)
    with process, Connection(ours.detach()) as connection:
        assert connection.recv() == "there"
        with socket.socket(fileno=os.dup(connection.fileno())) as half:
            half.shutdown(socket.SHUT_WR)
        assert {connection.recv() for _ in range(50_000)} == {"there"}  # more than is on its way
        connection.close()
        assert process.wait(SECONDS) == 1
