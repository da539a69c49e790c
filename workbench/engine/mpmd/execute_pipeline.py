"""Run and measure a pipelined plan in this process, like `engine.spmd.execute_plan` for plans without a pipeline."""

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Any

import jax

from workbench.core.mesh import Mesh
from workbench.core.schedules.schedule import Task
from workbench.engine.hlo.compiled_collectives import collectives_of
from workbench.engine.mpmd.against_sequential import check_pipeline, largest_error
from workbench.engine.mpmd.aot_compile import compiled_peaks
from workbench.engine.mpmd.lower_schedule import run_instructions
from workbench.engine.mpmd.mpmd_step import MpmdStep, compile_mpmd, run_watched
from workbench.engine.spmd.against_unsharded import StepCheck
from workbench.engine.spmd.calibrate import calibrate
from workbench.engine.spmd.device_mesh import real_shard_shape
from workbench.errors import EngineError
from workbench.hardware.hardware import Hardware
from workbench.pipeline.estimate_stage_costs import partition_costs
from workbench.pipeline.simulate_pipeline import simulate
from workbench.pipeline.staged_program import staged_program
from workbench.plan.plan import Plan
from workbench.reports.compiled import payload_by_axis_and_kind
from workbench.reports.measurement import Measurement, ShardCheck, TaskTime
from workbench.reports.run_events import RunListener, StepDone
from workbench.spmd.compile_to_schedule import module_of

Enter = Callable[[str, float], None]


WATCHED = 5  # number of steps with timed tasks if a step takes less than 1 s; else one


def run_pipelined(plan: Plan, steps: int, enter: Enter, tell: RunListener, *, check: bool, warmup: int, watch: bool) -> Measurement:
    """Run and measure `steps` steps after `warmup` steps from the same start.

    `enter` is called with stages, `tell` with steps. Raises `EngineError` with several processes, since one dispatches
    for all devices.
    """
    if jax.process_count() > 1:
        raise EngineError("The `mpmd` engine runs in one process; there are several.", ["set engine:spmd in the pipeline"])
    step = compile_mpmd(plan, lambda name, fraction: enter(name, 0.05 + 0.35 * fraction))
    enter("placing the state", 0.4)
    values = step.begin()
    step.feed(values, 0)
    shards = _shard_checks(step, values)
    enter("warming up", 0.45)
    for _ in range(max(warmup, 1)):
        step.advance(values, 0)
    enter("running", 0.5)
    values = step.begin()
    step.feed(values, 0)
    jax.block_until_ready(values)
    seconds, losses = time_steps(partial(_advance, step, values), steps, tell)
    device_peak = largest_peak(_all_devices(step))
    enter("measuring tasks", 0.8)
    tasks = measure_tasks(step, values, WATCHED if min(seconds, default=0.0) < 1 else 1) if watch else ()
    overhead = _overhead(step, values)
    del values
    step_check = StepCheck(None)
    if check:
        enter("checking against one device", 0.85)
        step_check = check_pipeline(plan.program, step.compilation.micro_batches, partial(largest_error, step))
        if step_check.reason:
            enter(f"not checked: {step_check.reason}", 0.9)
    enter("calibrating", 0.9)
    hardware = calibrate(_all_devices(step))
    return Measurement(
        device_kind=jax.devices()[0].device_kind,
        devices=plan.mesh.size,
        processes=1,
        compile_seconds=step.compile_seconds,
        step_seconds=seconds,
        losses=losses,
        shards=shards,
        compiled=_payload(step),
        compiled_peak=max(compiled_peaks(step)),
        device_peak=device_peak,
        predicted_seconds=_predict_seconds(step, hardware),
        hardware=hardware,
        max_error=step_check.error,
        explained_error=step_check.explained,
        not_numbers=step_check.not_numbers,
        tasks=tasks,
        task_overhead=overhead,
    )


def _predict_seconds(step: MpmdStep, hardware: Hardware) -> float:
    costs = partition_costs(staged_program(step.plan.updated(hardware=hardware, axis_assignment=None)), step.stages.partition.starts)
    return simulate(step.stages.spec, costs).seconds


def _all_devices(step: MpmdStep) -> tuple[jax.Device, ...]:
    stages = range(step.stages.count)
    return tuple(dict.fromkeys(device for stage in stages for device in step.stages.devices(stage).mesh.devices.flat))


def plan_stages(step: MpmdStep) -> int:
    return step.stages.spec.stages


def _advance(step: MpmdStep, values: list[Any], following: int | None) -> jax.Array:
    return step.advance(values, following or 0)


