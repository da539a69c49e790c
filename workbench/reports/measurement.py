"""The measurements of a live run. The engine fills them in."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite, isnan
from statistics import mean, median, quantiles
from typing import TYPE_CHECKING, NamedTuple

from workbench.core.fact_page import PageCell, Row, Table, rows_text
from workbench.core.text_tables import Printed, alert_text, axes_text, group_items, pairs_text, shape_text, table_text, tail_text, wrap_text
from workbench.hardware.hardware import Hardware
from workbench.reports.device_trace import Trace, TracedOperation
from workbench.units import format_bytes, format_seconds

if TYPE_CHECKING:  # a process that reads run events must not load the planner
    from workbench.reports.report import Report


class ShardCheck(NamedTuple):
    """The planned and the actual shard shape of one array of a run."""

    path: str
    predicted: tuple[int, ...]
    actual: tuple[int, ...]

    @property
    def agrees(self) -> bool:
        return self.predicted == self.actual


class TaskTime(NamedTuple):
    """One task of a pipelined step on a `device` (group); `kind` as in schedules, or `update`; times from its start."""

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
    """Return the idle share of the devices' time between the first and last task; updates are not counted."""
    work = [task for task in tasks if task.kind != "update"]
    if not work:
        return 0.0
    span = max(task.end for task in work) - min(task.start for task in work)
    devices = len({task.device for task in work})
    return 1.0 - sum(task.seconds for task in work) / (span * devices) if span else 0.0


