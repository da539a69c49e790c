"""Every hostile program is contained, ends, leaves nothing behind, and its end is a sentence."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.team.sandbox.hostile_programs import HOSTILE, HostileProgram
from workbench.team.sandbox.command import SandboxedCommand
from workbench.team.sandbox.levels import SandboxLevel
from workbench.team.sandbox.limits import MIB, ResourceLimits
from workbench.team.sandbox.sandbox import Sandbox, SandboxRun

SECRET = "the-secret-of-the-server"
SMALL = {"memory": 256 * MIB, "file_size": 2 * MIB, "scratch": 4 * MIB, "output": 8 * MIB, "tasks": 40, "processor_seconds": 2}


@dataclass(frozen=True)
class Surroundings:
    """What a hostile program would reach."""

    code: Path
    outside: Path
    listener: socket.socket
    datagrams: socket.socket

    def run(self, sandbox: Sandbox, program: HostileProgram) -> SandboxRun:
        names = {
            "SECRET": str(self.outside / "secret"),
            "OUTSIDE": str(self.outside),
            "CODE": str(self.code),
            "SERVER": os.getpid(),
            "PORT": self.listener.getsockname()[1],
            "DATAGRAM": self.datagrams.getsockname()[1],
            "SOCKET": str(self.outside / "unix"),
            "ABSTRACT": f"\0workbench-{os.getpid()}",
        }
        head = "".join(f"{name} = {value!r}\n" for name, value in names.items())
        (self.code / "hostile.py").write_text(head + program.code, encoding="utf-8")
        limits = ResourceLimits(**SMALL, deadline=program.seconds)
        return sandbox.run(SandboxedCommand.python("-m", "hostile", code=(self.code,), limits=limits))


@pytest.fixture
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Surroundings]:
    monkeypatch.setenv("TEAM_SECRET_KEY", SECRET)
    for each in (tmp_path, *tmp_path.parents[:2]) if os.geteuid() == 0 else ():
        each.chmod(each.stat().st_mode | 0o011)  # a server that is root and makes user namespaces does it as another user
    code, outside = tmp_path / "code", tmp_path / "outside"
    code.mkdir()
    outside.mkdir()
    (outside / "secret").write_text(SECRET, encoding="utf-8")
    (outside / "secret").chmod(0o644)
    (code / "link").symlink_to(outside / "secret")
    shutil.copy(shutil.which("id") or "/bin/id", code / "become_root")
    (code / "become_root").chmod(0o4755)
    with (
        closing(socket.create_server(("127.0.0.1", 0))) as listener,
        closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as datagrams,
        closing(socket.socket(socket.AF_UNIX)) as named,
        closing(socket.socket(socket.AF_UNIX)) as abstract,
        (outside / "secret").open("rb") as leaked,
    ):
        datagrams.bind(("127.0.0.1", 0))
        datagrams.setblocking(False)
        named.bind(str(outside / "unix"))
        abstract.bind(f"\0workbench-{os.getpid()}")
        for each in (named, abstract):
            each.listen()
        os.set_inheritable(leaked.fileno(), True)
        yield Surroundings(code, outside, listener, datagrams)


def verify_contained(program: HostileProgram, run: SandboxRun, surroundings: Surroundings) -> None:
    text = run.printed.decode(errors="replace") + run.errors
    assert "ESCAPED by" not in text and "\nESCAPED" not in f"\n{text}", text  # noqa: PT018 - one statement, in two spellings
    assert SECRET not in text, text
    assert run.ending.kind in program.kinds, (run.ending, text)
    assert program.words in run.ending.sentence + text, (run.ending, text)
    assert run.ending.sentence.endswith(".")
    assert "Traceback" not in run.ending.sentence
    assert not (surroundings.outside / "written").exists()
    with pytest.raises(BlockingIOError):
        surroundings.datagrams.recv(100)


def verify_nothing_is_left() -> None:
    until = time.monotonic() + 30
    while (left := running()) and time.monotonic() < until:
        time.sleep(0.02)
    assert left == []


def running() -> list[str]:
    """Hostile programs, whoever their parent is, and walls that this process has put up."""
    done = subprocess.run(["ps", "-eo", "ppid,args"], capture_output=True, text=True, check=True)
    mine = (line.split(maxsplit=1) for line in done.stdout.splitlines())
    return [args for parent, args in mine if args.endswith("-m hostile") or (parent == str(os.getpid()) and "bwrap" in args)]


@pytest.mark.compile
@pytest.mark.parametrize("program", HOSTILE, ids=lambda each: each.name)
def test_a_sandbox_holds(program: HostileProgram, surroundings: Surroundings, walled: Sandbox):
    verify_contained(program, surroundings.run(walled, program), surroundings)
    verify_nothing_is_left()


@pytest.mark.share(3)
@pytest.mark.parametrize("program", HOSTILE, ids=lambda each: each.name)
def test_a_sandbox_of_a_user_holds(program: HostileProgram, surroundings: Surroundings, walled_by_user: Sandbox):
    verify_contained(program, surroundings.run(walled_by_user, program), surroundings)
    verify_nothing_is_left()


@pytest.mark.compile
@pytest.mark.share(3)
@pytest.mark.parametrize("program", [each for each in HOSTILE if each.alone], ids=lambda each: each.name)
def test_limits_and_the_filter_hold_without_bubblewrap(program: HostileProgram, surroundings: Surroundings, alone: Sandbox):
    verify_contained(program, surroundings.run(alone, program), surroundings)
    verify_nothing_is_left()


def test_these_programs_escape_where_nothing_holds_them(surroundings: Surroundings, alone: Sandbox):
    run = surroundings.run(alone, HOSTILE[0])
    assert run.printed.decode() == f"ESCAPED {SECRET}\n"


def test_the_levels_are_what_they_say(walled: Sandbox, alone: Sandbox):
    assert walled.ability.level is SandboxLevel.SANDBOXED
    assert alone.ability.level is SandboxLevel.SEPARATE_PROCESS
