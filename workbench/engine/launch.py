"""Start a plan's run or compilation in a worker process, or start it and wait."""

from workbench.compiled import Compiled
from workbench.engine.parcel import Job
from workbench.engine.supervisor import Handle, Listener
from workbench.engine.targets import environment_for, verify_target
from workbench.hardware import Hardware
from workbench.measurement import Measurement
from workbench.plan import Plan


def run_plan(
    plan: Plan,
    steps: int = 20,
    on_progress: Listener | None = None,
    check: bool = False,
    time_limit: float | None = None,
    profile: bool = True,
) -> Measurement:
    """Run a plan in a worker process and wait for it; an interrupt cancels it. Raises `EngineError`."""
    return start_run(plan, steps, on_progress, check=check, time_limit=time_limit, profile=profile).wait()


def start_run(
    plan: Plan,
    steps: int = 20,
    on_event: Listener | None = None,
    check: bool = False,
    time_limit: float | None = None,
    profile: bool = True,
) -> Handle[Measurement]:
    """Start a plan in a worker process, on the accelerators if there are any, else on as many virtual CPU devices as the mesh needs.

    `on_event` is called from a thread, with

    - `{"event": "progress", "stage": str, "fraction": float}`,
    - `{"event": "step", "step": int, "of": int, "seconds": float, "loss": float | None}`,

    and at last, once, with `{"event": "done", "measurement": Measurement}`, `{"event": "error", "message": str}` or
    `{"event": "cancelled"}`. `time_limit` is in seconds, compilation included. Raises `EngineError` if the plan's functions cannot be sent.
    """
    job = Job("run", "run", plan, {"steps": steps, "check": check, "profile": profile}, result="measurement")
    return Handle(job, on_event, time_limit)


def compile_plan(
    plan: Plan,
    hardware: Hardware | None = None,
    on_progress: Listener | None = None,
    time_limit: float | None = None,
    keep: bool = True,
    hlo_file: str | None = None,
) -> Compiled:
    """Compile a plan in a worker process and wait for it; an interrupt cancels it. Raises `EngineError`."""
    return start_compile(plan, hardware, on_progress, time_limit, keep=keep, hlo_file=hlo_file).wait()


def start_compile(
    plan: Plan,
    hardware: Hardware | None = None,
    on_event: Listener | None = None,
    time_limit: float | None = None,
    keep: bool = True,
    hlo_file: str | None = None,
) -> Handle[Compiled]:
    """Start compiling a plan in a worker process, for hardware that may be absent: this one, else the plan's, else the attached devices.

    `on_event` is called from a thread, at the start of the stages `starting`, `lowering`, `compiling`, `reading` and every second of them
    with `{"event": "progress", "stage": str, "fraction": float, "elapsed": float}`, `elapsed` being seconds of the stage; and at last,
    once, with `{"event": "done", "compiled": Compiled}` or as in `start_run`. `keep` and `hlo_file` are those of `compile_here`.
    Raises `EngineError` where no compiler for the hardware is installed, its size is not the mesh's, or the functions cannot be sent.
    """
    hardware = hardware or plan.hardware
    verify_target(plan, hardware)
    options = {"hardware": hardware, "keep": keep, "hlo_file": hlo_file}
    job = Job("compile", "compilation", plan, options, result="compiled", environment=environment_for(hardware))
    return Handle(job, on_event, time_limit)
