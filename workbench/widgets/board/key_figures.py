"""The key figures of the board: their parts, and the same figures as compiled and measured."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from workbench.analysis.compared_figures import ComparedFigure
from workbench.core.tensor import Role
from workbench.reports.device_memory import ARGUMENT_ROLES, Memory
from workbench.reports.measurement import Measurement
from workbench.reports.report import Report
from workbench.reports.report_details import MEMORY, SENT, STEP, Range
from workbench.reports.step_time import StepTime
from workbench.units import format_bytes, format_count, format_range, format_seconds, format_share
from workbench.widgets.board.comparison_state import ComparisonState
from workbench.widgets.board.tier_marks import Figure, mark_of, source_of, tier_of
from workbench.widgets.pipeline.pipeline_figures import pipeline_figures

ROLES = tuple(Role)
HIDDEN = "hidden"
"""The shade of communication that overlaps with computation."""


def figures(
    report: Report, comparison_state: ComparisonState | None = None, measurement: Measurement | None = None, *, stale: bool = False
) -> tuple[Figure, ...]:
    """The figures of a report, each compared by `comparison_state`; with a measurement its step time (`stale`: that of an earlier plan)."""
    found = [
        *_time(report.step_time),
        _memory(report.most(lambda each: each.memory.peak)),
        *_utilisation(report.step_time),
        _sent_figure(report),
        _flops(report),
        _duplication(report),
    ]
    if not report.is_of_devices:
        found = pipeline_figures(report, found)
        comparison_state = None  # it is of the whole program, not of its stages
    if measurement is not None:
        found.append(_measured_figure(measurement, stale=stale))
    return tuple(replace(figure, tiers=tuple(_tiers(figure, comparison_state))) for figure in _tiered(found, report))


_RANGED = {"predicted": STEP, "memory": MEMORY, "sent": SENT}  # a figure here, and its name among the ranges


def _tiered(found: Iterable[Figure], report: Report) -> Iterator[Figure]:
    """Each figure with its tier, who computed it, and its range."""
    for figure in found:
        tier, known = tier_of(figure.key, report), report.ranges.get(_RANGED.get(figure.key, ""))
        text, bounds = (_range_text(figure, known), (known.low, known.high)) if known else ("", None)
        yield replace(figure, tier=tier, source=source_of(tier, report), range=text, bounds=bounds)


def _range_text(figure: Figure, known: Range) -> str:
    text = format_range(known.low, known.high, figure.show)
    return text if text != format_range(figure.value, figure.value, figure.show) else ""


def _time(step: StepTime | None) -> Iterator[Figure]:
    """The step as a bar of what the device does in sequence; what overlaps with computation is shown apart."""
    if step is None:
        return
    parts = {
        "compute-bound": (step.arithmetic, "in compute-bound kernels"),
        "memory-bound": (step.memory, "in memory-bound kernels"),
        "launches": (step.launch, "between one kernel and the next"),
        "exposed communication": (step.exposed, "the device is idle during this communication"),
        **({"waiting for the host": (step.host, "which launches each kernel")} if step.host_counts else {}),
    }
    total = step.total or 1.0
    yield Figure(
        "predicted",
        "Step, predicted",
        step.total,
        format_seconds,
        f"seconds of one step {step.place}: " + ", ".join(f"{name} {format_seconds(each)} ({why})" for name, (each, why) in parts.items()),
        f"on {step.hardware}, not calibrated" if step.calibration else f"on {step.hardware}",
        parts=tuple(
            _part(name, each, total, shade, format_seconds(each), why) for shade, (name, (each, why)) in enumerate(parts.items()) if each
        ),
        apart=_part(
            "hidden communication", step.hidden, total, HIDDEN, format_seconds(step.hidden), "overlapped with computation: adds no time"
        )
        if step.hidden > 0.001 * total
        else None,
    )


def _utilisation(step: StepTime | None) -> Iterator[Figure]:
    if step is None or not step.mfu:
        return
    yield Figure(
        "mfu",
        "MFU",
        step.mfu,
        format_share,
        "model FLOPs utilisation: FLOP the model needs, divided by the peak FLOP of all devices during the step. "
        f"HFU, which also counts recomputed and duplicated work: {format_share(step.hfu)}",
        f"HFU {format_share(step.hfu)}",
        more_is_better=True,
    )


def _part(name: str, value: float, whole: float, shade: int | str, text: str, why: str = "") -> dict[str, Any]:
    title = f"{name} {text}, {value / whole:.0%}" + (f": {why}" if why else "")
    return {"role": name, "shade": shade, "share": round(min(value / whole, 1.0), 6), "text": text, "title": title}


def _memory(report: Report) -> Figure:
    """Peak memory. With hardware, the bar is the device's memory; one that overflows shows where it ends."""
    memory, peak, room = report.memory, report.memory.peak, report.memory.capacity
    whole = max(peak, room)
    stage = "" if report.stage is None else f"stage {report.stage}"
    figure = Figure(
        "memory",
        "Memory per device",
        peak,
        format_bytes,
        f"peak of the step: {peak:,} bytes on one device" + (f" of {stage}, the fullest" if stage else ""),
        note=f"{stage}, the fullest" if stage else "",
        parts=memory_parts(report, whole),
        apart=_on_chip(memory, whole) if report.compiled is None else None,
    )
    if not room:
        return figure
    spare = format_bytes(abs(room - peak))
    return replace(
        figure,
        title=f"{figure.title}, of {room:,} available to a program" + _reserved_text(memory),
        note=(f"{stage} " if stage else "")
        + (f"fits in {format_bytes(room)}, {spare} free" if memory.fits else f"does not fit: {spare} too much"),
        tone="" if memory.fits else "bad",
        limit=None if memory.fits else {"share": round(room / whole, 6), "text": f"{format_bytes(room)}: the memory of one device"},
    )


