"""What a process forks ends with it, and keeps nobody waiting. Every process here is a real one."""

import os
import select
import subprocess
import sys
import time

import pytest

from workbench.engine.worker.worker_process import ProcessGroup

pytestmark = [pytest.mark.compile, pytest.mark.worker, pytest.mark.cold]

PARENT = """
import os, sys, time
events, alive, ready = map(int, sys.argv[1:4])
if os.fork() == 0:
    {child}
    os.write(events, b"forked\\n")
    os.write(ready, b"x")
    time.sleep(600)
os.read(int(sys.argv[4]), 1)
os.write(events, b"ends\\ncut o")
{end}
"""
SLOW = 20.0  # seconds: what takes longer hangs


@pytest.fixture
def alive():
    """The two ends of a pipe that nobody writes: all who hold the second one have ended when the first one can be read."""
    reading, writing = os.pipe()
    yield reading, writing
    os.close(reading)


def start(alive, end: str, child: str = "pass") -> tuple[ProcessGroup, int]:
    """A process that forks, tells that on a pipe, and ends so; with the reading end of that pipe."""
    events, told = os.pipe()
    ready, is_ready = os.pipe()
    fds = (told, alive[1], is_ready, ready)
    group = ProcessGroup([sys.executable, "-c", PARENT.format(child=child, end=end), *map(str, fds)], pass_fds=fds)
    for each in fds:
        os.close(each)
    return group, events


def is_gone(alive) -> bool:
    return bool(select.select([alive[0]], [], [], SLOW)[0])


@pytest.mark.parametrize(("end", "code"), [("os._exit(3)", 3), ("os.kill(os.getpid(), 11)", -11)])
def test_a_process_that_has_ended_is_heard_to_its_end_and_what_it_has_forked_is_gone(alive, end, code):
    group, events = start(alive, end)
    begin = time.monotonic()
    assert list(group.lines(events)) == [b"forked\n", b"ends\n", b"cut o"]
    assert group.wait() == code
    assert is_gone(alive)
    assert time.monotonic() - begin < SLOW
    group.kill()  # nothing happens
    group.close()
    os.close(events)


def test_a_process_that_is_killed_takes_what_it_has_forked_along(alive):
    group, events = start(alive, "time.sleep(600)")
    lines = group.lines(events)
    assert [next(lines), next(lines)] == [b"forked\n", b"ends\n"]
    begin = time.monotonic()
    group.kill()
    assert list(lines) == [b"cut o"]
    assert group.wait() == -9
    assert is_gone(alive)
    assert time.monotonic() - begin < SLOW
    group.close()
    os.close(events)


def test_what_has_left_the_group_and_holds_the_pipe_keeps_nobody_waiting(alive):
    group, events = start(alive, "os._exit(0)", child='os.setsid(); os.write(events, b"%d\\n" % os.getpid())')
    begin = time.monotonic()
    lines = list(group.lines(events))
    assert lines[1:] == [b"forked\n", b"ends\n", b"cut o"]
    assert time.monotonic() - begin < SLOW
    os.kill(int(lines[0]), 9)
    group.close()
    os.close(events)


def test_without_a_way_to_wait_without_reaping_the_group_ends_all_the_same(alive, monkeypatch):
    monkeypatch.delattr(os, "waitid", raising=False)
    group, events = start(alive, "os._exit(0)")
    assert list(group.lines(events))[-1] == b"cut o"
    assert is_gone(alive)
    group.close()
    os.close(events)


WORKER = """
import os, queue, sys, time
from workbench.engine.worker.worker_main import _listen
if os.fork() == 0:
    time.sleep(600)
_listen(sys.stdin.buffer, queue.SimpleQueue())
"""


def test_a_worker_whose_starter_is_gone_ends_with_what_it_has_forked(alive):
    options = {"stdin": subprocess.PIPE, "pass_fds": (alive[1],), "start_new_session": True}
    with subprocess.Popen([sys.executable, "-c", WORKER], **options) as worker:
        os.close(alive[1])
        worker.stdin.close()  # as when we die
        assert is_gone(alive)
    assert worker.returncode == -9
