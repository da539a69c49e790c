"""Dispatch queued jobs: one lane (a thread) per engine, started with the server; jobs outlive it.

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

# Memory check of runs on CPU devices, which use the machine's memory.


RESERVE, LEAST_RESERVE = 1 / 6, 2 << 30
"""Fraction of the memory, and minimum bytes, reserved for the server and its rooms."""

_SUREST = ("compiled", "partitioned", "planned")
_ACCELERATORS = ("nvidia[0-9]*", "accel[0-9]*", "kfd")


@dataclass(frozen=True, slots=True)
class JobMemory:
    total: int
    usable: int

    def within(self, limit: int | None) -> "JobMemory":
        return JobMemory(self.total, min(self.usable, limit)) if limit else self

    def share(self, processes: int) -> int:
        return self.usable // processes


def own_memory(environment: Mapping[str, str] = os.environ, devices: Path = Path("/dev")) -> JobMemory | None:
    """Return this machine's memory, or `None` if jobs use accelerators, which have their own."""
    has_accelerators = any(any(devices.glob(pattern)) for pattern in _ACCELERATORS)
    if has_accelerators and environment.get("JAX_PLATFORMS", "") != "cpu":
        return None
    total = machine_memory()
    return JobMemory(total, max(total - max(round(total * RESERVE), LEAST_RESERVE), 0))


def most_reliable_peak(figures: Mapping[str, Mapping[str, Any]]) -> float | None:
    """Return the peak bytes of a device from the most reliable tier that has it."""
    peaks = (figures.get(tier, {}).get("peak_bytes") for tier in _SUREST)
    return next((peak for peak in peaks if peak), None)


def verify_fits(spec: JobSpec, peak: float | None, memory: JobMemory | None, hosts: int) -> int:
    """Return a run's bytes per host, 0 if unknown. Raises `JobError` if they exceed the memory."""
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
"""Wraps a command to run in a sandbox, given the job's spec, folder and command."""

MakeCommand = Callable[[JobSpec, Path, str | None], Sequence[str]]
_LOG = logging.getLogger(__name__)


class Dispatcher:
    """Queues jobs and runs a lane per engine.

    Implements `web.team_services.JobService` with `is_ready`, `children`, `submit`, `cancel` and `events`.

    - `folder`: parent of the job folders; `limits`: by engine name, by default `JobLimits()`;
    - `confine`: required for registered programs, whose files are at `program_folder(digest)`.
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
        for engine in engines:
            engine_limits = limits.get(engine.name, JobLimits())
            shared = partial(_shared_memory, engine, engine_limits)
            self.lanes[engine.name] = EngineLane(store, engine, engine_limits, folder, self._write_folder, self._tell, shared)

    def start(self) -> None:
        """Start the lanes, which follow active jobs and claim queued ones."""
        for lane in self.lanes.values():
            lane.start()

    def stop(self) -> None:
        """Stop the lanes. The jobs continue, and the next server follows them."""
        for lane in self.lanes.values():
            lane.stop()

    def is_ready(self) -> bool:
        return all(lane.is_alive for lane in self.lanes.values())

    def children(self) -> Mapping[str, ChildState]:
        lanes = self.lanes.values()
        missing = max((lane.missing_seconds() for lane in lanes), default=0.0)
        return {JOB_LANES.name: ChildState(sum(lane.failures for lane in lanes), missing)}

    def listen(self, listener: JobListener) -> Callable[[], None]:
        """Call the listener with job events, from the lanes' threads; returns the function that unsubscribes."""
        with self._listening:
            self._listeners.append(listener)

        def stop() -> None:
            with self._listening:
                if listener in self._listeners:
                    self._listeners.remove(listener)

        return stop

    def put(self, spec: JobSpec, engine: str, *, project_id: str, author_id: str, room_id: str | None = None) -> str:
        """Queue a job and return its ID. Raises `JobError`."""
        if engine not in self.lanes:
            raise JobError(*unknown_name("engine", engine, self.lanes, " on this server"))
        lane = self.lanes[engine]
        job_id = enqueue(self._store, spec, engine, project_id=project_id, author_id=author_id, room_id=room_id, limits=lane.limits)
        lane.wake()
        return job_id

    def end(self, job_id: str) -> None:
        """Request the end of a job. Raises `JobError` for an unknown one."""
        ask_to_cancel(self._store, job_id)
        for lane in self.lanes.values():
            lane.wake()

    def read_events(self, job_id: str, after: int = 0) -> tuple[JobEvent, ...]:
        return read_events(self._folder / job_id / EVENTS, after)

    async def submit(self, request: JobRequest) -> str:
        return await asyncio.to_thread(self._submit, request)

    async def cancel(self, job_id: str) -> None:
        await asyncio.to_thread(self.end, job_id)

    async def events(self, job_id: str, after: int, most: int) -> Sequence[Mapping[str, Any]]:
        new_events = await asyncio.to_thread(self.read_events, job_id, after)
        return [event.record() for event in new_events[:most]]

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
            devices=devices if request.kind == "run" else 1,  # compilations and searches use no devices
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
        """Return the memory of each host, if known, and a run's need. Raises `JobError` if the run does not fit."""
        limit = self.lanes[engine.name].limits.memory
        machine = own_memory({**os.environ, **spec.environment}) if engine.is_here else None
        memory = machine.within(limit) if machine else JobMemory(limit, limit) if limit else None
        with self._store.read() as session:
            rows = session.scalars(select(StoredFigures).where(StoredFigures.digest == spec.plan))
            peak = most_reliable_peak({row.tier: row.values for row in rows})
        return memory, verify_fits(spec, peak, memory, 1 if engine.is_here else spec.hosts)

    def _tell(self, job_id: str, events: Sequence[JobEvent], state: str) -> None:
        with self._listening:
            listeners = tuple(self._listeners)
        for listener in listeners:
            try:
                listener(job_id, events, state)
            except Exception:  # noqa: BLE001 - a failing listener must not stop the others
                _LOG.exception("A listener to jobs failed.")


def _shared_memory(engine: JobEngine, limits: JobLimits) -> int | None:
    """Return the bytes that jobs on this machine share; other engines manage memory themselves."""
    machine = own_memory({"JAX_PLATFORMS": "cpu"}) if engine.is_here else None
    return machine.within(limits.memory).usable if machine else None