def _on_chip(memory: Memory, whole: int) -> dict[str, Any] | None:
    """Temporaries that stay in on-chip memory: why the peak is lower than without such hardware."""
    computed = sum(count for role, count in memory.by_role.items() if role not in (*ARGUMENT_ROLES, Role.OUTPUT))
    count = memory.working - computed
    why = "temporaries that the compiler keeps in on-chip memory: no part of the peak; without hardware they count"
    return _part("on chip", count, whole, HIDDEN, format_bytes(count), why) if count > 0 else None


def _reserved_text(memory: Memory) -> str:
    return f"; the runtime's allocator then reserves {format_bytes(memory.reserved)}" if memory.reserved else ""


def memory_parts(report: Report, whole: int = 0) -> tuple[dict[str, Any], ...]:
    """The stacked bar: for each role that takes any, its share of `whole` bytes (by default the peak)."""
    whole = whole or report.memory.peak or 1
    return tuple(
        _part(role.value, count, whole, place, format_bytes(count))
        for place, role in enumerate(ROLES)
        if (count := report.memory.by_role.get(role, 0))
    )


def _sent_figure(report: Report) -> Figure:
    counts = Counter[str]()
    for each in report.collectives:
        counts[each.kind] += each.count
    title = f"{report.sent:,} bytes sent per device and step, by " + (
        ", ".join(f"{count:,} {kind}{'s' * (count != 1)}" for kind, count in counts.items()) or "no collective"
    )
    payload = sum(report.by_axis_and_kind.values())
    note = f"per step (payload {format_bytes(payload)})" if payload else "each step"
    return Figure("sent", "Sent per device", report.sent, format_bytes, title, note, counts=counts)


