"""Each call of the tables is answered as its table says, by the real kernel; honest calls go on."""

import platform
import struct
import sys

import pytest

from workbench.team.sandbox.exit_reason import EndKind
from workbench.team.sandbox.resource_limits import ResourceLimits
from workbench.team.sandbox.sandbox import Sandbox
from workbench.team.sandbox.sandboxed_command import SandboxedCommand
from workbench.team.sandbox.syscall_filter import ARCHITECTURES, ENDING, FAILING, MISSING, syscall_filter

HAS_TABLE = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in ARCHITECTURES, reason="there is no table of system calls for this machine"
)
LIMITS = ResourceLimits(deadline=120)

EACH_IN_A_CHILD = """
import ctypes, errno, os
from workbench.team.sandbox.syscall_filter import ARCHITECTURES, ENDING, FAILING, MISSING
libc, column = ctypes.CDLL(None, use_errno=True), list(ARCHITECTURES).index(os.uname().machine)
for table in (ENDING, FAILING, MISSING):
    for name, numbers in table.items():
        if numbers[column] is None:
            continue
        if (child := os.fork()) == 0:
            found = libc.syscall(numbers[column], *([ctypes.c_long(-1)] * 6))
            os._exit(ctypes.get_errno() if found == -1 else 0)
        print(name, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@HAS_TABLE
def test_the_kernel_answers_as_the_tables_say(alone: Sandbox):
    run = alone.run(SandboxedCommand.python("-c", EACH_IN_A_CHILD, limits=LIMITS))
    assert run.ending.is_good, run.errors
    found = {name: int(status) for name, status in (line.split() for line in run.printed.decode().splitlines())}
    column = list(ARCHITECTURES).index(platform.machine())
    expected = {
        name: answer
        for table, answer in ((ENDING, -31), (FAILING, 1), (MISSING, 38))
        for name, numbers in table.items()
        if numbers[column] is not None
    }
    assert found == expected


@HAS_TABLE
@pytest.mark.parametrize("network", [False, True])
def test_sockets_of_the_internet_are_for_those_who_may(alone: Sandbox, network: bool):
    code = (
        "import socket; socket.socket(socket.AF_UNIX); socket.socketpair(); socket.socket(socket.AF_INET); socket.socket(socket.AF_INET6)"
    )
    ending = alone.run(SandboxedCommand.python("-c", code, network=network, limits=LIMITS)).ending
    assert ending.kind is (EndKind.FINISHED if network else EndKind.FAILED)
    assert network or "Address family not supported" in ending.sentence


@HAS_TABLE
def test_threads_processes_and_files_go_on(alone: Sandbox):
    code = "import threading, tempfile; t = threading.Thread(target=print); t.start(); t.join(); tempfile.TemporaryFile().write(b'1')"
    assert alone.run(SandboxedCommand.python("-c", code, limits=LIMITS)).ending.is_good


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_the_program_is_well_formed(machine: str):
    """Every jump lands within the program, and its last instruction returns: what the kernel verifies."""
    program = syscall_filter(machine=machine)
    steps = list(struct.iter_unpack("=HBBI", program))
    assert len(steps) * 8 == len(program) < 1 << 15
    jumps = [number + 1 + max(true, false) for number, (code, true, false, _) in enumerate(steps) if code & 7 == 5]
    assert len(jumps) > 50
    assert max(jumps) < len(steps)
    assert steps[-1] == (0x06, 0, 0, 0x7FFF0000)


def test_another_architecture_has_no_filter():
    assert syscall_filter(machine="riscv64") == b""


@pytest.mark.parametrize("column", range(len(ARCHITECTURES)))
def test_no_number_stands_for_two_calls(column: int):
    numbers = [each[column] for table in (ENDING, FAILING, MISSING) for each in table.values() if each[column] is not None]
    assert len(set(numbers)) == len(numbers)
