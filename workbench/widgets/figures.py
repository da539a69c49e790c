"""The key figures over the board, and by how much the last edit moved them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from workbench.measurement import Measurement
from workbench.report import Report
from workbench.tensor import Role
from workbench.units import format_bytes, format_count, format_seconds

ROLES = tuple(Role)


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of the head. Of every one of them, less is better."""

    key: str
    label: str
    value: float
    show: Callable[[float], str]
    title: str
    note: str = ""
    parts: tuple[dict[str, Any], ...] = ()


def figures(report: Report, measurement: Measurement | None = None, *, stale: bool = False) -> tuple[Figure, ...]:
    """The figures of a report; with a measurement, its step time too (`stale`: the plan has changed since)."""
    found = [
        Figure(
            "memory",
            "Memory per device",
            report.memory.peak,
            format_bytes,
            f"peak of the step: {report.memory.peak:,} bytes on one device",
            parts=memory_parts(report),
        ),
        Figure("sent", "Sent per device", report.sent, format_bytes, f"{report.sent:,} bytes leave each device in a step", "each step"),
        Figure(
            "flops",
            "FLOP per device",
            report.flops.per_device,
            format_count,
            f"the program needs {report.flops.unique:,} in all; {report.flops.devices} devices do {report.flops.per_device:,} each",
            "each step",
        ),
        Figure(
            "duplication",
            "Duplication",
            report.flops.duplication,
            _times,
            "how often the same work is done because a mesh axis is unused; 1 is none",
            "of work; 1.00× is none",
        ),
    ]
    if (step := report.step_time) is not None:
        title = (
            f"on {step.hardware}, to first order: arithmetic {format_seconds(step.arithmetic)}, memory {format_seconds(step.memory)}, "
            f"communication {format_seconds(step.communication)}, starting kernels {format_seconds(step.launch)}"
        )
        found.append(Figure("predicted", "Step, predicted", step.total, format_seconds, title, note=step.hardware))
    if measurement is not None:
        title = f"median of {len(measurement.step_seconds)} steps on {measurement.devices} × {measurement.device_kind}"
        note = "before the last edit" if stale else f"{measurement.devices} × {measurement.device_kind}"
        found.append(Figure("measured", "Step, measured", measurement.median_seconds, format_seconds, title, note=note))
    return tuple(found)


def memory_parts(report: Report) -> tuple[dict[str, Any], ...]:
    """The stacked bar: a share of the peak for each role that takes any."""
    peak = report.memory.peak or 1
    return tuple(
        {"role": role.value, "shade": place, "share": round(count / peak, 6), "text": format_bytes(count)}
        for place, role in enumerate(ROLES)
        if (count := report.memory.by_role.get(role, 0))
    )


def figure_states(now: tuple[Figure, ...], before: tuple[Figure, ...] = ()) -> list[dict[str, Any]]:
    """The figures as JSON, each with its change since `before`."""
    old = {figure.key: figure.value for figure in before}
    return [
        {
            "key": figure.key,
            "label": figure.label,
            "text": figure.show(figure.value),
            "title": figure.title,
            "note": figure.note,
            "parts": list(figure.parts),
            "delta": _delta(figure, old.get(figure.key, figure.value)),
        }
        for figure in now
    ]


def _delta(figure: Figure, before: float) -> dict[str, str] | None:
    change = figure.value - before
    text = figure.show(abs(change))
    if not change or text == figure.show(0):
        return None
    return {"text": f"{'−' if change < 0 else '+'}{text}", "tone": "good" if change < 0 else "bad"}


def _times(value: float) -> str:
    return f"{value:.2f}×" if value < 100 else f"{value:,.0f}×"