@dataclass(frozen=True)
class Measurement(Printed):
    """The measurements of a run of a plan.

    - `step_seconds`: wall time of each step after warm-up; `losses`: one per step (empty without a loss);
    - `predicted_seconds`: step time on `hardware`, the devices as calibrated just after the run;
    - `compiled`: the compiled program's payload bytes per device and step by (mesh axes, kind);
    - `compiled_peak`: XLA's bytes per device (arguments + outputs + temporaries - aliases);
    - `device_peak`: peak bytes in use reported by the device, `None` if unsupported (CPU);
    - `max_error`: largest difference from the unsharded step, relative to the largest magnitude, if checked;
    - `explained_error`: the largest difference that rounding explains; more is wrong (`is_wrong`), and `first_wrong` is
      the path and line of the first wrong value, if located;
    - `not_numbers`: NaN elements in both the results and the unsharded step, counted as equal;
    - `trace`: one more step, profiled, on the devices of this process; `why_untraced`: the reason if profiling failed;
    - `tasks`: for a pipelined plan, one more step task by task; `task_overhead`: seconds the engine needs to dispatch a
      task.
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
    explained_error: float | None = None
    first_wrong: str = ""
    not_numbers: int = 0
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
        deciles = quantiles(self.step_seconds, n=10, method="inclusive")
        return deciles[0], deciles[-1]

    @property
    def bubble(self) -> float:
        return bubble_share(self.tasks)

    @property
    def is_judged(self) -> bool:
        """Return whether the results were compared with the unsharded step and the rounding error is known."""
        has_error = self.max_error is not None and not isnan(self.max_error)
        return has_error and self.explained_error is not None

    @property
    def is_wrong(self) -> bool:
        """Return whether the results differ from the unsharded step by more than rounding explains."""
        return self.is_judged and self.max_error > self.explained_error  # type: ignore[operator]  # `is_judged` excludes `None`

    @property
    def wrong_text(self) -> str:
        """A description of the error and its origin; empty if the results are right."""
        if not self.is_wrong:
            return ""
        if self.max_error == inf:
            error = "NaN or infinity is in only one of the two results"
        else:
            error = f"the largest relative error is {self.max_error:.1e}, and rounding explains up to {self.explained_error:.1e}"
        begins = f" The first wrong value is {self.first_wrong}." if self.first_wrong else ""
        return f"WRONG RESULT: this plan and the unsharded step differ: {error}.{begins}"

    @property
    def shards_agree(self) -> bool:
        return all(check.agrees for check in self.shards)

    def __str__(self) -> str:
        return measurement_text(self)


_MOST_ROWS = 12  # per table
_LEAST_FOR_TENTHS = 10  # minimum steps for a tenth of them to be at least one
_SHARED_CORES_NOTE = (
    "These devices share the cores of one machine: while one computes, another waits, and its wait inside a collective counts "
    "as communication."
)


def measurement_text(measurement: Measurement, report: "Report | None" = None) -> str:
    steps = len(measurement.step_seconds)
    head = (
        f"{steps} step{'s' * (steps != 1)} on {measurement.devices} × {measurement.device_kind}"
        + f", {measurement.processes} processes" * (measurement.processes > 1)
        + f", compiled in {format_seconds(measurement.compile_seconds)}"
    )
    sections = [
        wrap_text(head),
        alert_text(measurement.wrong_text),
        pairs_text(_figures(measurement, report)),
        _compiled_text(measurement, report),
        rows_text(wrong_shards_table(measurement), _MOST_ROWS),
        trace_text(measurement.trace, report) if measurement.trace else "",
        wrap_text(_SHARED_CORES_NOTE) if measurement.trace and measurement.device_kind == "cpu" else "",
        wrap_text(f"Not profiled: {measurement.why_untraced}.") if measurement.why_untraced else "",
    ]
    return "\n\n".join(section for section in sections if section)


def trace_text(trace: Trace, report: "Report | None" = None) -> str:
    sections = [
        f"One profiled step\n\n{pairs_text(_trace_figures(trace))}",
        _traced_collectives(trace, report),
        _heaviest_text("Collectives", trace.collectives),
        _heaviest_text("Kernels", trace.kernels),
    ]
    return "\n\n".join(section for section in sections if section)


def _figures(measurement: Measurement, report: "Report | None") -> Iterable[tuple[str, str, str]]:
    predicted = measurement.predicted_seconds
    ratio = "" if not predicted else f"{measurement.median_seconds / predicted:.2f} × that"
    beside = "" if not predicted else f"predicted here {format_seconds(predicted)}, {ratio}"
    yield "step time, median", format_seconds(measurement.median_seconds), " · ".join(filter(None, [_spread_text(measurement), beside]))
    if measurement.losses:
        yield "loss", f"{measurement.losses[-1]:.4f}", f"from {measurement.losses[0]:.4f} in the first step"
    planned = "" if report is None else f"planned {format_bytes(report.peak)}"
    yield "memory per device", format_bytes(measurement.compiled_peak), " · ".join(filter(None, ["as compiled", planned]))
    if measurement.device_peak is not None:
        beside = "" if report is None else f" · planned {format_bytes(report.peak)}"
        ratio = "" if report is None or not report.peak else f", {measurement.device_peak / report.peak:.2f} × that"
        yield "peak in use", format_bytes(measurement.device_peak), "as the device reports it" + beside + ratio
    agreeing = sum(check.agrees for check in measurement.shards)
    yield "shards as planned", f"{agreeing} of {len(measurement.shards)}", "arguments and results, from the shards of the devices"
    if measurement.tasks:
        yield "pipeline idle", f"{100 * measurement.bubble:.0f} %", f"of the devices' time, over {len(measurement.tasks)} tasks of one step"
    if measurement.task_overhead is not None:
        yield "engine's own cost", format_seconds(measurement.task_overhead), "to dispatch one task"
    if measurement.max_error is not None:
        yield ("largest error", *_error_text(measurement, is_pipelined=bool(measurement.tasks or (report and report.plan.pipeline))))


def _spread_text(measurement: Measurement) -> str:
    """Format the range of step times without the fastest and slowest tenth; of fewer than ten steps, the whole range."""
    seconds = measurement.step_seconds
    if len(seconds) == 1:
        return "one step"
    few = len(seconds) < _LEAST_FOR_TENTHS
    first, last = (min(seconds), max(seconds)) if few else measurement.spread_seconds
    return f"{'' if few else '8 of 10 steps '}between {format_seconds(first)} and {format_seconds(last)}"


def _error_text(measurement: Measurement, *, is_pipelined: bool) -> tuple[str, str]:
    """Format the error; a pipeline's reference uses the same micro-batches and random keys."""
    error, explained = measurement.max_error, measurement.explained_error
    against = "the same micro-batches run sequentially on one device, unsharded" if is_pipelined else "the unsharded step"
    if error is None or not isfinite(error):
        return "no number", f"the results are not all numbers, here or in {against}"
    beside = "" if explained is None or isnan(explained) else f"; rounding explains up to {explained:.1e}"
    equal = f"; {not_numbers_text(measurement)}" if measurement.not_numbers else ""
    return f"{error:.1e}" + ", wrong" * measurement.is_wrong, f"against {against}, relative to the largest magnitude{beside}{equal}"


