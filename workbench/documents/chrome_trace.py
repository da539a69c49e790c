"""A step in the Chrome trace event format, for Perfetto (ui.perfetto.dev), chrome://tracing and TensorBoard.

Predicted, compiled and measured steps are separate processes. Without a pipeline a process is a device, with a thread
for computation and one for each set of mesh axes; with a pipeline it is a stage, with its tasks on top. Format: "Trace
Event Format", Google, 2016: complete events `X` with `ts` and `dur` in microseconds, metadata events `M`, async events
`b` and `e`, counters `C`.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from workbench.errors import WorkbenchError
from workbench.reports.compiled import Compiled
from workbench.reports.device_trace import Trace
from workbench.reports.kernel import COMPUTE, Event
from workbench.reports.measurement import Measurement, TaskTime
from workbench.reports.pipeline import PipelineReport
from workbench.reports.report import Report
from workbench.reports.simulated_pipeline import TaskSpan

COMPILED, MEASURED = 501, 1001
"""The first process ID of compiled and of measured processes; predicted ones start at 1."""
_TASKS = "tasks"
Json = dict[str, Any]


class _Slice(NamedTuple):
    stream: str
    start: float
    seconds: float
    name: str
    kind: str
    facts: Json

    @property
    def nanoseconds(self) -> tuple[int, int]:
        """Start and end, rounded so that consecutive slices stay consecutive."""
        return round(self.start * 1e9), round((self.start + self.seconds) * 1e9)


def chrome_trace(report: Report, measurement: Measurement | None = None) -> str:
    """The step as trace JSON: predicted, compiled (with kernel estimates of XLA:TPU) and measured (if profiled).

    Raises `WorkbenchError` if there are no events.
    """
    events = [*_predicted(report.prediction), *_compiled(report), *(_measured(measurement) if measurement else ())]
    if not events:
        raise WorkbenchError(
            f"{report.plan.name} has no predicted timeline: the plan has no hardware.",
            ['set hardware, `hardware="TPU v5e 2x4"`', "run the plan and pass the measurement"],
        )
    about = {"plan": str(report.plan), "hardware": str(report.hardware or ""), "written by": "sharding workbench"}
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms", "otherData": about}, ensure_ascii=False, allow_nan=False)


def _predicted(report: Report) -> Iterator[Json]:
    if report.pipeline is not None and not report.is_one_program:
        for item in report.stages:
            yield from _pipeline_device(report.pipeline, item)
    elif report.timeline is not None:
        facts = _Facts(report)
        name = f"predicted: each of {report.mesh.size:,} devices, {report.hardware}"
        yield from _process(1, name, [_slice(item, facts.of(item)) for item in report.timeline.events if item.seconds])


def _compiled(report: Report) -> Iterator[Json]:
    """The compiled kernels in sequence with estimated times, a loop's iterations summed; collectives have no estimate."""
    if not isinstance(report.compiled, Compiled) or not report.has_compiled_times:
        return
    slices, start = [], 0.0
    for kernel in report.compiled.kernels:
        if kernel.seconds:
            facts = {"path": kernel.path, "source": kernel.source, "instruction": kernel.name, "bytes": kernel.bytes, "flops": kernel.flops}
            facts |= {"times_a_step": kernel.count, "us_each": kernel.seconds * 1e6}
            slices.append(_Slice(COMPUTE, start, kernel.seconds * kernel.count, _short(kernel.path, kernel.name), kernel.kind, facts))
            start += kernel.seconds * kernel.count
    yield from _process(COMPILED, f"compiled: each of {report.mesh.size:,} devices, {report.compiled.compiler or report.hardware}", slices)


def _measured(measurement: Measurement) -> Iterator[Json]:
    if measurement.tasks:
        for device in sorted({task.device for task in measurement.tasks}):
            tasks = [_task_slice(task) for task in measurement.tasks if task.device == device]
            yield from _process(MEASURED + device, f"measured: stage {device}, {measurement.device_kind}", tasks)
    elif measurement.trace is not None:
        for number in sorted({task.device for task in measurement.trace.events}):
            slices = list(_traced_slices(measurement.trace, number))
            yield from _process(MEASURED + number, f"measured: device {number}, {measurement.device_kind}", slices)


class _Facts:
    """The report's data on kernels and collectives of the timeline, matched by path, kind and closest duration."""

    def __init__(self, report: Report) -> None:
        self._known: dict[tuple[str, str], list[tuple[float, Json]]] = {}
        for kernel in report.kernel_costs:
            facts = {"source": kernel.source, "bytes": kernel.bytes, "flops": kernel.flops, "dtype": kernel.dtype, "bound": kernel.bound}
            self._known.setdefault((kernel.path, kernel.kind), []).append((kernel.seconds, facts))
        for sent in report.collectives:
            facts = {"source": sent.source, "bytes": sent.payload, "sent_bytes": sent.sent, "mesh_axes": "+".join(sent.axes)}
            self._known.setdefault((sent.path, sent.kind), []).append((sent.seconds, facts))

    def of(self, event: Event) -> Json:
        entries = self._known.get((event.path, event.kind), [])
        return min(entries, key=lambda entry: abs(entry[0] - event.seconds))[1] if entries else {}


