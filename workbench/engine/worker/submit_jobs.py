"""Submit runs, compilations, fleet trainings and searches to a worker process, optionally waiting for the result."""

import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Generic, TypeVar

from workbench.core.child_process import decode_message, encode_message
from workbench.engine.compile.compile_targets import environment_for, verify_target
from workbench.engine.spmd.kept_calibration import kept_calibration
from workbench.engine.worker.failure_messages import CancelledError, death, too_slow
from workbench.engine.worker.job_payload import WorkerJob, pack
from workbench.engine.worker.worker_process import STANDBY, WorkerProcess, environment, standby_for
from workbench.errors import EngineError, WorkbenchError
from workbench.hardware.hardware import Hardware
from workbench.multimodel.fleet import Fleet
from workbench.multimodel.fleet_measurement import FleetMeasurement, FleetTimes
from workbench.multimodel.training_events import FleetCommand, TimingDone, TrainingDone, TrainingEvent, TrainingListener
from workbench.plan.plan import Plan
from workbench.reports.compiled import Compiled
from workbench.reports.measurement import Measurement
from workbench.reports.run_events import CalibrationDone, Cancelled, CompileDone, Failed, Progress, RunDone, RunEvent, RunListener
from workbench.search.search_messages import SearchClosed, SearchCommand, SearchEvent, SearchListener
from workbench.search.search_space import SearchSpace
from workbench.units import read_positive_seconds, read_whole_number

# Run a job in a separate process, so that a crash, a runaway compilation or a lack of memory becomes an error message
# here.
#
# Processes started there by the plan's functions end with it (`worker_process`).


Listener = Callable[[Any], None]  # receives the events of one kind of job
Result = TypeVar("Result")
WorkerEvent = RunEvent | TrainingEvent | SearchEvent


class Handle(Generic[Result]):
    """A running job in a worker process, followed by a separate thread.

    `tell` is called from that thread with every event of the worker, and finally, once, with the event with the result,
    `Failed` or `Cancelled`. `time_limit` is in seconds. Raises `EngineError` for an invalid time limit, or if the
    plan's functions cannot be sent.
    """

    def __init__(self, job: WorkerJob, tell: Listener | None = None, time_limit: float | None = None) -> None:
        time_limit = None if time_limit is None else read_positive_seconds("time_limit", time_limit, EngineError)
        self._job = job
        self._tell = tell or (lambda _: None)
        self._stage = "starting"
        self._reason: WorkbenchError | None = None  # the reason if this handle killed the process
        self._done: WorkerEvent | None = None
        self._result: Result | None = None
        self._error: WorkbenchError | None = None
        self._unsent: list[bytes] | None = []  # commands sent before the job; `None` once the job is sent
        self._writing = threading.Lock()
        job_payload = pack(job)
        self._environment = environment(job)
        standby = standby_for(job.kind).take(self._environment, job.kind)
        self._was_waiting = standby is not None
        worker = standby or WorkerProcess(self._environment)
        self._stderr, self._process = worker.stderr, worker.group  # closed by the listening thread
        self._thread = threading.Thread(target=self._follow, args=(job_payload, worker.pipe, time_limit), daemon=True)
        self._thread.start()

    def cancel(self) -> None:
        """Cancel the job now, at any stage. Does nothing if it has ended."""
        self._stop(CancelledError(f"The {self._job.noun} of {self._job.subject.name} was cancelled."))

    def send(self, command: FleetCommand | SearchCommand) -> None:
        """Send a command to the worker, for fleet trainings and searches. Does nothing if the job has ended."""
        line = encode_message(command)
        with self._writing:
            if self._unsent is None:
                self._write(line)
            else:
                self._unsent.append(line)

    def wait(self) -> Result:
        """Wait for the job and return its result; raises its `EngineError`. An interrupt cancels it."""
        try:
            self._thread.join()
        except KeyboardInterrupt:
            self.cancel()
            raise
        if self._result is not None:
            return self._result
        raise self._error or EngineError(f"The {self._job.noun} was abandoned: its event listener raised an exception.")

    def _stop(self, reason: WorkbenchError) -> None:
        if self._reason is None:
            self._reason = reason
        self._process.kill()

    def _follow(self, job_payload: bytes, pipe: int, time_limit: float | None) -> None:
        limit = time_limit or 0.0
        timer = threading.Timer(min(limit, threading.TIMEOUT_MAX), lambda: self._stop(too_slow(self._job, self._stage, limit)))
        timer.daemon = True
        if time_limit:
            timer.start()
        try:
            with self._stderr:
                self._send(job_payload)
                self._listen(pipe)
                if self._result is None and self._error is None:
                    self._error = self._reason or self._death()
        finally:  # also if the event callback raises, since nobody would read the pipe then
            timer.cancel()
            self._process.close()
            os.close(pipe)
        if self._was_waiting:  # a job that used a standby process prepares the next one
            with suppress(EngineError):
                standby_for(self._job.kind).prepare(self._environment, self._job.kind)
        self._tell(self._ending_event())

    def _send(self, job_payload: bytes) -> None:
        """Send the job. The pipe stays open, because the worker ends when it closes."""
        self._write(len(job_payload).to_bytes(8, "big") + job_payload)
        with self._writing:
            self._write(b"".join(self._unsent or []))
            self._unsent = None

    def _write(self, words: bytes) -> None:
        with suppress(BrokenPipeError, ValueError):  # the process died early, which `_death` reports
            if self._process.stdin:
                self._process.stdin.write(words)
                self._process.stdin.flush()

    def _listen(self, pipe: int) -> None:
        for line in self._process.lines(pipe):
            if not line.endswith(b"\n"):  # an incomplete line
                return
            event: WorkerEvent = decode_message(line)
            if self._store_last_event(event):
                return
            if isinstance(event, Progress):
                self._stage = event.stage
            self._tell(event)

    def _store_last_event(self, event: WorkerEvent) -> bool:
        if isinstance(event, Failed):
            self._error = EngineError(event.message, event.ways_out, event.detail)
        elif (result := _result_of(event)) is not None:
            self._done, self._result = event, result
        return self._error is not None or self._done is not None

    def _death(self) -> WorkbenchError:
        return_code = self._process.wait()
        self._stderr.seek(0)
        return death(self._job, self._stage, return_code, self._stderr.read().decode(errors="replace"))

    def _ending_event(self) -> WorkerEvent:
        if self._done is not None:
            return self._done
        assert self._error is not None
        return Cancelled() if isinstance(self._error, CancelledError) else Failed.of(self._error)


