"""Run a plan in this process: compile, place, warm up, time, and read back the actual shards."""

from functools import partial

import jax

from workbench.analysis.analyze import analyze
from workbench.engine.hlo.compiled_collectives import collectives_of
from workbench.engine.hlo.read_compiled import read_memory_analysis
from workbench.engine.mpmd.against_sequential import check_pipeline, largest_error_of
from workbench.engine.mpmd.execute_pipeline import largest_peak, run_pipelined, time_steps
from workbench.engine.spmd.against_unsharded import StepCheck, check_step, find_first_wrong, has_manual_axes
from workbench.engine.spmd.calibrate import calibrate
from workbench.engine.spmd.compiled_step import CompiledStep, compile_step, spmd_plan
from workbench.engine.spmd.device_mesh import real_shard_shape
from workbench.engine.spmd.profile_step import profile as profiled
from workbench.engine.worker.failure_messages import in_user_terms
from workbench.errors import EngineError
from workbench.hardware.hardware import Hardware
from workbench.plan.plan import Plan
from workbench.reports.compiled import payload_by_axis_and_kind
from workbench.reports.device_trace import Trace
from workbench.reports.measurement import Measurement, ShardCheck
from workbench.reports.placement import Placement
from workbench.reports.run_events import Progress, RunListener
from workbench.spmd.compile_to_schedule import module_of
from workbench.units import read_whole_number


def execute(
    plan: Plan, steps: int = 20, on_event: RunListener | None = None, check: bool = False, warmup: int = 2, profile: bool = True
) -> Measurement:
    """Run `steps` steps of the plan on the attached devices, after `warmup` unmeasured steps from the same start.

    `on_event` receives stages and steps as `Progress` and `StepDone`. `check` compares the first step with the
    unsharded one, if it fits on one device; `profile` profiles one more step. With several processes each must make the
    same call, and gets the same losses and the trace of its devices. Raises `EngineError` for too few devices,
    insufficient memory, or a failing user function.
    """
    steps, warmup = read_whole_number("steps", steps, EngineError), read_whole_number("warmup", warmup, EngineError, least=0)
    stage = _RunStage(on_event or (lambda _: None))
    try:
        if plan.pipeline is not None and plan.pipeline.engine == "mpmd":
            return run_pipelined(plan, steps, stage.enter, stage.tell, check=check, warmup=warmup, watch=profile)
        return _run(plan, steps, stage, check=check, warmup=warmup, watch=profile)
    except Exception as error:  # a user's function or XLA may raise anything
        raise in_user_terms(error, plan, stage.name) from error


class _RunStage:
    """Reports the current stage of the run, and stores it to explain a failure."""

    def __init__(self, tell: RunListener) -> None:
        self.tell = tell
        self.name = "starting"

    def enter(self, name: str, fraction: float) -> None:
        self.name = name
        self.tell(Progress(name, fraction))


def _run(plan: Plan, steps: int, stage: _RunStage, *, check: bool, warmup: int, watch: bool) -> Measurement:
    """Run all stages; check and calibration come after reading the device's peak, which they raise."""
    stage.enter("planning", 0.0)
    report = analyze(plan)
    given, plan = plan, plan if plan.pipeline is None else spmd_plan(plan)
    stage.enter("compiling", 0.05)
    step = compile_step(plan)
    stage.enter("placing the state", 0.4)
    arguments = step.arguments(0)
    shards = tuple(map(_shard_check, report.arguments, arguments))
    stage.enter("warming up", 0.45)
    shards += tuple(map(_shard_check, report.results, _warm_up(step, arguments, max(warmup, 1))))
    del arguments
    stage.enter("running", 0.5)
    arguments = step.arguments(0)
    jax.block_until_ready(arguments)
    seconds, losses = time_steps(partial(_advance, step, arguments), steps, stage.tell)
    device_peak = largest_peak(step.mesh.local_devices)
    trace, why_untraced = _profile_step(step, arguments, stage) if watch else (None, "")
    del arguments
    step_check = _check_against_one_device(step, given, stage) if check else StepCheck(None)
    first_wrong = _find_first_wrong(step, given, step_check, stage) if step_check.is_wrong else ""
    stage.enter("calibrating", 0.9)
    hardware = calibrate(tuple(step.mesh.devices.flat))
    return Measurement(
        device_kind=jax.devices()[0].device_kind,
        devices=plan.mesh.size,
        processes=jax.process_count(),
        compile_seconds=step.compile_seconds,
        step_seconds=seconds,
        losses=losses,
        shards=shards,
        compiled=payload_by_axis_and_kind(collectives_of(module_of(step.compiled), plan.mesh)),
        compiled_peak=read_memory_analysis(step.compiled.memory_analysis(), on_tpu=step.mesh.devices.flat[0].platform == "tpu").peak,
        device_peak=device_peak,
        predicted_seconds=_predict_seconds(given, hardware),
        hardware=hardware,
        max_error=step_check.error,
        explained_error=step_check.explained,
        not_numbers=step_check.not_numbers,
        first_wrong=first_wrong,
        trace=trace,
        why_untraced=why_untraced,
    )


def _predict_seconds(plan: Plan, hardware: Hardware) -> float | None:
    time = analyze(plan.updated(hardware=hardware, axis_assignment=None)).step_time
    return None if time is None else time.total


def _profile_step(step: CompiledStep, arguments: list[jax.Array], stage: _RunStage) -> tuple[Trace | None, str]:
    stage.enter("profiling", 0.8)
    trace, why_not = profiled(step, arguments)
    if why_not:
        stage.enter(f"not profiled: {why_not}", 0.85)
    return trace, why_not


def _check_against_one_device(step: CompiledStep, given: Plan, stage: _RunStage) -> StepCheck:
    whole = given.pipeline is None and has_manual_axes(given.program)
    stage.enter("checking against whole arguments on every device" if whole else "checking against one device", 0.85)
    if given.pipeline is None:
        step_check = check_step(step, step.arguments(0))
    else:
        count = given.pipeline.micro_batches
        step_check = check_pipeline(given.program, count, partial(largest_error_of, step, given.program, count))
    if step_check.reason:
        stage.enter(f"not checked: {step_check.reason}", 0.9)
    return step_check


def _find_first_wrong(step: CompiledStep, given: Plan, found: StepCheck, stage: _RunStage) -> str:
    """Return the first wrong value; empty in a pipeline, over several processes, and in a `shard_map`."""
    if given.pipeline is not None or jax.process_count() > 1 or has_manual_axes(given.program) or found.explained is None:
        return ""
    try:
        return find_first_wrong(step, step.arguments(0), found.explained, lambda text: stage.enter(text, 0.87))
    except Exception as error:  # noqa: BLE001 - the measurements are more important than the location of the error
        stage.enter(f"the first wrong value was not found: {str(error).splitlines()[0]:.200}", 0.88)
        return ""


def _warm_up(step: CompiledStep, arguments: list[jax.Array], count: int) -> tuple[jax.Array, ...]:
    results: tuple[jax.Array, ...] = ()
    for _ in range(count):
        results = step.advance(arguments, None)
    return results


def _advance(step: CompiledStep, arguments: list[jax.Array], following: int | None) -> jax.Array | None:
    results = step.advance(arguments, following)
    loss = step.program.step.loss
    return None if loss is None else results[loss]


def _shard_check(placement: Placement, array: jax.Array) -> ShardCheck:
    return ShardCheck(placement.tensor.path, placement.local_shape, real_shard_shape(array))