def _slice(event: Event, facts: Json) -> _Slice:
    waits = {"exposed_us": event.exposed * 1e6} if event.exposed else {}
    args = {"path": event.path, **facts, "times_a_step": event.count, **waits}
    return _Slice(event.stream, event.start, event.seconds, _short(event.path, event.kind), event.kind, args)


def _traced_slices(trace: Trace, device: int) -> Iterator[_Slice]:
    for event in trace.of_device(device):
        facts = {"path": event.path, "source": event.source, "instruction": event.name}
        yield _Slice(event.stream, event.start, event.seconds, _short(event.path, event.name), event.kind, facts)


def _short(path: str, otherwise: str) -> str:
    return "/".join(path.split("/")[-2:]) or otherwise


def _task_slice(task: TaskTime) -> _Slice:
    facts = {"stage": task.stage, "micro_batch": task.micro_batch}
    name = task.kind if task.kind == "update" else f"{task.kind} {task.micro_batch}"
    return _Slice(_TASKS, task.start, task.seconds, name, task.kind, facts)


def _pipeline_device(planned: PipelineReport, report: Report) -> Iterator[Json]:
    """The tasks, kernels, collectives, arriving transfers and memory of a stage."""
    assert report.stage is not None, "the stages of a pipeline have reports of their own"
    device, simulated, report_facts = report.stage, planned.simulated, _Facts(report)
    pid = device + 1
    start, end = simulated.update_span(device)
    update = [_Slice(_TASKS, start, end - start, "update", "update", {"stages": list(simulated.stages_of(device))})] if end > start else []
    kernels = [_slice(event, report_facts.of(event)) for event in report.timeline.events if event.seconds] if report.timeline else []
    slices = [*(_span_slice(span, planned) for span in simulated.devices[device]), *update, *kernels]
    yield from _process(pid, f"predicted: stage {device}" + (", a second for 10¹² operations" if planned.nominal else ""), slices)
    for number, event in enumerate(simulated.arrivals_of(device)):
        about = {
            "cat": "transfer",
            "id": f"{pid}.{number}",
            "pid": pid,
            "tid": 1,
            "name": f"{event.task.kind} {event.task.micro_batch} arrives",
        }
        facts = {"bytes": event.bytes, "from_stage": event.task.stage, "to_stage": event.stage}
        yield {"ph": "b", "ts": event.start * 1e6, **about, "args": facts}
        yield {"ph": "e", "ts": event.end * 1e6, **about}
    for moment in simulated.memory(device):
        yield {"ph": "C", "ts": moment.start * 1e6, "pid": pid, "name": "memory of a device", "args": {"bytes": moment.bytes}}


def _span_slice(span: TaskSpan, planned: PipelineReport) -> _Slice:
    task, again = span.task, {"recompute_us": span.recompute * 1e6} if span.recompute else {}
    waits, path = planned.simulated.causes.get(task), planned.virtual_stages[task.stage].name
    after = {"waits_for": f"{waits.kind} {waits.micro_batch} of stage {waits.stage}"} if waits else {}
    facts = {"stage": task.stage, "micro_batch": task.micro_batch, "path": path, **again, **after}
    return _Slice(_TASKS, span.start, span.seconds, f"{task.kind} {task.micro_batch}", str(task.kind), facts)


def _process(pid: int, name: str, slices: Sequence[_Slice]) -> Iterator[Json]:
    """A process with its threads; overlapping events of a stream, as on CPU threads, get separate threads."""
    yield _named("process_name", pid, 0, name=name)
    yield _named("process_sort_index", pid, 0, sort_index=pid)
    tid = 0
    for stream in sorted({each.stream for each in slices}, key=lambda each: (each != _TASKS, each != COMPUTE, each)):
        for number, lane in enumerate(_lanes(each for each in slices if each.stream == stream)):
            tid += 1
            yield _named("thread_name", pid, tid, name=stream if not number else f"{stream} {number + 1}")
            yield _named("thread_sort_index", pid, tid, sort_index=tid)
            yield from (_complete(each, pid, tid) for each in lane)


def _lanes(slices: Iterable[_Slice]) -> list[list[_Slice]]:
    lanes: list[list[_Slice]] = []
    for each in sorted(slices, key=lambda each: each.nanoseconds):
        free = next((lane for lane in lanes if lane[-1].nanoseconds[1] <= each.nanoseconds[0]), None)
        if free is None:
            lanes.append(free := [])
        free.append(each)
    return lanes


def _complete(each: _Slice, pid: int, tid: int) -> Json:
    start, end = each.nanoseconds
    about = {"name": each.name, "cat": each.kind, "ts": start / 1e3, "dur": (end - start) / 1e3}
    return {"ph": "X", "pid": pid, "tid": tid, **about, "args": each.facts}


def _named(kind: str, pid: int, tid: int, **args: Any) -> Json:
    return {"ph": "M", "pid": pid, "tid": tid, "name": kind, "args": args}
