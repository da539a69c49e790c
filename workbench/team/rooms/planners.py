"""Start the processes that import JAX: room planners, describers and the partition broker.

Rooms about zoo models are forks of one process, or run on a Ray cluster; rooms about a registered program run in a
sandbox each. The server itself imports neither JAX nor user code; it passes messages.
Each describer reads one document at a time, so that a crash affects no other document.
"""

import asyncio
import os
import select
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import msgspec

from workbench.app.processes.child_table import BROKER, DESCRIBERS, FORK_SERVER, PARTITIONER, ChildState
from workbench.app.processes.healing_child import ForkServer, HealingChild
from workbench.app.processes.process_connection import ENDING
from workbench.core.child_process import start_child
from workbench.core.import_path import python_path
from workbench.core.memory_limits import OomKills
from workbench.core.public_error_text import describe_process_end, last_line
from workbench.engine.cluster.process_relay import command_on_cluster
from workbench.engine.cluster.ray_cluster import verify_shared_cluster
from workbench.errors import WorkbenchError
from workbench.team.programs.program_registry import PLANNER, ProgramRegistry, sandboxed_planner_command
from workbench.team.rooms.room_connection import DescribeConnection, StartedPlanner
from workbench.team.sandbox.sandboxed_process import SandboxedProcess
from workbench.team.store.store import digest_of
from workbench.team.store.tables import RegisteredProgram
from workbench.team.web.team_services import Answer, DescribedPlan, FoundBaseline, FoundBaselines, GradedAnswer, ReplayedRoom


def start_on_cluster(address: str) -> StartedPlanner:
    """Start a room process for zoo models on the cluster at this address. It has its own partitioner."""
    errors = tempfile.TemporaryFile()  # noqa: SIM115 - read after the process ends
    ours, theirs = socket.socketpair()
    environment = {**os.environ, "PYTHONPATH": python_path()}
    with ours, theirs:
        process = start_child(
            command_on_cluster(address, PLANNER, theirs.fileno()),
            stdin=subprocess.DEVNULL,
            stderr=errors,
            pass_fds=(theirs.fileno(),),
            env=environment,
        )
        connection = Connection(ours.detach())

    def reason(_pid: int | None) -> str:
        try:
            process.wait(ENDING)
        except subprocess.TimeoutExpired:
            return "lost its connection to the cluster"
        with errors:
            errors.seek(0)
            error_line = last_line(errors.read().decode(errors="replace")).rstrip(".")
        return f"ended on the cluster: {error_line}" if error_line else "ended on the cluster"

    return StartedPlanner(connection, reason, process.kill)


_ROOM = "workbench.team.planning.room_process:serve_room"


class Planners:
    """Starts planner processes; a `web.team_services.Planner`. `cluster` is a Ray address. Raises `EngineError`."""

    def __init__(self, programs: ProgramRegistry | None = None, cluster: str = "") -> None:
        if cluster:
            verify_shared_cluster(cluster)
        self._cluster = cluster
        self._forking = ForkServer(_ROOM)
        self._broker = PartitionBroker()
        self._programs, self._oom_kills = programs, OomKills()
        self._describers = DocumentDescribers(self.connect)

    def connect(self, program: RegisteredProgram | None) -> StartedPlanner:
        """Start a process for a registered program or, with `None`, zoo models. Raises `WorkbenchError`."""
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
        """Start a sandboxed process, which has no connection to the broker."""
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
        """End the processes that start others; a room's process ends with its connection."""
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
        self._oom_kills.look()

    def _fate_of_fork(self, pid: int | None) -> str:
        status = None if pid is None else self._forking.status_of(pid)
        return describe_process_end(status, memory_ran_out=self._oom_kills.is_recent())


def _fate_of(process: SandboxedProcess) -> str:
    ending = process.wait(ENDING)
    return ending.fate if ending else "closed its connection"


_WORK = {GradedAnswer: "graded this answer", ReplayedRoom: "replayed this room"}
_WORK |= dict.fromkeys((FoundBaselines, FoundBaseline), "searched for baselines")


def read_answer(kind: type[Answer], record: Mapping[str, Any]) -> Answer:
    """Convert an answer, checking all types: its process may run user code. Raises `WorkbenchError`."""
    try:
        return msgspec.convert(record, kind)
    except msgspec.ValidationError:
        work = _WORK.get(kind, "read this plan")
        raise WorkbenchError(f"The process that {work} sent an invalid answer.", ["try once more"]) from None


# The server's side of the partition broker: rooms are connected to it, and again to each replacement.

_MODULE = "workbench.team.planning.partition_broker"