def _result_of(event: WorkerEvent) -> Any:
    match event:
        case RunDone(measurement=result) | TrainingDone(measurement=result):
            return result
        case CalibrationDone(hardware=result):
            return result
        case CompileDone(compiled=result) | TimingDone(times=result) | SearchClosed(requests=result):
            return result
    return None


# Jobs of each kind.


def run_plan(
    plan: Plan,
    steps: int = 20,
    on_progress: RunListener | None = None,
    check: bool = False,
    time_limit: float | None = None,
    profile: bool = True,
) -> Measurement:
    """Run a plan in a worker process and wait for it; an interrupt cancels it. Raises `EngineError`."""
    return start_run(plan, steps, on_progress, check=check, time_limit=time_limit, profile=profile).wait()


def start_run(
    plan: Plan,
    steps: int = 20,
    on_event: RunListener | None = None,
    check: bool = False,
    time_limit: float | None = None,
    profile: bool = True,
) -> Handle[Measurement]:
    """Start a plan in a worker process, on accelerators if there are any, else on virtual CPU devices.

    `on_event` is called from a thread with `Progress` and `StepDone`, and finally, once, with `RunDone`, `Failed` or
    `Cancelled` (`workbench.reports.run_events`). `time_limit` is in seconds, including compilation. Raises
    `EngineError` if the plan's functions cannot be sent, or for invalid steps or seconds.
    """
    steps = read_whole_number("steps", steps, EngineError)
    job = WorkerJob("run", "run", plan, {"steps": steps, "check": check, "profile": profile})
    return Handle(job, on_event, time_limit)


def compile_plan(
    plan: Plan,
    hardware: Hardware | None = None,
    on_progress: RunListener | None = None,
    time_limit: float | None = None,
    keep: bool = True,
    hlo_file: str | None = None,
) -> Compiled:
    """Compile a plan in a worker process and wait for it; an interrupt cancels it. Raises `EngineError`."""
    return start_compile(plan, hardware, on_progress, time_limit, keep=keep, hlo_file=hlo_file).wait()


def start_compile(
    plan: Plan,
    hardware: Hardware | None = None,
    on_event: RunListener | None = None,
    time_limit: float | None = None,
    keep: bool = True,
    hlo_file: str | None = None,
    behind: bool = False,
) -> Handle[Compiled]:
    """Start compiling a plan in a worker process, for this hardware, else the plan's, else the attached devices.

    `on_event` is called from a thread with `Progress` at the start of the stages `starting`, `lowering`, `compiling`,
    `reading` and every second, with the stage's `elapsed` seconds; and finally, once, with `CompileDone`, `Failed` or
    `Cancelled`. `keep` and `hlo_file` are those of `compile_here`; `behind` runs it at low priority. Raises
    `EngineError` if no compiler for the hardware is installed, its size is not the mesh's, or the functions cannot be
    sent.
    """
    hardware = hardware or plan.hardware
    verify_target(plan, hardware)
    job = replace(_compile_job(plan, hardware, {"keep": keep, "hlo_file": hlo_file}), behind=behind)
    return Handle(job, on_event, time_limit)


