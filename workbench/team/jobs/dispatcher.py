"""Whoever takes jobs from the queue: a lane, that is a thread, for each engine; it is started with the server, and its jobs outlive it.

dispatcher = Dispatcher(store, data / "jobs", [LocalEngine()])
dispatcher.start()
stop = dispatcher.listen(lambda job_id, events, state: print(job_id, state, *events))
"""

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import select

from workbench.app.processes.child_table import JOB_LANES, ChildState
from workbench.core.memory_limits import machine_memory
from workbench.errors import unknown_name
from workbench.team.jobs.engine_lane import EngineLane, JobListener
from workbench.team.jobs.job_events import JobEvent, read_events
from workbench.team.jobs.job_folder import EVENTS, write_folder
from workbench.team.jobs.job_spec import JobError, JobSpec, command_line
from workbench.team.jobs.local_engine import JobEngine
from workbench.team.jobs.queue import JobLimits, ask_to_cancel, enqueue
from workbench.team.store.store import Store
from workbench.team.store.tables import RegisteredProgram, StoredFigures, StoredPlan
from workbench.team.web.team_services import JobRequest
from workbench.units import format_bytes

# Whether a run fits the memory of the machine that it would run on, where its devices are the processor's.


RESERVE, LEAST_RESERVE = 1 / 6, 2 << 30
"""Of the memory, and bytes at least, for the server itself and its rooms."""

_SUREST = ("compiled", "partitioned", "planned")
_ACCELERATORS = ("nvidia[0-9]*", "accel[0-9]*", "kfd")


@dataclass(frozen=True, slots=True)
class JobMemory:
    """Bytes of one host in all, and those that jobs may use."""

    total: int
    usable: int

    def within(self, limit: int | None) -> "JobMemory":
        """The same, of which jobs may use no more than this."""
        return JobMemory(self.total, min(self.usable, limit)) if limit else self

    def share(self, processes: int) -> int:
        """Bytes of each of so many processes."""
        return self.usable // processes


def own_memory(environment: Mapping[str, str] = os.environ, devices: Path = Path("/dev")) -> JobMemory | None:
    """That of this machine; none where jobs run on accelerators, which have their own."""
    has_accelerators = any(any(devices.glob(each)) for each in _ACCELERATORS)
    if has_accelerators and environment.get("JAX_PLATFORMS", "") != "cpu":
        return None
    total = machine_memory()
    return JobMemory(total, max(total - max(round(total * RESERVE), LEAST_RESERVE), 0))


def surest_peak(figures: Mapping[str, Mapping[str, Any]]) -> float | None:
    """Bytes at the peak of a device, as the surest tier that knows them says."""
    found = (figures.get(tier, {}).get("peak_bytes") for tier in _SUREST)
    return next((each for each in found if each), None)