def time_steps(advance: Callable[[int | None], Any], steps: int, tell: RunListener) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return seconds and losses per step; a step ends when its results are ready and the next batch is fed.

    `advance` takes the number of the next batch, if any, and returns the loss, if there is one.
    """
    seconds: list[float] = []
    losses: list[float] = []
    for i in range(steps):
        start = time.perf_counter()
        loss = advance(i + 1 if i + 1 < steps else None)
        seconds.append(time.perf_counter() - start)
        if loss is not None:
            losses.append(float(loss))
        tell(StepDone(i + 1, steps, seconds[-1], losses[-1] if losses else None))
    return tuple(seconds), tuple(losses)


def _overhead(step: MpmdStep, values: list[Any], turns: int = 5) -> float:
    """Dispatch seconds per task including transfers: the time of the loop without waiting."""
    count = sum(instruction.label is not None for instruction in step.instructions)
    samples = []
    for _ in range(turns):
        jax.block_until_ready(values)
        start = time.perf_counter()
        run_instructions(step.instructions, values)
        samples.append((time.perf_counter() - start) / count)
        step.feed(values, 0)
    return median(samples)


def _shard_checks(step: MpmdStep, values: list[Any]) -> tuple[ShardCheck, ...]:
    checks = []
    for number in range(len(step.stages.partition.network.flat.param_slices)):
        stage = step.stages.owners[number]
        array = values[step.buffer_slots.number(("piece", stage, number))]
        leaf, layer = step.stages.partition.network.flat.param_slices[number][0]
        path = step.stages.partition.network.parameter_paths[leaf]
        tensor, sharding = next(
            (tensor, candidate)
            for tensor, candidate in zip(step.plan.program.arguments, step.plan.argument_shardings, strict=True)
            if tensor.path == path
        )
        local = sharding.local_shape(tensor.shape, step.plan.mesh)
        planned = local if layer is None else (1, *local[1:])
        checks.append(ShardCheck(step.stages.partition.path(number), tuple(planned), real_shard_shape(array)))
    return tuple(checks)


def _payload(step: MpmdStep) -> Mapping[tuple[tuple[str, ...], str], int]:
    """Collective payload in bytes per step within stages, on the device with the most."""
    totals: list[Counter[Any]] = [Counter() for _ in range(plan_stages(step))]
    payloads: dict[int, Mapping[tuple[tuple[str, ...], str], int]] = {}
    for instruction in step.instructions:
        if instruction.label is None or (id(instruction.call) in payloads and not payloads[id(instruction.call)]):
            continue
        place = step.position_of(instruction.label)
        mesh = step.stages.devices(instruction.label[1]).mesh
        if id(instruction.call) not in payloads:
            stage_mesh = Mesh(dict(zip(mesh.axis_names, mesh.devices.shape, strict=True)))
            collectives = collectives_of(module_of(instruction.call), stage_mesh) if stage_mesh.size > 1 else ()
            payloads[id(instruction.call)] = payload_by_axis_and_kind(collectives)
        totals[place].update(payloads[id(instruction.call)])
    heaviest: Mapping[tuple[tuple[str, ...], str], int] = max(totals, key=lambda total: sum(total.values()))
    return dict(heaviest)


def largest_peak(devices: Iterable[jax.Device]) -> int | None:
    """Return the largest peak of these devices' memory in bytes, if they report it."""
    stats = [device.memory_stats() for device in devices]
    peaks = [device_stats["peak_bytes_in_use"] for device_stats in stats if device_stats and "peak_bytes_in_use" in device_stats]
    return max(peaks, default=None)


# Measure start and end of each task of a pipelined step on the host: the step runs as usual, and a thread per device waits for one
# task after the other. If devices and these threads share cores, a thread may wake milliseconds late, so the median of several steps
# is used.
#
# A task ends when its token is ready. It starts once its device has ended the previous task and all its inputs are ready. This is what
# the device would report, except for transfer times and the few microseconds in which a thread wakes.


@dataclass(slots=True)
class _Watcher:
    """Waits for the tasks of one device in order."""

    tasks: "queue.SimpleQueue[tuple[Any, Any] | None]" = field(default_factory=queue.SimpleQueue)
    ends: dict[Any, float] = field(default_factory=dict)

    def follow(self) -> None:
        while (task := self.tasks.get()) is not None:
            label, token = task
            jax.block_until_ready(token)
            self.ends[label] = time.perf_counter()


def measure_tasks(step: MpmdStep, values: list[Any], steps: int = 1) -> tuple[TaskTime, ...]:
    """Run `steps` watched steps on the batch of step 0; return the tasks by start, each with its median end."""
    samples = []
    for _ in range(steps):
        samples.append(_measure_ends(step, values))
        step.feed(values, 0)
    ends = {label: median(sample[label] for sample in samples) for label in samples[0]}
    return tuple(_task_times(step, ends))


def _measure_ends(step: MpmdStep, values: list[Any]) -> dict[Any, float]:
    watchers = [_Watcher() for _ in range(step.stages.spec.stages)]
    threads = [threading.Thread(target=watcher.follow, daemon=True) for watcher in watchers]
    for thread in threads:
        thread.start()
    jax.block_until_ready(values)
    begin = time.perf_counter()
    run_watched(step, values, lambda label, token: watchers[step.position_of(label)].tasks.put((label, token)))
    for watcher, thread in zip(watchers, threads, strict=True):
        watcher.tasks.put(None)
        thread.join()
    return {label: end - begin for watcher in watchers for label, end in watcher.ends.items()}


def _task_times(step: MpmdStep, ends: dict[Any, float]) -> list[TaskTime]:
    ready: dict[int, float] = {}  # by slot: when its contents were produced
    free = [0.0] * step.stages.spec.stages
    times = []
    for instruction in step.instructions:
        ready_at = max((ready.get(i, 0.0) for i in instruction.reads), default=0.0)
        if instruction.label is None:
            ready.update(dict.fromkeys(instruction.writes, ready_at))
            continue
        device, end = step.position_of(instruction.label), ends[instruction.label]
        start = min(max(free[device], ready_at), end)
        ready.update(dict.fromkeys(instruction.writes, end))
        free[device] = end
        times.append(_task_time(instruction.label, device, start, end - start))
    return sorted(times, key=lambda task: (task.start, task.device))


def _task_time(label: Any, device: int, start: float, seconds: float) -> TaskTime:
    if isinstance(label, Task):
        return TaskTime(device, label.kind.value, label.stage, label.micro_batch, start, seconds)
    return TaskTime(device, "update", label[1], 0, start, seconds)
