"""When each task of a pipelined step began and ended, seen from outside: the step runs as ever, and a thread for each device waits for one
task after the other.

A task ends when its token is there. It began when its device had ended the task before, and all that it reads had been made: that much
the device itself would say, but for the time a transfer takes and the few microseconds in which a thread wakes.
"""

import queue
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jax

from workbench.engine.mpmd import MpmdStep, watched
from workbench.engine.registers import Instruction
from workbench.measurement import TaskTime
from workbench.pipeline.tasks import Task


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


def measure_tasks(step: MpmdStep, values: list[Any]) -> tuple[TaskTime, ...]:
    """Run one more step, watched; its tasks by start."""
    devices = step.stages.spec.stages
    watchers = [_Watcher() for _ in range(devices)]
    threads = [threading.Thread(target=watcher.follow, daemon=True) for watcher in watchers]
    for thread in threads:
        thread.start()
    dispatched: dict[Any, float] = {}
    jax.block_until_ready([value for value in values if value is not None])
    begin = time.perf_counter()

    def watch(label: Any, token: Any) -> None:
        dispatched[label] = time.perf_counter()
        watchers[_device(label, devices)].tasks.put((label, token))

    watched(step, values, watch)
    for watcher, thread in zip(watchers, threads, strict=True):
        watcher.tasks.put(None)
        thread.join()
    ends = {label: end for watcher in watchers for label, end in watcher.ends.items()}
    return tuple(_times(step.instructions, ends, devices, begin))


def _device(label: Any, devices: int) -> int:
    stage: int = label.stage if isinstance(label, Task) else label[1]
    return stage % devices


def _times(instructions: Sequence[Instruction], ends: dict[Any, float], devices: int, begin: float) -> list[TaskTime]:
    ready: dict[int, float] = {}  # a register: when what is in it was made
    free = [begin] * devices
    found = []
    for each in instructions:
        came = max((ready.get(i, begin) for i in each.reads), default=begin)
        if each.label is None:
            ready.update(dict.fromkeys(each.writes, came))
            continue
        device, end = _device(each.label, devices), ends[each.label]
        start = min(max(free[device], came), end)
        ready.update(dict.fromkeys(each.writes, end))
        free[device] = end
        found.append(_task_time(each.label, device, start - begin, end - start))
    return sorted(found, key=lambda task: (task.start, task.device))


def _task_time(label: Any, device: int, start: float, seconds: float) -> TaskTime:
    if isinstance(label, Task):
        return TaskTime(device, label.kind.value, label.stage, label.micro_batch, start, seconds)
    return TaskTime(device, "update", label[1], 0, start, seconds)
