"""Run a pipelined plan in this process and measure it, as `engine.spmd.execute_plan` does for a plan without a pipeline."""

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
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


WATCHED = 5  # number of steps whose tasks are timed if a step takes less than a second; else one


def run_pipelined(plan: Plan, steps: int, enter: Enter, tell: RunListener, *, check: bool, warmup: int, watch: bool) -> Measurement:
    """Run `steps` steps after `warmup` steps from the same start that do not count; `enter` is called with stages, `tell` with steps.

    Raises `EngineError` with several processes: in this engine one process dispatches for all devices.
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
    seconds, losses = _time_steps(step, values, steps, tell)
    device_peak = _device_peak(step)
    enter("measuring tasks", 0.8)
    tasks = measure_tasks(step, values, WATCHED if min(seconds, default=0.0) < 1 else 1) if watch else ()
    overhead = _overhead(step, values)
    del values
    found = StepCheck(None)
    if check:
        enter("checking against one device", 0.85)
        found = check_pipeline(plan.program, step.compilation.micro_batches, partial(largest_error, step))
        if found.reason:
            enter(f"not checked: {found.reason}", 0.9)
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
        max_error=found.error,
        explained_error=found.explained,
        not_numbers=found.not_numbers,
        tasks=tasks,
        task_overhead=overhead,
    )


def _predict_seconds(step: MpmdStep, hardware: Hardware) -> float:
    """The predicted step of this stage partition on the devices as calibrated."""
    costs = partition_costs(staged_program(step.plan.updated(hardware=hardware, axis_assignment=None)), step.stages.partition.starts)
    return simulate(step.stages.spec, costs).seconds


def _all_devices(step: MpmdStep) -> tuple[jax.Device, ...]:
    """The devices of all stages, each once."""
    stages = range(step.stages.count)
    return tuple(dict.fromkeys(device for stage in stages for device in step.stages.devices(stage).mesh.devices.flat))


def plan_stages(step: MpmdStep) -> int:
    return step.stages.spec.stages


def _time_steps(step: MpmdStep, values: list[Any], steps: int, tell: RunListener) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Seconds and losses of each step from the start of training."""
    seconds: list[float] = []
    losses: list[float] = []
    jax.block_until_ready([value for value in values if value is not None])
    for i in range(steps):
        start = time.perf_counter()
        loss = step.advance(values, i + 1 if i + 1 < steps else 0)
        seconds.append(time.perf_counter() - start)
        losses.append(float(loss))
        tell(StepDone(i + 1, steps, seconds[-1], losses[-1]))
    return tuple(seconds), tuple(losses)


def _overhead(step: MpmdStep, values: list[Any], turns: int = 5) -> float:
    """Seconds of dispatch for each task, transfers included: what the loop takes before anything is waited for."""
    count = sum(each.label is not None for each in step.instructions)
    found = []
    for _ in range(turns):
        jax.block_until_ready([value for value in values if value is not None])
        start = time.perf_counter()
        run_instructions(step.instructions, values)
        found.append((time.perf_counter() - start) / count)
        step.feed(values, 0)
    return median(found)


def _shard_checks(step: MpmdStep, values: list[Any]) -> tuple[ShardCheck, ...]:
    """Parameters: the shard shape by the layout, and the one that a device holds."""
    found = []
    for number in range(len(step.stages.partition.network.flat.param_slices)):
        stage = step.stages.owners[number]
        array = values[step.buffer_slots.number(("piece", stage, number))]
        leaf, layer = step.stages.partition.network.flat.param_slices[number][0]
        path = step.stages.partition.network.parameter_paths[leaf]
        tensor, sharding = next(
            (tensor, each)
            for tensor, each in zip(step.plan.program.arguments, step.plan.argument_shardings, strict=True)
            if tensor.path == path
        )
        local = sharding.local_shape(tensor.shape, step.plan.mesh)
        planned = local if layer is None else (1, *local[1:])
        found.append(ShardCheck(step.stages.partition.path(number), tuple(planned), real_shard_shape(array)))
    return tuple(found)


