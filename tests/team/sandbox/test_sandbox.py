"""What a sandboxed process has, what it prints, how it ends; and that a plan is made in one."""

import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.support.team_sandbox import ability_alone
from workbench.errors import WorkbenchError
from workbench.team.sandbox.exit_reason import EndKind, ExitObservations, describe_ending
from workbench.team.sandbox.probe_sandbox import probe
from workbench.team.sandbox.resource_limits import MIB, ResourceLimits, SandboxAbility, SandboxError, SandboxLevel
from workbench.team.sandbox.sandbox import Sandbox, bubblewrap_arguments
from workbench.team.sandbox.sandboxed_command import SandboxedCommand, python_files

LIMITS = ResourceLimits(deadline=300)
PLAN = """
import resource, sys, time
began = time.monotonic()
import workbench as wb
from workbench.documents import dump_plan, parse_plan, program_from_reference
program = program_from_reference(wb.Reference("two_layer", {"batch": 16, "io": 8, "hidden": 16}))
plan = wb.Plan(program, "data:2", "batch:data")
print(len(str(plan.report())), parse_plan(dump_plan(plan)) == plan, time.monotonic() - began)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
"""


@pytest.mark.compile
def test_a_plan_is_made_in_a_sandbox(walled: Sandbox):
    run = walled.run(SandboxedCommand.python("-c", PLAN, limits=LIMITS))
    assert run.ending.is_good, run.errors
    length, same, _ = run.printed.split()
    assert int(length) > 500
    assert same == b"True"


def test_it_talks_over_the_socket_that_it_was_given(walled: Sandbox):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        code = f"import socket; s = socket.socket(fileno={theirs.fileno()}); s.sendall(s.recv(100).upper())"
        process = walled.start(SandboxedCommand.python("-c", code, descriptors=(theirs.fileno(),), limits=LIMITS))
        theirs.close()
        ours.sendall(b"hello")
        assert ours.recv(100) == b"HELLO"
        assert ours.recv(100) == b""  # nobody else holds its end
        assert process.wait(60) is not None


def test_it_reads_the_files_that_it_was_shown_and_writes_where_it_may(walled: Sandbox, tmp_path: Path):
    shown, given = tmp_path / "shown", tmp_path / "given"
    shown.mkdir()
    given.mkdir()
    (shown / "mine.py").write_text(f"open({str(given / 'result')!r}, 'w').write('made'); print('ran')", encoding="utf-8")
    run = walled.run(SandboxedCommand.python("-m", "mine", code=(shown,), writable=(given,), limits=LIMITS))
    assert (run.printed, run.errors) == (b"ran\n", "")
    assert (given / "result").read_text(encoding="utf-8") == "made"


