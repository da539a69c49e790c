"""What a live run measured. The engine fills it in; it stands beside `Report`, where all who show it can import it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median, quantiles
from typing import NamedTuple

from workbench.hardware.hardware import Hardware
from workbench.reports.device_trace import Trace


class ShardCheck(NamedTuple):
    """One array of a run: its planned shard shape, and the shape of a shard that a device held."""

    path: str
    predicted: tuple[int, ...]
    actual: tuple[int, ...]

    @property
    def agrees(self) -> bool:
        return self.predicted == self.actual


class TaskTime(NamedTuple):
    """One measured task of a pipelined step: the device (or group of devices) along the pipeline, `kind` as in a schedule's tasks or
    `update`, seconds from the start of the step."""

    device: int
    kind: str
    stage: int
    micro_batch: int
    start: float
    seconds: float

    @property
    def end(self) -> float:
        return self.start + self.seconds


def bubble_share(tasks: Iterable[TaskTime]) -> float:
    """The share of the devices' time without a task, from the first task to the end of the last; updates are not counted."""
    work = [task for task in tasks if task.kind != "update"]
    if not work:
        return 0.0
    span = max(task.end for task in work) - min(task.start for task in work)
    devices = len({task.device for task in work})
    return 1.0 - sum(task.seconds for task in work) / (span * devices) if span else 0.0


@dataclass(frozen=True)
class Measurement:
    """A run of a plan.

    - `step_seconds`: wall time of each step after warm-up; `losses` one a step (empty without a loss);
    - `predicted_seconds`: step time on `hardware`, the devices as calibrated just after the run;
    - `compiled`: the compiled program's payload bytes per device and step by (mesh axes, kind);
    - `compiled_peak`: XLA's own bytes per device (arguments + outputs + temporaries - aliases);
    - `device_peak`: peak bytes in use as the device reports it, `None` where it does not (CPU);
    - `max_error`: largest difference from the unsharded step, relative to the largest magnitude, if it was checked;
    - `trace`: one more step, profiled, on the devices of this process; `why_untraced` if that was tried and failed;
    - `tasks`: of a pipelined plan, one more step task by task; `task_overhead`: seconds the engine itself spends on a task, dispatching it.
    """

    device_kind: str
    devices: int
    processes: int
    compile_seconds: float
    step_seconds: tuple[float, ...]
    losses: tuple[float, ...]
    shards: tuple[ShardCheck, ...]
    compiled: Mapping[tuple[tuple[str, ...], str], int]
    compiled_peak: int
    device_peak: int | None = None
    predicted_seconds: float | None = None
    hardware: Hardware | None = None
    max_error: float | None = None
    trace: Trace | None = None
    why_untraced: str = ""
    tasks: tuple[TaskTime, ...] = ()
    task_overhead: float | None = None

    @property
    def median_seconds(self) -> float:
        return median(self.step_seconds)

    @property
    def spread_seconds(self) -> tuple[float, float]:
        """The first and last decile of the step time, in seconds."""
        if len(self.step_seconds) < 2:
            return self.step_seconds[0], self.step_seconds[0]
        cuts = quantiles(self.step_seconds, n=10, method="inclusive")
        return cuts[0], cuts[-1]

    @property
    def bubble(self) -> float:
        """The pipeline bubble: `bubble_share` of the tasks."""
        return bubble_share(self.tasks)

    @property
    def shards_agree(self) -> bool:
        return all(check.agrees for check in self.shards)

    def __str__(self) -> str:
        from workbench.reports.report_text import measurement_text

        return measurement_text(self)

    def _repr_html_(self) -> str:
        from workbench.core.text_tables import html_text

        return html_text(lambda: str(self))
