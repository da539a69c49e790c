"""Submit runs, compilations, fleet trainings and searches to a worker process, optionally waiting for the result."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from workbench.engine.compile.compile_targets import environment_for, verify_target
from workbench.engine.spmd.kept_calibration import kept_calibration
from workbench.engine.worker.job_handle import Handle
from workbench.engine.worker.job_payload import WorkerJob
from workbench.engine.worker.worker_process import STANDBY, environment, standby_for
from workbench.errors import EngineError
from workbench.hardware.hardware import Hardware
from workbench.multimodel.fleet import Fleet
from workbench.multimodel.fleet_measurement import FleetMeasurement, FleetTimes
from workbench.multimodel.training_events import TrainingListener
from workbench.plan.plan import Plan
from workbench.reports.compiled import Compiled
from workbench.reports.measurement import Measurement
from workbench.reports.run_events import RunListener
from workbench.search.search_messages import SearchListener
from workbench.search.search_space import SearchSpace
from workbench.units import read_whole_number


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