def _flops(report: Report) -> Figure:
    flops = report.flops
    convention = f"; the 6 x parameters x tokens convention gives {flops.six_nd:,}" if flops.six_nd else ""
    return Figure(
        "flops",
        "FLOP per device",
        flops.per_device,
        format_count,
        f"the program needs {flops.unique:,} in all; {flops.devices} devices do {flops.per_device:,} each{convention}",
        "each step",
    )


def _duplication(report: Report) -> Figure:
    title = "number of times the same work is done, because a mesh axis does not shard it or because of padding; 1 means once"
    return Figure("duplication", "Duplication", report.flops.duplication, _multiple, title, "1.00× is none")


def _measured_figure(measurement: Measurement, *, stale: bool) -> Figure:
    where = f"{measurement.devices} × {measurement.device_kind}"
    return Figure(
        "measured",
        "Step, measured",
        measurement.median_seconds,
        format_seconds,
        f"median of {len(measurement.step_seconds)} steps on {where}",
        "before the last edit" if stale else where,
    )


_COMPARED = {"memory": "peak memory", "flops": "products"}  # a figure here, and its name in a comparison


def _tiers(figure: Figure, comparison_state: ComparisonState | None) -> Iterator[dict[str, Any]]:
    """The compiled and measured values of the same figure."""
    if comparison_state is None:
        return
    for each in comparison_state.comparison.figures:
        if each.name == _COMPARED.get(figure.key):
            yield from _tiers_of(each, figure, stale=comparison_state.stale)
        if each.name == "kernels" and figure.key == "predicted" and each.compiled is not None and each.predicted is not None:
            note = f"predicted {format_seconds(each.predicted)}, {difference_text(each)}"
            yield _tier("kernels, compiled", format_seconds(each.compiled), note, stale=comparison_state.stale)
    if figure.key == "sent" and (rows := comparison_state.comparison.collectives):
        predicted, compiled = sum(row.predicted for row in rows), sum(row.compiled for row in rows)
        note = "as predicted" if predicted == compiled else f"predicted {format_bytes(predicted)}"
        yield _tier("payload, compiled", format_bytes(compiled), note, stale=comparison_state.stale)
    if figure.key == "duplication" and (unique := comparison_state.comparison.report.flops.unique):
        products = next((each.compiled for each in comparison_state.comparison.figures if each.name == "products"), None)
        if products is not None:
            yield _tier(
                "compiled",
                _multiple(products * comparison_state.comparison.report.flops.devices / unique),
                "",
                stale=comparison_state.stale,
            )


def _tiers_of(each: ComparedFigure, figure: Figure, *, stale: bool) -> Iterator[dict[str, Any]]:
    is_settled = figure.tier == "compiled" and not stale  # then the figure itself is the compiler's
    if is_settled and each.predicted is not None:
        text = difference_text(each._replace(measured=None))
        yield _tier("predicted", figure.show(each.predicted), text.replace("as predicted", "the same"), stale=False)
    for name, value in (("compiled", None if is_settled else each.compiled), ("measured", each.measured)):
        if value is not None:
            text = difference_text(each._replace(compiled=value, measured=None))
            yield _tier(name, figure.show(value), f"predicted {figure.show(each.predicted or 0)}, {text}" if stale else text, stale=stale)


def _tier(label: str, text: str, note: str, *, stale: bool) -> dict[str, Any]:
    mark = mark_of(next((each for each in ("measured", "compiled") if label.endswith(each)), ""))
    return {"label": label, "text": text, "note": note, "stale": "before the last edit" if stale else "", "mark": mark}


def difference_text(each: ComparedFigure) -> str:
    """`3 % too much`: the prediction against the last tier that has the figure."""
    if each.error is None:
        return ""
    if abs(each.error) < 0.005:
        return "as predicted"
    return f"prediction {each.error:+.0%}".replace("-", "−") if abs(each.error) < 10 else f"prediction {each.error + 1:.0f}×"


def _multiple(value: float) -> str:
    return f"{value:.2f}×" if value < 100 else f"{value:,.0f}×"