def not_numbers_text(measurement: Measurement) -> str:
    count = measurement.not_numbers
    element, counts = ("element is", "counts") if count == 1 else ("elements are", "count")
    return f"{count:,} {element} not a number in both, and {counts} as equal"


def _compiled_text(measurement: Measurement, report: "Report | None") -> str:
    planned = _planned_payload(report) if report is not None else {}
    keys = sorted({*measurement.compiled, *planned})
    if not keys:
        return ""
    columns = ["mesh axis", "collective", "compiled payload per device>", *(["planned>"] if report is not None else [])]
    rows = []
    for key in keys:
        figures = [measurement.compiled.get(key, 0), *([planned.get(key, 0)] if report is not None else [])]
        rows.append((axes_text(key[0]), key[1], *map(format_bytes, figures)))
    return table_text(columns, rows)


def _planned_payload(report: "Report") -> Mapping[tuple[tuple[str, ...], str], int]:
    """Return the payload as run; for a pipeline with a program per stage, of the stage that sends most, as measured."""
    spec, planned = report.plan.pipeline, report.pipeline
    if report.is_of_devices or spec is None or planned is None:
        return report.by_axis_and_kind
    return max((dict(planned.payload(device)) for device in range(spec.stages)), key=lambda each: sum(each.values()))


def wrong_shards_table(measurement: Measurement) -> Table:
    rows = []
    for check in filter(lambda check: not check.agrees, measurement.shards):
        path = PageCell(check.path, "path", brief=tail_text(check.path))
        rows.append(Row([path, PageCell(shape_text(check.predicted)), PageCell(shape_text(check.actual), tone="bad")], check.path))
    return Table(["path", "planned>", "held>"], rows, "Shards that differ from the plan")


def _trace_figures(trace: Trace) -> Iterator[tuple[str, str, str]]:
    devices = f"{len(trace.devices)} device" + "s" * (len(trace.devices) != 1)
    yield "whole step", format_seconds(trace.seconds), f"from the first start to the last end on {devices}"
    times = {
        "in kernels": [device.compute for device in trace.devices],
        "in communication": [device.communication for device in trace.devices],
        "of it exposed": [device.exposed for device in trace.devices],
    }
    for name, seconds in times.items():
        spread = f"{format_seconds(min(seconds))} to {format_seconds(max(seconds))}"
        yield name, format_seconds(mean(seconds)), f"by device {spread}" if len(seconds) > 1 else ""


def _traced_collectives(trace: Trace, report: "Report | None") -> str:
    measured = {(group[0].stream, group[0].kind): group for group in group_items(trace.collectives, lambda each: (each.stream, each.kind))}
    predicted = _predicted_seconds(report)
    rows = []
    for key in sorted({*measured, *predicted}):
        group = measured.get(key, [])
        found = (sum(each.usual_seconds for each in group), sum(each.unwaited * each.count for each in group)) if group else (None, None)
        seconds = (*found, predicted.get(key))
        cells = ["-" if each is None else format_seconds(each) for each in (seconds if report is not None else seconds[:2])]
        rows.append((key[0], key[1], f"{sum(each.count for each in group):,}", *cells))
    columns = ["mesh axis", "collective", "times a step>", "measured>", "without waiting>", *(["predicted>"] if report is not None else [])]
    return table_text(columns, rows) if rows else ""


def _predicted_seconds(report: "Report | None") -> dict[tuple[str, str], float]:
    sums: dict[tuple[str, str], float] = {}
    for collective in report.collectives if report is not None and report.step_time is not None else ():
        key = axes_text(collective.axes), collective.kind
        sums[key] = sums.get(key, 0.0) + collective.seconds * collective.count
    return sums


def _heaviest_text(title: str, operations: Sequence[TracedOperation]) -> str:
    rows = [
        (
            operation.name,
            operation.kind if operation.kind not in operation.name else "",
            f"{operation.count:,} × {format_seconds(operation.seconds)}",
            format_seconds(operation.usual_seconds),
            tail_text(operation.path),
            tail_text(operation.source, 24),
        )
        for operation in operations[:_MOST_ROWS]
    ]
    if not rows:
        return ""
    rest = operations[_MOST_ROWS:]
    more = (
        f"\n  and {len(rest)} smaller ones, {format_seconds(sum(operation.usual_seconds for operation in rest))} together" if rest else ""
    )
    return (
        f"{title}, the heaviest\n\n" + table_text(["instruction", "kind", "times × median>", "a step>", "operation", "source"], rows) + more
    )
