"""A measurement as plain values, for `--json`."""

from dataclasses import asdict
from math import isfinite
from typing import Any

from workbench.reports.device_trace import Trace
from workbench.reports.measurement import Measurement


def measurement_record(measurement: Measurement) -> dict[str, Any]:
    """All figures of a run; `compiled` is the payload of the compiled program's collectives, per device and step."""
    first, last = measurement.spread_seconds
    return {
        "device_kind": measurement.device_kind,
        "devices": measurement.devices,
        "processes": measurement.processes,
        "compile_seconds": measurement.compile_seconds,
        "median_seconds": measurement.median_seconds,
        "decile_seconds": [first, last],
        "predicted_seconds": measurement.predicted_seconds,
        "step_seconds": list(measurement.step_seconds),
        "losses": list(measurement.losses),
        "shards": [{**each._asdict(), "agrees": each.agrees} for each in measurement.shards],
        "shards_agree": measurement.shards_agree,
        "compiled": [{"axes": list(axes), "kind": kind, "payload": payload} for (axes, kind), payload in measurement.compiled.items()],
        "compiled_peak": measurement.compiled_peak,
        "device_peak": measurement.device_peak,
        "max_error": _finite(measurement.max_error),
        "explained_error": _finite(measurement.explained_error),
        "is_wrong": measurement.is_wrong if measurement.is_judged else None,
        "first_wrong": measurement.first_wrong,
        "wrong_text": measurement.wrong_text,
        "trace": measurement.trace and _trace_record(measurement.trace),
        "why_untraced": measurement.why_untraced,
        "tasks": [task._asdict() for task in measurement.tasks],
        "task_overhead": measurement.task_overhead,
    }


def _finite(value: float | None) -> float | None:
    """A number that JSON has."""
    return value if value is not None and isfinite(value) else None


def _trace_record(trace: Trace) -> dict[str, Any]:
    """Sums by device and by instruction; single events are left out."""
    return {
        "seconds": trace.seconds,
        "devices": [asdict(each) for each in trace.devices],
        "operations": [asdict(each) for each in trace.operations],
        "events": len(trace.events) + trace.events_left_out,
    }