def verify_fits(spec: JobSpec, peak: float | None, memory: JobMemory | None, hosts: int) -> int:
    """The bytes that the devices of a run need on each of so many hosts, 0 where nothing is known of them.

    Raises `JobError` where that is more than there is; what is not known is not refused.
    """
    if spec.kind != "run" or not peak or memory is None:
        return 0
    devices = -(-spec.devices // hosts)
    if devices * peak <= memory.usable:
        return round(devices * peak)
    where = "this server" if hosts == 1 else f"each of {hosts} hosts"
    raise JobError(
        f"The run needs {devices} x {format_bytes(peak)} = {format_bytes(devices * peak)} of memory on {where}, which has "
        f"{format_bytes(memory.total)}; jobs may use {format_bytes(memory.usable)} of that.",
        ["choose fewer devices", "choose a smaller batch or a layout that needs less memory", "choose another engine"],
    )


Confine = Callable[[JobSpec, Path, Sequence[str]], Sequence[str]]
"""The command that runs another one in a sandbox: of a job's spec, its folder, and its command."""

MakeCommand = Callable[[JobSpec, Path, str | None], Sequence[str]]
_LOG = logging.getLogger(__name__)


class Dispatcher:
    """See the module. `is_ready`, `children`, `submit`, `cancel` and `events` are those of `web.team_services.JobService`.

    - `folder`: where each job has one of its own; `limits`: of each engine by its name, else those of `JobLimits`;
    - `confine`: needed for programs of the team's own, whose files are where `program_folder` says for their digest.
    """

    def __init__(
        self,
        store: Store,
        folder: Path,
        engines: Sequence[JobEngine],
        *,
        limits: Mapping[str, JobLimits] | None = None,
        confine: Confine | None = None,
        program_folder: Callable[[str], Path] | None = None,
        command: MakeCommand = command_line,
    ) -> None:
        self._store, self._folder, self._command = store, folder, command
        self._confine, self._program_folder = confine, program_folder
        self._listeners: list[JobListener] = []
        self._listening = threading.Lock()
        limits = limits or {}
        self.lanes = {}
        for each in engines:
            own = limits.get(each.name, JobLimits())
            shared = partial(_shared_memory, each, own)
            self.lanes[each.name] = EngineLane(store, each, own, folder, self._write_folder, self._tell, shared)

    def start(self) -> None:
        """Follow the jobs that are under way, and take others from the queue."""
        for each in self.lanes.values():
            each.start()

    def stop(self) -> None:
        """Follow no more. The jobs go on, and whoever is started later follows them."""
        for each in self.lanes.values():
            each.stop()

    def is_ready(self) -> bool:
        return all(each.is_alive for each in self.lanes.values())

    def children(self) -> Mapping[str, ChildState]:
        lanes = self.lanes.values()
        missing = max((each.missing_seconds() for each in lanes), default=0.0)
        return {JOB_LANES.name: ChildState(sum(each.failures for each in lanes), missing)}

    def listen(self, listener: JobListener) -> Callable[[], None]:
        """Call the listener with what happens to jobs, from threads of ours; returns the function that ends it."""
        with self._listening:
            self._listeners.append(listener)

        def stop() -> None:
            with self._listening:
                if listener in self._listeners:
                    self._listeners.remove(listener)

        return stop

    def put(self, spec: JobSpec, engine: str, *, project_id: str, author_id: str, room_id: str | None = None) -> str:
        """Put a job into the queue; its id. Raises `JobError`."""
        if engine not in self.lanes:
            raise JobError(*unknown_name("engine", engine, self.lanes, " on this server"))
        lane = self.lanes[engine]
        job_id = enqueue(self._store, spec, engine, project_id=project_id, author_id=author_id, room_id=room_id, limits=lane.limits)
        lane.wake()
        return job_id

    def end(self, job_id: str) -> None:
        """Ask for a job to be ended. Raises `JobError` for one that there is not."""
        ask_to_cancel(self._store, job_id)
        for each in self.lanes.values():
            each.wake()

    def read_events(self, job_id: str, after: int = 0) -> tuple[JobEvent, ...]:
        """The events of a job so far, from a number on."""
        return read_events(self._folder / job_id / EVENTS, after)

    async def submit(self, request: JobRequest) -> str:
        return await asyncio.to_thread(self._submit, request)

    async def cancel(self, job_id: str) -> None:
        await asyncio.to_thread(self.end, job_id)

    async def events(self, job_id: str, after: int, most: int) -> Sequence[Mapping[str, Any]]:
        found = await asyncio.to_thread(self.read_events, job_id, after)
        return [each.record() for each in found[:most]]

    def _submit(self, request: JobRequest) -> str:
        with self._store.read() as session:
            devices = session.scalar(select(StoredPlan.devices).where(StoredPlan.digest == request.digest))
            program = session.get(RegisteredProgram, request.program_id) if request.program_id else None
        if devices is None:
            raise JobError("The plan does not exist.", ["push it first"])
        if program is not None and (program.state != "approved" or program.digest is None):
            raise JobError(f"The program `{program.name}` is not approved.", ["ask an owner of the project"])
        spec = JobSpec(
            plan=request.digest,
            kind=request.kind,
            program=program.digest if program else None,
            module=program.target.partition(":")[0] if program else "",
            devices=devices if request.kind == "run" else 1,  # what is compiled or searched for takes none of them
            **{name: getattr(request, name) for name in ("steps", "check", "hosts", "processes", "minutes", "memory")},
            environment=dict(request.environment),
            options=dict(request.options),
        )
        self._verify_program(spec)
        if request.engine in self.lanes:
            spec = replace(spec, host_bytes=self._verify_memory(spec, self.lanes[request.engine].engine)[1])
        return self.put(spec, request.engine, project_id=request.project_id, author_id=request.author_id, room_id=request.room_id)

    def _verify_program(self, spec: JobSpec) -> None:
        if spec.program and (self._confine is None or self._program_folder is None):
            raise JobError("This server runs no registered programs.", ["use a model of the zoo", "ask an administrator"])

    def _write_folder(self, job_id: str, spec: JobSpec, engine: JobEngine) -> Path:
        """The folder of a job that was claimed. Raises `JobError`, `OSError`."""
        self._verify_program(spec)
        with self._store.read() as session:
            document = session.scalar(select(StoredPlan.document).where(StoredPlan.digest == spec.plan))
        if document is None:
            raise JobError("The plan of the job no longer exists.", ["push it again"])
        memory, _ = self._verify_memory(spec, engine)
        folder = self._folder / job_id
        command = self._command(spec, folder, engine.python)
        if self._confine is not None:
            command = self._confine(spec, folder, command)
        program = self._program_folder(spec.program) if spec.program and self._program_folder else None
        data_limit = memory.share(spec.process_count if engine.is_here else spec.processes) if memory else None
        write_folder(folder, spec, document, command, spec.environment, program, data_limit)
        return folder

    def _verify_memory(self, spec: JobSpec, engine: JobEngine) -> tuple[JobMemory | None, int]:
        """The memory of each host that the job would have, where that is known, and the bytes of it that a run needs.

        Raises `JobError` for a run that does not fit.
        """
        limit = self.lanes[engine.name].limits.memory
        own = own_memory({**os.environ, **spec.environment}) if engine.is_here else None
        memory = own.within(limit) if own else JobMemory(limit, limit) if limit else None
        with self._store.read() as session:
            rows = session.scalars(select(StoredFigures).where(StoredFigures.digest == spec.plan))
            peak = surest_peak({each.tier: each.values for each in rows})
        return memory, verify_fits(spec, peak, memory, 1 if engine.is_here else spec.hosts)

    def _tell(self, job_id: str, events: Sequence[JobEvent], state: str) -> None:
        with self._listening:
            listeners = tuple(self._listeners)
        for each in listeners:
            try:
                each(job_id, events, state)
            except Exception:  # noqa: BLE001 - a listener's own fault ends nothing
                _LOG.exception("A listener to jobs failed.")


def _shared_memory(engine: JobEngine, limits: JobLimits) -> int | None:
    """Bytes that the jobs of this machine share; other engines find room for each themselves."""
    own = own_memory({"JAX_PLATFORMS": "cpu"}) if engine.is_here else None
    return own.within(limits.memory).usable if own else None
