"""A predicted and a measured step made by hand: two layers in a loop, on two devices."""

from dataclasses import replace

from tests.support.details import with_details
from tests.support.programs import mlp_report
from workbench.reports.device_trace import Trace, TraceEvent, summarize_trace
from workbench.reports.kernel import COMPUTE, Event, Timeline
from workbench.reports.report import Report

MS = 1e-3


def event(device: int, start: float, seconds: float, name: str = "dot.1", stream: str = COMPUTE, kind: str = "dot") -> TraceEvent:
    """Times in milliseconds."""
    return TraceEvent(device, stream, name, kind, f"mlp/{name}", "toy.py:9", start * MS, seconds * MS)


def measured_step() -> tuple[TraceEvent, ...]:
    """Device 0 computes 3 ms and waits 2 ms for device 1, which computes 5 ms; the all-reduce itself takes 1 ms. Twice."""
    return tuple(
        each
        for turn in (0, 6)
        for each in (
            event(0, turn, 3),
            event(0, turn + 3, 3, "all-reduce.2", "model", "all-reduce"),
            event(1, turn, 5),
            event(1, turn + 5, 1, "all-reduce.2", "model", "all-reduce"),
        )
    )


def measured_trace() -> Trace:
    return summarize_trace(measured_step())


def predicted_step() -> Timeline:
    """The same loop as the planner tells it: its first turn, and that there is one more."""
    return Timeline(
        10 * MS,
        (
            Event(COMPUTE, 0.0, 4 * MS, "mlp/dot_general", "stablehlo.dot_general", count=2),
            Event("model", 4 * MS, 1 * MS, "mlp/dot_general", "all-reduce", count=2, exposed=1 * MS),
            Event(COMPUTE, 5 * MS, 5 * MS, "layers/while", "loop"),
        ),
    )


def timed_report() -> Report:
    """`mlp_report` with a timeline, and with seconds of its collectives."""
    report = mlp_report()
    collectives = tuple(replace(each, seconds=1 * MS) for each in report.collectives)
    return with_details(replace(report, collectives=collectives), timeline=predicted_step)
