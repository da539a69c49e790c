"""Every hostile program is contained, ends, leaves nothing behind, and its end is a sentence."""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.hostile_surroundings import SECRET, Surroundings, surroundings_in
from tests.team.sandbox.hostile_programs import HOSTILE, HostileProgram
from workbench.team.sandbox.resource_limits import SandboxLevel
from workbench.team.sandbox.sandbox import Sandbox, SandboxRun


@pytest.fixture
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Surroundings]:
    monkeypatch.setenv("TEAM_SECRET_KEY", SECRET)
    with surroundings_in(tmp_path) as found:
        yield found


def verify_contained(program: HostileProgram, run: SandboxRun, surroundings: Surroundings) -> None:
    text = run.printed.decode(errors="replace") + run.errors
    assert not surroundings.were_reached(run), text
    assert run.ending.kind in program.kinds, (run.ending, text)
    assert program.words in run.ending.sentence + text, (run.ending, text)
    assert run.ending.sentence.endswith(".")
    assert "Traceback" not in run.ending.sentence
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