class PartitionBroker:
    """Runs `team.planning.partition_broker` and restarts it whenever it ends. Without it rooms show planned figures."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rooms: list[socket.socket] = []  # sockets that send connections to rooms' processes
        self._worker_deaths = 0
        self._child = HealingChild("asks XLA's partitioner", _MODULE, listen=self._note)

    @property
    def pid(self) -> int | None:
        return self._child.pid

    def state(self) -> ChildState:
        return self._child.state()

    def worker_state(self) -> ChildState:
        return ChildState(self._worker_deaths, 0.0)

    def attach(self, room: socket.socket) -> None:
        """Connect a room's process, which listens at the other end of the socket, now or when the broker is available."""
        with self._lock:
            self._forget_ended()
            self._rooms.append(room)
            self._connect(room)

    def close(self) -> None:
        self._child.close()
        with self._lock:
            for room in self._rooms:
                room.close()
            self._rooms.clear()

    def _note(self, message: Mapping[str, Any]) -> None:
        if "deaths" in message:
            self._worker_deaths += 1
        elif "ready" in message:
            with self._lock:
                self._forget_ended()
                for room in self._rooms:
                    self._connect(room)

    def _connect(self, room: socket.socket) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs, suppress(OSError):
            if self._child.offer(ours.fileno()):
                socket.send_fds(room, [b"c"], [theirs.fileno()])

    def _forget_ended(self) -> None:
        hung_up = select.poll()
        for room in self._rooms:
            hung_up.register(room, 0)
        ended = {descriptor for descriptor, _ in hung_up.poll(0)}
        for room in self._rooms:
            if room.fileno() in ended:
                room.close()
        self._rooms = [room for room in self._rooms if room.fileno() >= 0]


MOST_SECONDS = 60.0
"""Time limit for one document in seconds, excluding the wait for a process."""
AT_ONCE = 2
"""Concurrent documents; others wait without blocking shared threads."""


class DocumentDescribers:
    """A pool of describer processes, started with `connect(program)`. Thread-safe."""

    def __init__(self, connect: Callable[[RegisteredProgram | None], StartedPlanner]) -> None:
        self._connect, self._lock = connect, threading.Lock()
        self._threads = ThreadPoolExecutor(AT_ONCE, "documents")
        self._idle: list[DescribeConnection] = []
        self._at_work: set[DescribeConnection] = set()
        self._is_closed = False
        self.deaths = 0  # unexpected ends of processes

    async def ask(self, question: Mapping[str, Any], program: RegisteredProgram | None = None) -> Mapping[str, Any]:
        """Send a question to a process for zoo models or for a registered program. Raises `WorkbenchError`."""
        if self._is_closed:
            raise WorkbenchError("The server is closing.", ["try again after the restart"])
        work = partial(self._ask_zoo, question) if program is None else partial(self._ask_apart, question, program)
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def close(self) -> None:
        with self._lock:
            self._is_closed, idle, self._idle, at_work = True, self._idle, [], list(self._at_work)
        for connection in idle:
            connection.close()
        for connection in at_work:
            connection.kill()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _ask_zoo(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        with self._lock:
            describing = self._idle.pop() if self._idle else None
        if describing is None or describing.is_closed:
            describing = DescribeConnection(self._connect(None), self._note_death)
        try:
            return self._wait(describing, question)
        finally:
            self._give_back(describing)

    def _note_death(self) -> None:
        with self._lock:
            self.deaths += 1

    def _give_back(self, describing: DescribeConnection) -> None:
        with self._lock:
            if not self._is_closed and not describing.is_closed:
                self._idle.append(describing)
                return
        describing.close()

    def _ask_apart(self, question: Mapping[str, Any], program: RegisteredProgram) -> Mapping[str, Any]:
        describing = DescribeConnection(self._connect(program), self._note_death)
        try:
            return _verified(self._wait(describing, question), program)
        finally:
            describing.close()

    def _wait(self, describing: DescribeConnection, question: Mapping[str, Any]) -> Mapping[str, Any]:
        with self._lock:
            self._at_work.add(describing)
        try:
            return describing.ask(question).result(MOST_SECONDS)
        except TimeoutError:
            describing.is_closed = True  # prevents reuse
            describing.kill()
            raise WorkbenchError(
                f"Reading this document took longer than {MOST_SECONDS:g} s and was stopped.", ["plan a smaller program", "ask again later"]
            ) from None
        finally:
            with self._lock:
                self._at_work.discard(describing)


def _verified(record: Mapping[str, Any], program: RegisteredProgram) -> Mapping[str, Any]:
    """Check that a process that runs user code describes its own program."""
    if record.get("target") != program.target or record.get("digest") != digest_of(str(record.get("document"))):
        raise WorkbenchError(f"The program `{program.name}` describes a different plan.", ["ask an owner to look at it"])
    return record