def _payload(step: MpmdStep) -> Mapping[tuple[tuple[str, ...], str], int]:
    """Payload in bytes per device and step of the collectives within stages, on the device with the most."""
    totals: list[Counter[Any]] = [Counter() for _ in range(plan_stages(step))]
    known: dict[int, Mapping[tuple[tuple[str, ...], str], int]] = {}
    for each in step.instructions:
        if each.label is None or (id(each.call) in known and not known[id(each.call)]):
            continue
        place = step.position_of(each.label)
        mesh = step.stages.devices(each.label[1]).mesh
        if id(each.call) not in known:
            own = Mesh(dict(zip(mesh.axis_names, mesh.devices.shape, strict=True)))
            found = collectives_of(module_of(each.call), own) if own.size > 1 else ()
            known[id(each.call)] = payload_by_axis_and_kind(found)
        totals[place].update(known[id(each.call)])
    heaviest: Mapping[tuple[tuple[str, ...], str], int] = max(totals, key=lambda each: sum(each.values()))
    return dict(heaviest)


def _device_peak(step: MpmdStep) -> int | None:
    stats = [device.memory_stats() for device in _all_devices(step)]
    return max((each["peak_bytes_in_use"] for each in stats if each and "peak_bytes_in_use" in each), default=None)


# Measure when each task of a pipelined step began and ended, from the host: the step runs as usual, and a thread per device waits for one
# task after the other. Where devices and these threads share cores, a thread may wake milliseconds late, so the median of several steps
# counts.
#
# A task ends when its token is ready. It began when its device had ended the task before, and everything it reads was ready: that is what
# the device itself would report, except for the time a transfer takes and the few microseconds in which a thread wakes.


@dataclass(slots=True)
class _Watcher:
    """Waits for the tasks of one device in their order."""

    tasks: "queue.SimpleQueue[tuple[Any, Any] | None]" = field(default_factory=queue.SimpleQueue)
    ends: dict[Any, float] = field(default_factory=dict)

    def follow(self) -> None:
        while (each := self.tasks.get()) is not None:
            label, token = each
            jax.block_until_ready(token)
            self.ends[label] = time.perf_counter()


def measure_tasks(step: MpmdStep, values: list[Any], steps: int = 1) -> tuple[TaskTime, ...]:
    """Run `steps` more steps, watched; the tasks by start, each ending at the median of its ends. The batch of step 0 is fed in between."""
    found = []
    for _ in range(steps):
        found.append(_measure_ends(step, values))
        step.feed(values, 0)
    ends = {label: median(each[label] for each in found) for label in found[0]}
    return tuple(_task_times(step, ends))


def _measure_ends(step: MpmdStep, values: list[Any]) -> dict[Any, float]:
    """Seconds from the start of one step at which each task had ended."""
    watchers = [_Watcher() for _ in range(step.stages.spec.stages)]
    threads = [threading.Thread(target=watcher.follow, daemon=True) for watcher in watchers]
    for thread in threads:
        thread.start()
    jax.block_until_ready([value for value in values if value is not None])
    begin = time.perf_counter()
    run_watched(step, values, lambda label, token: watchers[step.position_of(label)].tasks.put((label, token)))
    for watcher, thread in zip(watchers, threads, strict=True):
        watcher.tasks.put(None)
        thread.join()
    return {label: end - begin for watcher in watchers for label, end in watcher.ends.items()}


def _task_times(step: MpmdStep, ends: dict[Any, float]) -> list[TaskTime]:
    ready: dict[int, float] = {}  # by slot: when its content was produced
    free = [0.0] * step.stages.spec.stages
    found = []
    for each in step.instructions:
        ready_at = max((ready.get(i, 0.0) for i in each.reads), default=0.0)
        if each.label is None:
            ready.update(dict.fromkeys(each.writes, ready_at))
            continue
        device, end = step.position_of(each.label), ends[each.label]
        start = min(max(free[device], ready_at), end)
        ready.update(dict.fromkeys(each.writes, end))
        free[device] = end
        found.append(_task_time(each.label, device, start, end - start))
    return sorted(found, key=lambda task: (task.start, task.device))


def _task_time(label: Any, device: int, start: float, seconds: float) -> TaskTime:
    if isinstance(label, Task):
        return TaskTime(device, label.kind.value, label.stage, label.micro_batch, start, seconds)
    return TaskTime(device, "update", label[1], 0, start, seconds)