@pytest.mark.parametrize("kind", ["walled", "alone"])
def test_it_has_only_the_environment_of_its_command(kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SECRET_KEY", "1234")
    sandbox: Sandbox = request.getfixturevalue(kind)
    run = sandbox.run(SandboxedCommand.python("-c", "import os, json; print(json.dumps(dict(os.environ)))", limits=LIMITS))
    found = json.loads(run.printed)
    assert "SECRET_KEY" not in found
    assert set(found) >= {"HOME", "PATH", "PYTHONPATH", "JAX_PLATFORMS"}


def test_the_end_of_a_sandbox_is_that_of_its_processes():
    sandbox = Sandbox(ability_alone())
    process = sandbox.start(SandboxedCommand.python("-c", "import time; time.sleep(600)"))
    assert process.poll() is None
    sandbox.close()
    ending = process.wait(60)
    assert ending is not None
    assert (ending.kind, str(ending)) == (EndKind.STOPPED, "It was ended by the server.")


def test_a_process_outlives_the_thread_that_asked_for_it(walled: Sandbox):
    """The kernel would end it with the thread that started it."""
    made = []
    thread = threading.Thread(target=lambda: made.append(walled.start(SandboxedCommand.python("-c", "import time; time.sleep(1.5)"))))
    thread.start()
    thread.join()
    ending = made[0].wait(120)
    assert ending is not None
    assert ending.is_good


def test_a_flood_is_kept_with_a_note(walled: Sandbox):
    limits = ResourceLimits(deadline=120, kept_output=100)
    process = walled.start(SandboxedCommand.python("-c", "print('begin' + 'x' * 100_000 + 'end')", limits=limits))
    process.wait()
    text = process.printed.text()
    assert text.startswith("beginxxx")
    assert text.endswith("xxxend\n")
    assert "[97.6 KiB left out]" in text


def test_what_is_not_there_is_not_shown(walled: Sandbox, tmp_path: Path):
    with pytest.raises(SandboxError, match="which does not exist"):
        walled.start(SandboxedCommand.python("-c", "", code=(tmp_path / "nothing",)))


def test_a_command_that_is_not_there_is_a_sentence(alone: Sandbox):
    ending = alone.run(SandboxedCommand(("no-such-command",), LIMITS)).ending
    assert ending.sentence == "It ended with status 1: no-such-command cannot be started: No such file or directory."


def test_limits_are_above_zero():
    with pytest.raises(WorkbenchError, match="The limit `tasks` of a sandbox is 0; it should be above 0"):
        ResourceLimits(tasks=0)


def test_systemd_holds_the_limits_of_all_processes():
    options = ResourceLimits(memory=1 << 30, tasks=50, processors=1.5).scope_options()
    assert options == ["-p", "MemoryMax=1073741824", "-p", "MemorySwapMax=0", "-p", "TasksMax=50", "-p", "CPUQuota=150%"]


def test_nothing_of_the_server_is_shown_but_python_and_the_workbench():
    found = [Path(each) for each in python_files()]
    for hidden in ("/etc/passwd", "/usr/bin/su", Path.home() / ".ssh", Path(__file__), Path(__file__).parents[3] / "pyproject.toml"):
        assert not any(Path(hidden).is_relative_to(each) for each in found)
    assert any(Path(json.__file__).is_relative_to(each) for each in found)


@pytest.mark.parametrize("own_user", [True, False])
def test_the_command_line_of_bubblewrap(own_user: bool):
    ability = SandboxAbility(SandboxLevel.SANDBOXED, bubblewrap="/usr/bin/bwrap", own_user=own_user, disables_namespaces=True)
    line = bubblewrap_arguments(ability, SandboxedCommand(("true",)), 7)
    text = " ".join(line)
    assert ("--unshare-all --unshare-user --disable-userns" in text) is own_user
    assert "--share-net" not in text
    for each in ("--die-with-parent --new-session --clearenv", "--cap-drop ALL", "--seccomp 7", "--remount-ro /dev --remount-ro /"):
        assert each in text
    assert f"--size {64 * MIB} --tmpfs /dev/shm" in text
    assert line[-1] == "--"


def test_without_bubblewrap_the_reason_is_in_words():
    ability = probe("/nonexistent/bwrap")
    assert ability.level is SandboxLevel.REFUSED
    assert ability.reason.startswith("bubblewrap is not installed")
    assert str(ability).endswith(f"Why there is no sandbox: {ability.reason}")


def test_an_old_bubblewrap_is_refused(tmp_path: Path):
    old = tmp_path / "bwrap"
    old.write_text("#!/bin/sh\necho bubblewrap 0.4.1\n", encoding="utf-8")
    old.chmod(0o755)
    assert probe(str(old)).reason == "bubblewrap 0.4.1 is too old: it cannot limit the size of what is written."


def test_a_bubblewrap_that_is_refused_says_why(tmp_path: Path):
    refused = tmp_path / "bwrap"
    script = """[ "$1" = --help ] && echo --size && exit 0; echo 'bwrap: No permissions' >&2; exit 1"""
    refused.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    refused.chmod(0o755)
    reason = probe(str(refused)).reason
    assert reason.startswith("bubblewrap is installed, but ")
    assert reason.endswith("It said: bwrap: No permissions")


ENDINGS = [
    (ExitObservations(0), "It ended by itself."),
    (ExitObservations(3, last_line="ValueError: no"), "It ended with status 3: ValueError: no."),
    (ExitObservations(1, last_line="MemoryError"), "It ran out of memory; its limit is 1.00 GiB."),
    (ExitObservations(1, last_line="BlockingIOError: [Errno 11]"), "It exceeded its limit of 9 processes and threads."),
    (ExitObservations(1, last_line="bwrap: No permissions"), "It did not start: its sandbox could not be made: bwrap: No permissions."),
    (ExitObservations(-9, EndKind.DEADLINE), "It exceeded its time limit of 5 s."),
    (ExitObservations(-9, EndKind.MEMORY), "It ran out of memory; its limit is 1.00 GiB."),
    (ExitObservations(-9, processor_seconds=7.6), "It exceeded its CPU time of 7 s."),
    (ExitObservations(-9), "It was ended by SIGKILL."),
    (ExitObservations(-24), "It exceeded its CPU time of 7 s."),
    (ExitObservations(-25), "It exceeded its file size limit of 64.0 MiB."),
    (ExitObservations(-31), "It made a forbidden system call, such as tracing or mounting."),
    (ExitObservations(-11, last_line="Segmentation fault"), "It was ended by SIGSEGV: Segmentation fault."),
]


@pytest.mark.parametrize(("signs", "sentence"), ENDINGS)
def test_each_ending_is_a_sentence(signs: ExitObservations, sentence: str):
    limits = ResourceLimits(memory=1 << 30, tasks=9, processor_seconds=7, deadline=5)
    assert describe_ending(signs, limits).sentence == sentence


@pytest.mark.cold
@pytest.mark.skipif(sys.platform != "linux", reason="the death of a parent is heard of on Linux alone")
def test_nothing_outlives_a_server_that_is_killed(walled: Sandbox):
    code = (
        "import os, signal; from workbench.team.sandbox.probe_sandbox import probe; from workbench.team.sandbox.sandbox import Sandbox; "
        "from workbench.team.sandbox.sandboxed_command import SandboxedCommand; import time\n"
        "process = Sandbox(probe()).start(SandboxedCommand.python('-c', 'import time; print(1); time.sleep(600)'))\n"
        "while not process.printed.total: time.sleep(0.01)\n"
        "print(process.pid, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False, env=environment)
    pid = int(done.stdout)
    for _ in range(1000):
        if not Path(f"/proc/{pid}").exists():
            return
        threading.Event().wait(0.01)
    pytest.fail("it lives on")
