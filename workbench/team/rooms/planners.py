"""The processes that import JAX: forks of one for the zoo, or where there is a cluster processes on that, and one in a sandbox for each
room about a program of a team's own; and the one that asks XLA's partitioner for all rooms.

The server itself imports neither JAX nor anybody's code; it passes messages.
"""

import os
import select
import socket
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from multiprocessing.connection import Connection
from typing import Any

import msgspec

from workbench.app.processes.child_table import BROKER, DESCRIBERS, FORK_SERVER, PARTITIONER, ChildState
from workbench.app.processes.healing_child import ForkServer, HealingChild
from workbench.app.processes.process_connection import ENDING
from workbench.core.child_process import start_child
from workbench.core.import_path import python_path
from workbench.core.memory_limits import OomKills
from workbench.core.public_error_text import last_line, process_fate
from workbench.engine.cluster.process_relay import command_on_cluster
from workbench.engine.cluster.ray_cluster import verify_shared_cluster
from workbench.errors import WorkbenchError
from workbench.team.programs.program_registry import PLANNER, ProgramRegistry, sandboxed_planner_command
from workbench.team.rooms.document_describers import DocumentDescribers
from workbench.team.rooms.room_connection import StartedPlanner
from workbench.team.sandbox.sandboxed_process import SandboxedProcess
from workbench.team.store.tables import RegisteredProgram
from workbench.team.web.team_services import Answer, DescribedPlan, FoundBaseline, FoundBaselines, GradedAnswer, ReplayedRoom


def start_on_cluster(address: str) -> StartedPlanner:
    """A new process for a room about the zoo, on the cluster at this address. It has a partitioner of its own there."""
    words = tempfile.TemporaryFile()  # noqa: SIM115 - it is read once the process has ended
    ours, theirs = socket.socketpair()
    environment = {**os.environ, "PYTHONPATH": python_path()}
    with ours, theirs:
        process = start_child(
            command_on_cluster(address, PLANNER, theirs.fileno()),
            stdin=subprocess.DEVNULL,
            stderr=words,
            pass_fds=(theirs.fileno(),),
            env=environment,
        )
        connection = Connection(ours.detach())

    def reason(_pid: int | None) -> str:
        try:
            process.wait(ENDING)
        except subprocess.TimeoutExpired:
            return "lost its connection to the cluster"
        with words:
            words.seek(0)
            said = last_line(words.read().decode(errors="replace")).rstrip(".")
        return f"ended on the cluster: {said}" if said else "ended on the cluster"

    return StartedPlanner(connection, reason, process.kill)


_ROOM = "workbench.team.planning.room_process:serve_room"


class Planners:
    """Starts planner processes. `is_ready`, `describe_document` and `ask` are those of `web.team_services.Planner`.

    Raises `EngineError` where processes cannot be started. `cluster` is the address of a Ray cluster.
    """

    def __init__(self, programs: ProgramRegistry | None = None, cluster: str = "") -> None:
        if cluster:
            verify_shared_cluster(cluster)
        self._cluster = cluster
        self._forking = ForkServer(_ROOM)
        self._broker = PartitionBroker()
        self._programs, self._oom_kills = programs, OomKills()
        self._describers = DocumentDescribers(self.connect)

    def connect(self, program: RegisteredProgram | None) -> StartedPlanner:
        """A new process, for a room or a document about this program, `None` for the zoo. Raises `WorkbenchError` for a program that may
        not run."""
        if program is not None:
            return self._start_apart(program)
        return start_on_cluster(self._cluster) if self._cluster else self._fork()

    def _fork(self) -> StartedPlanner:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                connection = self._forking.connect(theirs.fileno())
            except BaseException:
                ours.close()
                raise
        self._broker.attach(ours)
        return StartedPlanner(connection, self._fate_of_fork)

    def _start_apart(self, program: RegisteredProgram) -> StartedPlanner:
        """In a sandbox: it has no connection to the broker, and nothing but its own."""
        if self._programs is None:
            raise WorkbenchError(
                f"The program `{program.name}` cannot run: this server runs only models of the zoo.", ["ask its administrator"]
            )
        with ExitStack() as stack:
            ours, theirs = map(stack.enter_context, socket.socketpair())
            process = self._programs.sandbox.start(sandboxed_planner_command(self._programs, program, theirs.fileno()))
            connection = Connection(ours.detach())
        return StartedPlanner(connection, lambda _pid: _fate_of(process), process.kill)

    def is_ready(self) -> bool:
        return self._forking.is_ready()

    async def describe_document(self, text: str, program: RegisteredProgram | None) -> DescribedPlan:
        return read_answer(DescribedPlan, await self._describers.ask({"describe": {"document": text}}, program))

    async def ask(self, kind: type[Answer], name: str, **given: Any) -> Answer:
        return read_answer(kind, await self._describers.ask({name: given}))

    def close(self) -> None:
        """End those that start others; a room's process ends with its connection."""
        self._describers.close()
        self._broker.close()
        self._forking.close()

    def children(self) -> Mapping[str, ChildState]:
        return {
            FORK_SERVER.name: self._forking.state(),
            BROKER.name: self._broker.state(),
            PARTITIONER.name: self._broker.worker_state(),
            DESCRIBERS.name: ChildState(self._describers.deaths, 0.0),
        }

    def look(self) -> None:
        """Called every second."""
        self._oom_kills.look()

    def _fate_of_fork(self, pid: int | None) -> str:
        status = None if pid is None else self._forking.status_of(pid)
        return process_fate(status, memory_ran_out=self._oom_kills.is_recent())


