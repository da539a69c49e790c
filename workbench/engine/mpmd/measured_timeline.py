"""Measure when each task of a pipelined step began and ended, from the host: the step runs as usual, and a thread per device waits for one
task after the other. Where devices and these threads share cores, a thread may wake milliseconds late, so the median of several steps
counts.

A task ends when its token is ready. It began when its device had ended the task before, and everything it reads was ready: that is what the
device itself would report, except for the time a transfer takes and the few microseconds in which a thread wakes.
"""

import queue
import threading
import time
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import jax

from workbench.core.schedules.tasks import Task
from workbench.engine.mpmd.mpmd_step import MpmdStep, run_watched
from workbench.reports.measurement import TaskTime


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
