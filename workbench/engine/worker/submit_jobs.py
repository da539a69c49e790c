"""Submit a plan's run or compilation, the training of a fleet or a search to a worker process; or submit it and wait."""

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
    """Start a plan in a worker process, on the accelerators if there are any, else on as many virtual CPU devices as the mesh needs.

    `on_event` is called from a thread, with `Progress` and `StepDone`, and at last, once, with `RunDone`, `Failed` or `Cancelled`
    (`workbench.reports.run_events`). `time_limit` is in seconds, compilation included. Raises `EngineError` if the plan's functions cannot
    be sent, or if steps or seconds are no such numbers.
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
    """Start compiling a plan in a worker process, for hardware that may be absent: this one, else the plan's, else the attached devices.

    `on_event` is called from a thread, at the start of the stages `starting`, `lowering`, `compiling`, `reading` and every second of them
    with `Progress`, whose `elapsed` is seconds of the stage; and at last, once, with `CompileDone`, `Failed` or `Cancelled`. `keep` and
    `hlo_file` are those of `compile_here`; `behind` runs it at low priority. Raises `EngineError` where no compiler for the hardware is
    installed, its size is not the mesh's, or the functions cannot be sent.
    """
    hardware = hardware or plan.hardware
    verify_target(plan, hardware)
    job = replace(_compile_job(plan, hardware, {"keep": keep, "hlo_file": hlo_file}), behind=behind)
    return Handle(job, on_event, time_limit)


def start_calibration(plan: Plan, on_event: RunListener | None = None, time_limit: float | None = None) -> Handle[Hardware]:
    """Start measuring the attached devices in a worker process, as many as the plan's mesh has: the accelerators if there are any, else
    virtual CPU devices. `on_event` is called from a thread with `Progress`, and at last, once, with `CalibrationDone`, `Failed` or
    `Cancelled`. What is found is kept (`kept_calibration`)."""
    return Handle(WorkerJob("calibrate", "calibration", plan, {}), on_event, time_limit)


def attached_hardware(plan: Plan, on_progress: RunListener | None = None) -> Hardware:
    """The attached devices as hardware, as many as the plan's mesh has: as they were measured, or measured now. Raises `EngineError`."""
    return kept_calibration(plan.mesh.size) or start_calibration(plan, on_progress).wait()


def why_not_compiled(plan: Plan) -> str:
    """The reason why a plan cannot be compiled for its hardware, as far as that is known without a compiler; empty if there is none."""
    try:
        verify_target(plan, plan.hardware)
    except EngineError as error:
        return error.message
    return ""


def prepare_compile(plan: Plan, hardware: Hardware | None = None) -> None:
    """Start a process that waits for a compilation of such a plan, so that `start_compile` need not start Python and import JAX.

    It is ended when no compilation comes for ten minutes; each compilation that found one waiting starts the next.
    """
    STANDBY.prepare(environment(_compile_job(plan, hardware or plan.hardware, {})), "compile")


def _compile_job(plan: Plan, hardware: Hardware | None, options: Mapping[str, Any]) -> WorkerJob:
    given = {"hardware": hardware, **options}
    return WorkerJob("compile", "compilation", plan, given, environment=environment_for(hardware))


ONE_THREAD_A_DEVICE = ("--xla_cpu_multi_thread_eigen=false",)
"""Virtual CPU devices share one pool of threads: a dot that uses all of it leaves nothing to the other devices."""


def run_fleet(fleet: Fleet, on_progress: TrainingListener | None = None, time_limit: float | None = None) -> FleetMeasurement:
    """Train a fleet in a worker process and wait for it; an interrupt cancels it. Raises `EngineError`."""
    return start_fleet(fleet, on_progress, time_limit).wait()


def start_fleet(fleet: Fleet, on_event: TrainingListener | None = None, time_limit: float | None = None) -> Handle[FleetMeasurement]:
    """Start training a fleet in a worker process, on the accelerators if there are any, else on virtual CPU devices.

    `on_event` is called from a thread with the events of `workbench.multimodel.training_events`, and at last, once, with `TrainingDone`,
    `Failed` or `Cancelled`. Commands (`workbench.multimodel.training_events`) are sent with `handle.send(StopModel(name))`,
    `handle.send(RemoveDevice(number))`, `ReturnDevice`, and `handle.send(add_model_command(model))` for one more `FleetModel`, which is
    followed by a `SchedulePredicted` of all; each is answered by `CommandDone` or `CommandRefused`. A cancelled training resumes from its
    checkpoint if the fleet has a folder. Raises `EngineError` if the models' functions cannot be sent.
    """
    return Handle(WorkerJob("fleet", "training", fleet, {}, flags=ONE_THREAD_A_DEVICE), on_event, time_limit)


def start_timing(fleet: Fleet, on_event: TrainingListener | None = None, time_limit: float | None = None) -> Handle[FleetTimes]:
    """Start timing a fleet's units on one device in a worker process; the last event is `TimingDone`."""
    return Handle(WorkerJob("timing", "timing", fleet, {}, flags=ONE_THREAD_A_DEVICE), on_event, time_limit)


def measure_units(fleet: Fleet, on_progress: TrainingListener | None = None, time_limit: float | None = None) -> FleetTimes:
    """Time a fleet's units in a worker process and wait for it, for the simulator. Raises `EngineError`."""
    return start_timing(fleet, on_progress, time_limit).wait()


_SEARCH = "search"  # the kind of job
_PLANNING_ONLY = {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "1"}
"""Planning needs no device, and whoever runs a plan needs the accelerators whole."""


def start_searches(space: SearchSpace, on_event: SearchListener) -> Handle[int]:
    """Start a process for a space, at low priority: `handle.send(AskSearch(request))` asks it, `handle.cancel()` ends it at once.

    `on_event` is called from a thread with `SearchUpdated`, `PlanExplained` and `SearchRefused`, and at last, once, with `SearchClosed`,
    `Failed` or `Cancelled`. The space holds its programs as they were traced, for a program that was sent cannot be traced with another
    remat. Raises `EngineError` if the program's functions cannot be sent.
    """
    return Handle(_search_job(space.start, space), on_event)


def prepare_searches(plan: Plan) -> None:
    """Start a process that waits for a space, so that `start_searches` need not start Python and import JAX. It ends after ten minutes."""
    standby_for(_SEARCH).prepare(environment(_search_job(plan, None)), _SEARCH)


def _search_job(plan: Plan, space: SearchSpace | None) -> WorkerJob:
    return WorkerJob(_SEARCH, "search", plan, {"space": space}, environment=_PLANNING_ONLY, behind=True)
