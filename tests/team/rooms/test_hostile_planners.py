"""A program that ends its own process: whoever waits is told what happened, and not that memory ran out."""

import asyncio
import sys
from types import SimpleNamespace

import pytest

from tests.support.team_sandbox import ability_here, opened
from workbench.errors import WorkbenchError
from workbench.team.rooms import planners as planners_module
from workbench.team.rooms.planners import DocumentDescribers, Planners
from workbench.team.sandbox.resource_limits import MIB, ResourceLimits
from workbench.team.sandbox.sandboxed_command import SandboxedCommand

ENDINGS = {
    "exits": ("import sys; print('no such layer', file=sys.stderr); sys.exit(3)", "ended with status 3: no such layer"),
    "exits well": ("pass", "ended by itself"),
    "crashes": ("import os; os.kill(os.getpid(), 11)", "was ended by SIGSEGV"),
    "kills itself": ("import os; os.kill(os.getpid(), 9)", "was ended by SIGKILL"),
    "floods its output": ("while True: print('x' * 65536)", "exceeded its output limit of 1.00 MiB"),
    "takes all memory": ("x = bytearray(1 << 40)", "ran out of memory; its limit is 4.00 GiB"),
    "takes too long": ("import time; time.sleep(600)", "exceeded its time limit of 0.5 s"),
}


class SandboxedPlanners(Planners):
    """They start nothing but what is in a sandbox."""

    def __init__(self, sandbox) -> None:
        self._programs = SimpleNamespace(sandbox=sandbox)
        self._describers = DocumentDescribers(self.connect)


@pytest.fixture(scope="module")
def sandbox():
    yield from opened(ability_here())


@pytest.mark.parametrize("ending", ENDINGS)
def test_whoever_waits_is_told_how_a_program_ended(sandbox, ending, monkeypatch):
    code, words = ENDINGS[ending]
    limits = ResourceLimits(output=MIB, deadline=0.5 if ending == "takes too long" else None)

    def command(_programs, _program, descriptor):
        return SandboxedCommand((sys.executable, "-c", code), descriptors=(descriptor,), limits=limits)

    monkeypatch.setattr(planners_module, "sandboxed_planner_command", command)
    planners = SandboxedPlanners(sandbox)
    with pytest.raises(WorkbenchError) as caught:
        asyncio.run(planners.describe_document("{}", SimpleNamespace(name="mine", target="mine:build")))
    assert caught.value.message == f"The process that reads plan documents {words}."
    assert planners._describers.deaths == 1
    planners._describers.close()