def start_calibration(plan: Plan, on_event: RunListener | None = None, time_limit: float | None = None) -> Handle[Hardware]:
    """Start measuring as many attached devices as the plan's mesh has, accelerators or else virtual CPU devices.

    `on_event` is called from a thread with `Progress`, and finally, once, with `CalibrationDone`, `Failed` or
    `Cancelled`. The result is stored (`kept_calibration`).
    """
    return Handle(WorkerJob("calibrate", "calibration", plan, {}), on_event, time_limit)


def attached_hardware(plan: Plan, on_progress: RunListener | None = None) -> Hardware:
    """Return the attached devices as calibrated hardware of the mesh's size. Raises `EngineError`."""
    return kept_calibration(plan.mesh.size) or start_calibration(plan, on_progress).wait()


def why_not_compiled(plan: Plan) -> str:
    """Return why a plan cannot be compiled for its hardware, as far as known without a compiler, or an empty text."""
    try:
        verify_target(plan, plan.hardware)
    except EngineError as error:
        return error.message
    return ""


def prepare_compile(plan: Plan, hardware: Hardware | None = None) -> None:
    """Start a standby process, so that `start_compile` need not start Python and import JAX.

    It ends after ten minutes without a compilation; each compilation that uses it starts the next.
    """
    STANDBY.prepare(environment(_compile_job(plan, hardware or plan.hardware, {})), "compile")


def _compile_job(plan: Plan, hardware: Hardware | None, options: Mapping[str, Any]) -> WorkerJob:
    all_options = {"hardware": hardware, **options}
    return WorkerJob("compile", "compilation", plan, all_options, environment=environment_for(hardware))


ONE_THREAD_A_DEVICE = ("--xla_cpu_multi_thread_eigen=false",)
"""Virtual CPU devices share one thread pool: a dot that uses all of it would block the other devices."""


def run_fleet(fleet: Fleet, on_progress: TrainingListener | None = None, time_limit: float | None = None) -> FleetMeasurement:
    """Train a fleet in a worker process and wait for it; an interrupt cancels it. Raises `EngineError`."""
    return start_fleet(fleet, on_progress, time_limit).wait()


def start_fleet(fleet: Fleet, on_event: TrainingListener | None = None, time_limit: float | None = None) -> Handle[FleetMeasurement]:
    """Start training a fleet in a worker process, on the accelerators if there are any, else on virtual CPU devices.

    `on_event` is called from a thread with the events of `workbench.multimodel.training_events`, and finally, once,
    with `TrainingDone`, `Failed` or `Cancelled`. Commands (from the same module) are sent with
    `handle.send(StopModel(name))`, `handle.send(RemoveDevice(number))`, `ReturnDevice`, and
    `handle.send(add_model_command(model))` for another `FleetModel`, which is followed by a `SchedulePredicted` of all
    models; each is answered by `CommandDone` or `CommandRefused`. A cancelled training resumes from its checkpoint if
    the fleet has a folder. Raises `EngineError` if the models' functions cannot be sent.
    """
    return Handle(WorkerJob("fleet", "training", fleet, {}, flags=ONE_THREAD_A_DEVICE), on_event, time_limit)


def start_timing(fleet: Fleet, on_event: TrainingListener | None = None, time_limit: float | None = None) -> Handle[FleetTimes]:
    """Start timing a fleet's units on one device in a worker process; the last event is `TimingDone`."""
    return Handle(WorkerJob("timing", "timing", fleet, {}, flags=ONE_THREAD_A_DEVICE), on_event, time_limit)


def measure_units(fleet: Fleet, on_progress: TrainingListener | None = None, time_limit: float | None = None) -> FleetTimes:
    """Time a fleet's units in a worker process for the simulator, and wait for it. Raises `EngineError`."""
    return start_timing(fleet, on_progress, time_limit).wait()


_SEARCH = "search"  # kind of job
_PLANNING_ONLY = {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "1"}
"""Planning needs no device, and runs of plans need the whole accelerators."""


def start_searches(space: SearchSpace, on_event: SearchListener) -> Handle[int]:
    """Start a search process for a space, at low priority.

    `handle.send(SearchRequest(...))` sends a request, `handle.cancel()` ends it at once. `on_event` is called from a
    thread with `SearchUpdate`, `PlanExplanation` and `SearchRefused`, and finally, once, with `SearchClosed`, `Failed`
    or `Cancelled`. The space includes its traced programs, because a program that was sent cannot be traced with
    another remat policy. Raises `EngineError` if the program's functions cannot be sent.
    """
    return Handle(_search_job(space.start, space), on_event)


def prepare_searches(plan: Plan) -> None:
    """Start a standby process for ten minutes, so that `start_searches` need not start Python and import JAX."""
    standby_for(_SEARCH).prepare(environment(_search_job(plan, None)), _SEARCH)


def _search_job(plan: Plan, space: SearchSpace | None) -> WorkerJob:
    return WorkerJob(_SEARCH, "search", plan, {"space": space}, environment=_PLANNING_ONLY, behind=True)
