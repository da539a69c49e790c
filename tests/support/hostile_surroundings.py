"""What a hostile program would reach if nothing held it: files, sockets and secrets of a server."""

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.team.sandbox.hostile_programs import HostileProgram
from workbench.team.sandbox.resource_limits import MIB, ResourceLimits
from workbench.team.sandbox.sandbox import Sandbox, SandboxRun
from workbench.team.sandbox.sandboxed_command import SandboxedCommand

SECRET = "the-secret-of-the-server"
SMALL = {"memory": 256 * MIB, "file_size": 2 * MIB, "scratch": 4 * MIB, "output": 8 * MIB, "tasks": 40}


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
        limits = ResourceLimits(**SMALL, deadline=program.seconds, processor_seconds=program.processor_seconds)
        return sandbox.run(SandboxedCommand.python("-m", "hostile", code=(self.code,), limits=limits))

    def were_reached(self, run: SandboxRun) -> bool:
        """Whether the program got out. A traceback may show the statement that would have said so."""
        text = "\n" + run.printed.decode(errors="replace") + run.errors
        return "ESCAPED by" in text or "\nESCAPED" in text or SECRET in text or (self.outside / "written").exists()


@contextmanager
def surroundings_in(folder: Path) -> Iterator[Surroundings]:
    """Files and sockets of a server, in an empty folder."""
    for each in (folder, *folder.parents[:2]) if os.geteuid() == 0 else ():
        each.chmod(each.stat().st_mode | 0o011)  # a server that is root and makes user namespaces does it as another user
    code, outside = folder / "code", folder / "outside"
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
