"""A process that lets others go first does so in whatever session it is. Every process here is a real one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from workbench.core.child_process import raise_niceness

AUTOGROUP = Path("/proc/self/autogroup")
RAISE = """
import os, sys
from pathlib import Path
from workbench.core.child_process import raise_niceness
raise_niceness(int(sys.argv[1]))
print(os.nice(0), Path("/proc/self/autogroup").read_text().split()[-1])
"""
sessions_share = pytest.mark.skipif(  # in some containers the file is there, and says nothing
    not (AUTOGROUP.exists() and AUTOGROUP.read_text().strip()), reason="this system does not share by sessions"
)


def niceness_after(by: int, **options) -> tuple[str, str]:
    """Of a new process, and of its session."""
    done = subprocess.run([sys.executable, "-c", RAISE, str(by)], capture_output=True, text=True, check=True, **options)
    own, of_session = done.stdout.split()
    return own, of_session


@sessions_share
def test_the_session_that_a_process_leads_has_its_niceness():
    before = os.nice(0)
    assert niceness_after(3, start_new_session=True) == (str(before + 3), str(before + 3))


@sessions_share
def test_the_session_of_others_keeps_its_own():
    before = AUTOGROUP.read_text().split()[-1]
    assert niceness_after(3, process_group=0) == (str(os.nice(0) + 3), before)


def test_where_the_system_does_not_allow_it_nothing_happens(monkeypatch):
    def refuse(_by):
        raise PermissionError

    monkeypatch.setattr(os, "nice", refuse)
    raise_niceness(1)
    monkeypatch.delattr(os, "nice")
    raise_niceness(1)


@pytest.mark.skipif(sys.platform != "linux", reason="of Linux")
def test_a_process_that_runs_when_idle_does_so_in_all_its_threads_and_those_of_later():
    started = """
import os, threading, time
from workbench.core.child_process import run_when_idle
earlier = threading.Thread(target=time.sleep, args=(0.5,))
earlier.start()
run_when_idle()
later = threading.Thread(target=time.sleep, args=(0.5,))
later.start()
print(*(os.sched_getscheduler(int(each)) == os.SCHED_IDLE for each in os.listdir("/proc/self/task")))
"""
    done = subprocess.run([sys.executable, "-c", started], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"] * 3
