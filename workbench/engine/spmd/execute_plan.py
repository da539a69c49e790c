"""Run a plan in this process: compile, place, warm up, time, and read back the actual shards."""

import time
from functools import partial

import jax

from workbench.analysis.analyze import analyze
from workbench.engine.hlo.compiled_collectives import collectives_of
from workbench.engine.hlo.read_compiled import read_memory_analysis
from workbench.engine.mpmd.against_sequential import check_pipeline, largest_error_of
from workbench.engine.mpmd.execute_pipeline import run_pipelined
from workbench.engine.spmd.against_unsharded import StepCheck, check_step, has_manual_axes
from workbench.engine.spmd.calibrate import calibrate
from workbench.engine.spmd.compiled_step import CompiledStep, compile_step, spmd_plan
from workbench.engine.spmd.device_mesh import real_shard_shape
from workbench.engine.spmd.find_first_wrong import find_first_wrong
from workbench.engine.spmd.profile_step import profile as profiled
from workbench.engine.worker.failure_messages import in_user_terms
from workbench.errors import EngineError
from workbench.hardware.hardware import Hardware
from workbench.plan.plan import Plan
from workbench.reports.compiled import payload_by_axis_and_kind
from workbench.reports.device_trace import Trace
from workbench.reports.measurement import Measurement, ShardCheck
from workbench.reports.placement import Placement
from workbench.reports.report import Report
from workbench.reports.run_events import Progress, RunListener, StepDone
from workbench.spmd.compile_to_schedule import module_of
from workbench.units import read_whole_number


def execute(
    plan: Plan, steps: int = 20, on_event: RunListener | None = None, check: bool = False, warmup: int = 2, profile: bool = True
) -> Measurement:
    """Run `steps` steps of the plan on the attached devices, after `warmup` steps from the same start that do not count.

    `on_event` receives every stage and step, as `Progress` and `StepDone`. `check` compares the first step with the unsharded one, where
    one device can hold that; `profile` profiles one more step. With several processes each calls this alike and gets the same losses, and
    the trace of its own devices. Raises `EngineError`: too few devices, not enough memory, a user function that fails.
    """
    steps, warmup = read_whole_number("steps", steps, EngineError), read_whole_number("warmup", warmup, EngineError, least=0)
    stage = _RunStage(on_event or (lambda _: None))
    try:
        if plan.pipeline is not None and plan.pipeline.engine == "mpmd":
            return run_pipelined(plan, steps, stage.enter, stage.tell, check=check, warmup=warmup, watch=profile)
        return _run(plan, steps, stage, check=check, warmup=warmup, watch=profile)
    except Exception as error:  # whatever a user's function or XLA raises
        raise in_user_terms(error, plan, stage.name) from error


class _RunStage:
    """The current stage of the run, reported as it changes; it is kept so that a failure can be explained by its stage."""

    def __init__(self, tell: RunListener) -> None:
        self.tell = tell
        self.name = "starting"

    def enter(self, name: str, fraction: float) -> None:
        self.name = name
        self.tell(Progress(name, fraction))


def _run(plan: Plan, steps: int, stage: _RunStage, *, check: bool, warmup: int, watch: bool) -> Measurement:
    """Run all stages. The check and the calibration, which take memory besides the step, come after the device's peak was read: it cannot
    be reset."""
    stage.enter("planning", 0.0)
    report = analyze(plan)
    given, plan = plan, plan if plan.pipeline is None else spmd_plan(plan)
    stage.enter("compiling", 0.05)
    step = compile_step(plan)
    stage.enter("placing the state", 0.4)
    arguments = step.arguments(0)
    shards = _check_arguments(report, arguments)
    stage.enter("warming up", 0.45)
    shards += _check_results(report, _warm_up(step, arguments, max(warmup, 1)))
    del arguments
    stage.enter("running", 0.5)
    arguments = step.arguments(0)
    seconds, losses = _time_steps(step, arguments, steps, stage.tell)
    device_peak = _device_peak(step.mesh)
    trace, why_untraced = _profile_step(step, arguments, stage) if watch else (None, "")
    del arguments
    found = _check_against_one_device(step, given, stage) if check else StepCheck(None)
    first_wrong = _find_first_wrong(step, given, found, stage) if found.is_wrong else ""
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
        max_error=found.error,
        explained_error=found.explained,
        not_numbers=found.not_numbers,
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
        found = check_step(step, step.arguments(0))
    else:
        count = given.pipeline.micro_batches
        found = check_pipeline(given.program, count, partial(largest_error_of, step, given.program, count))
    if found.reason:
        stage.enter(f"not checked: {found.reason}", 0.9)
    return found


def _find_first_wrong(step: CompiledStep, given: Plan, found: StepCheck, stage: _RunStage) -> str:
    """Where a wrong result begins; empty where it cannot be looked for: in a pipeline, over several processes, in a `shard_map`."""
    if given.pipeline is not None or jax.process_count() > 1 or has_manual_axes(given.program) or found.explained is None:
        return ""
    try:
        return find_first_wrong(step, step.arguments(0), found.explained, lambda text: stage.enter(text, 0.87))
    except Exception as error:  # noqa: BLE001 - what the run measured is there, and is worth more than where the error begins
        stage.enter(f"the first wrong value was not found: {str(error).splitlines()[0]:.200}", 0.88)
        return ""


def _warm_up(step: CompiledStep, arguments: list[jax.Array], count: int) -> tuple[jax.Array, ...]:
    """Run uncounted steps, all on the first batch; the results of the last."""
    results: tuple[jax.Array, ...] = ()
    for _ in range(count):
        results = step.advance(arguments, None)
    return results


def _time_steps(
    step: CompiledStep, arguments: list[jax.Array], steps: int, tell: RunListener
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Seconds and losses of each step from the start of training, whose `arguments` become those of its end.

    The clock of a step stops when every result is there; by then the next batch has been fed.
    """
    loss_at = step.program.step.loss
    seconds: list[float] = []
    losses: list[float] = []
    jax.block_until_ready(arguments)
    for i in range(steps):
        start = time.perf_counter()
        results = step.advance(arguments, i + 1 if i + 1 < steps else None)
        seconds.append(time.perf_counter() - start)
        if loss_at is not None:
            losses.append(float(results[loss_at]))
        tell(StepDone(i + 1, steps, seconds[-1], losses[-1] if losses else None))
    return tuple(seconds), tuple(losses)


def _check_arguments(report: Report, arrays: list[jax.Array]) -> tuple[ShardCheck, ...]:
    return tuple(map(_shard_check, report.arguments, arrays))


def _check_results(report: Report, arrays: tuple[jax.Array, ...]) -> tuple[ShardCheck, ...]:
    return tuple(map(_shard_check, report.results, arrays))


def _shard_check(placement: Placement, array: jax.Array) -> ShardCheck:
    return ShardCheck(placement.tensor.path, placement.local_shape, real_shard_shape(array))


def _device_peak(mesh: jax.sharding.Mesh) -> int | None:
    stats = [device.memory_stats() for device in mesh.local_devices]
    peaks = [each["peak_bytes_in_use"] for each in stats if each and "peak_bytes_in_use" in each]
    return max(peaks, default=None)
