"""The process that records: its death is a message, it serves threads and forks, and ends with whoever started it."""

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from workbench.cli.main import main
from workbench.errors import PartitionError
from workbench.models import build
from workbench.propagation.explain import recorded_propagation, recorder_process
from workbench.propagation.explain.recorder_client import Recorder, RefusedError
from workbench.public_plan import Plan

ROOT = Path(__file__).parents[2]
FRAMES = """
import os, signal, sys, time
def receive():
    return sys.stdin.buffer.read(int.from_bytes(sys.stdin.buffer.read(8) or sys.exit(), "big"))
def send(each):
    sys.stdout.buffer.write(len(each).to_bytes(8, "big") + each)
    sys.stdout.buffer.flush()
print("a dump of the stack", file=sys.stderr)
while True:
    passes, module = receive(), receive()
"""
ECHO = FRAMES + "    send(b'done'); send(module)"
REFUSES = FRAMES + "    send(b'error'); send(b'no such pass')"
DIES = FRAMES + "    os.kill(os.getpid(), signal.SIGSEGV)"
HANGS = FRAMES + "    time.sleep(600)"


def recorder(code: str, seconds: float = 60) -> Recorder:
    return Recorder((sys.executable, "-c", code), seconds)


@pytest.fixture
def dying(monkeypatch) -> Recorder:
    """In place of the recorder of this process, one that every question ends."""
    found = recorder(DIES)
    monkeypatch.setattr(recorded_propagation, "recorder", lambda: found)
    yield found
    found.close()


def plan() -> Plan:
    return Plan(build("two_layer", batch=16, io=64, hidden=32), "data:4", "batch:data")


def test_a_death_is_told_in_words_once_and_then_from_memory(capfd):
    asked = recorder(DIES)
    with pytest.raises(PartitionError) as first:
        asked.ask("passes", b"module")
    assert str(first.value) == (
        "Shardy ended (SIGSEGV) while it recorded the propagation of this plan, so it cannot be explained. The plan and all "
        "other figures are unaffected.\n  Try: change or remove the last constraint, group or barrier · report it to openxla/shardy, whose "
        "process ended."
    )
    with pytest.raises(PartitionError, match="Shardy ended"):
        asked.ask("passes", b"module")
    assert asked.starts == 1  # it was not asked again
    with pytest.raises(PartitionError, match="Shardy ended"):
        asked.ask("passes", b"another")
    assert asked.starts == 2
    assert asked.pid is None
    assert capfd.readouterr() == ("", "")


def test_too_long_is_told_in_words():
    asked = recorder(HANGS, seconds=0.2)
    with pytest.raises(PartitionError) as error:
        asked.ask("passes", b"module")
    assert error.value.message == (
        "Shardy took more than 0.2 s to record the propagation of this plan, so it cannot be explained. The plan and all other "
        "figures are unaffected."
    )
    assert asked.pid is None


def test_memory_and_a_process_that_cannot_start_are_told_in_words():
    with pytest.raises(PartitionError, match=r"Shardy needs more than 8\.00 GiB of memory to record"):
        recorder('import sys; sys.exit("what():  std::bad_alloc")').ask("passes", b"module")
    with pytest.raises(PartitionError, match=r"records propagation ended: ModuleNotFoundError: No module named 'nowhere'\. The plan"):
        recorder("import nowhere").ask("passes", b"module")


def test_one_process_serves_all_threads_and_each_gets_its_own_answer():
    asked = recorder(ECHO)
    modules = [bytes([each]) * (each << 14) for each in range(40)]  # the largest are ten times a pipe's buffer
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda module: asked.ask("passes", module), modules)) == modules
    assert asked.starts == 1
    asked.close()


def test_a_process_ended_from_outside_is_started_anew():
    asked = recorder(ECHO)
    assert asked.ask("passes", b"one") == b"one"
    os.kill(asked.pid, signal.SIGKILL)
    while asked.pid:
        time.sleep(0.01)
    assert asked.ask("passes", b"one") == b"one"
    assert asked.starts == 2
    asked.close()


def test_a_process_that_ended_by_itself_just_then_is_asked_again(tmp_path):
    seen = str(tmp_path / "seen")
    asked = recorder(
        FRAMES + f"    if not os.path.exists({seen!r}): open({seen!r}, 'w').close(); sys.exit()\n    send(b'done'); send(module)"
    )
    assert asked.ask("passes", b"one") == b"one"
    assert asked.starts == 2
    asked.close()
    always = recorder(FRAMES + "    sys.exit()")
    with pytest.raises(PartitionError, match="ended: exit code 0"):
        always.ask("passes", b"one")
    assert always.starts == 2


def test_a_recording_process_that_nobody_asks_ends(monkeypatch):
    monkeypatch.setattr(recorder_process, "IDLE", 0)
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb") as stream:
        assert recorder_process._next(stream) is None
    os.close(write_end)


def test_words_of_refusal_are_handed_on():
    asked = recorder(REFUSES)
    with pytest.raises(RefusedError, match="no such pass"):
        asked.ask("passes", b"module")
    asked.close()


def run_alone(code: str) -> list[str]:
    """The lines that a fresh process prints, which may end itself."""
    script = f"ECHO = {ECHO!r}\n" + textwrap.dedent(code)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", script]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, timeout=120, check=False).stdout.split()


def test_it_ends_when_whoever_started_it_is_killed():
    (pid,) = run_alone("""
        import os, sys
        from workbench.propagation.explain.recorder_client import Recorder
        recorder = Recorder((sys.executable, "-c", ECHO))
        recorder.ask("passes", b"module")
        print(recorder.pid, flush=True)
        os.kill(os.getpid(), 9)
    """)
    for _ in range(600):
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            return
        if re.search(r"\) Z ", Path(f"/proc/{pid}/stat").read_text() if Path(f"/proc/{pid}/stat").exists() else ""):
            return  # ended; nobody here waits for it
        time.sleep(0.05)
    raise AssertionError("it outlives who started it")


def test_a_fork_has_a_process_of_its_own_and_leaves_its_parents_alone():
    mine, its, answer, still = run_alone("""
        import os, sys
        from workbench.propagation.explain.recorder_client import Recorder
        recorder = Recorder((sys.executable, "-c", ECHO))
        recorder.ask("passes", b"module")
        print(recorder.pid, flush=True)
        if os.fork() == 0:
            answer = recorder.ask("passes", b"child").decode()
            print(recorder.pid, answer, flush=True)
            recorder.close()
            os._exit(0)
        os.wait()
        recorder.ask("passes", b"module")
        print(recorder.pid, flush=True)
    """)
    assert mine == still != its
    assert answer == "child"


def test_the_command_line_tells_it_as_other_errors(dying, capsys):
    command = ["explain", "--model", "two_layer", "--mesh", "data:4", "--layout", "batch:data"]
    assert main(command) == 1
    assert "workbench: Shardy ended (SIGSEGV)" in capsys.readouterr().err


def test_the_report_stands_and_asking_again_costs_nothing(dying):
    report = plan().report()
    for _ in range(3):
        with pytest.raises(PartitionError, match="Shardy ended"):
            report.explain("x")
    assert dying.starts == 1
    assert report.memory.peak > 0