def _fate_of(process: SandboxedProcess) -> str:
    ending = process.wait(ENDING)
    return ending.fate if ending else "closed its connection"


_WORK = {GradedAnswer: "graded this answer", ReplayedRoom: "replayed this room"}
_WORK |= dict.fromkeys((FoundBaselines, FoundBaseline), "searched for baselines")


def read_answer(kind: type[Answer], record: Mapping[str, Any]) -> Answer:
    """What a process says, field by field of the types that those have: one that runs somebody's code sends anything. Raises
    `WorkbenchError` for what is none."""
    try:
        return msgspec.convert(record, kind)
    except msgspec.ValidationError:
        work = _WORK.get(kind, "read this plan")
        raise WorkbenchError(f"The process that {work} sent an invalid answer.", ["try once more"]) from None


# The server's side of the process that asks XLA's partitioner for all rooms: each room is connected to it, and to each that follows it.

_MODULE = "workbench.team.planning.partition_broker"


class PartitionBroker:
    """`team.planning.partition_broker`, which is started again whenever it ends. Without one a room shows planned figures."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rooms: list[socket.socket] = []  # on which their processes are sent connections
        self._worker_deaths = 0
        self._child = HealingChild("asks XLA's partitioner", _MODULE, listen=self._note)

    @property
    def pid(self) -> int | None:
        return self._child.pid

    def state(self) -> ChildState:
        return self._child.state()

    def worker_state(self) -> ChildState:
        """How its warm process is, which is started with a question."""
        return ChildState(self._worker_deaths, 0.0)

    def attach(self, room: socket.socket) -> None:
        """Connect a room's process, which listens at the other end of a socket, now or as soon as there is a process to connect it to."""
        with self._lock:
            self._forget_ended()
            self._rooms.append(room)
            self._connect(room)

    def close(self) -> None:
        """End it."""
        self._child.close()
        with self._lock:
            for each in self._rooms:
                each.close()
            self._rooms.clear()

    def _note(self, message: Mapping[str, Any]) -> None:
        if "deaths" in message:
            self._worker_deaths += 1
        elif "ready" in message:
            with self._lock:
                self._forget_ended()
                for each in self._rooms:
                    self._connect(each)

    def _connect(self, room: socket.socket) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs, suppress(OSError):
            if self._child.offer(ours.fileno()):
                socket.send_fds(room, [b"c"], [theirs.fileno()])

    def _forget_ended(self) -> None:
        """Close the sockets of processes that have ended."""
        hung_up = select.poll()
        for each in self._rooms:
            hung_up.register(each, 0)
        ended = {descriptor for descriptor, _ in hung_up.poll(0)}
        for each in self._rooms:
            if each.fileno() in ended:
                each.close()
        self._rooms = [each for each in self._rooms if each.fileno() >= 0]
