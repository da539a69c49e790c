"""The key figures of the board, their parts, and their compiled and measured values."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from workbench.analysis.compared_figures import ComparedFigure
from workbench.core.tensor import Role
from workbench.reports.device_memory import ARGUMENT_ROLES, Memory
from workbench.reports.figure_ranges import MEMORY, SENT, STEP, Range
from workbench.reports.measurement import Measurement
from workbench.reports.report import Report
from workbench.reports.step_time import StepTime
from workbench.units import format_bytes, format_count, format_range, format_seconds, format_share
from workbench.widgets.board.comparison_state import ComparisonState
from workbench.widgets.board.tier_marks import Figure, mark_of, source_of, tier_of
from workbench.widgets.pipeline.pipeline_figures import pipeline_figures

ROLES = tuple(Role)
HIDDEN = "hidden"
"""Shade of communication that overlaps with computation."""


def figures(
    report: Report, comparison_state: ComparisonState | None = None, measurement: Measurement | None = None, *, stale: bool = False
) -> tuple[Figure, ...]:
    """Return the key figures of a report; `stale`: the measured step time belongs to an earlier plan."""
    listed = [
        *_time(report.step_time),
        _memory(report.most(lambda stage: stage.memory.peak)),
        *_utilisation(report.step_time),
        _sent_figure(report),
        _flops(report),
        _duplication(report),
    ]
    if not report.is_of_devices:
        listed = pipeline_figures(report, listed)
        comparison_state = None  # covers the whole program, not its stages
    if measurement is not None:
        listed.append(_measured_figure(measurement, stale=stale))
    return tuple(replace(figure, tiers=tuple(_tiers(figure, comparison_state))) for figure in _tiered(listed, report))


_RANGED = {"predicted": STEP, "memory": MEMORY, "sent": SENT}  # key of a figure -> its name among the ranges


def _tiered(found: Iterable[Figure], report: Report) -> Iterator[Figure]:
    for figure in found:
        tier, interval = tier_of(figure.key, report), report.ranges.get(_RANGED.get(figure.key, ""))
        text, bounds = (_range_text(figure, interval), (interval.low, interval.high)) if interval else ("", None)
        yield replace(figure, tier=tier, source=source_of(tier, report), range=text, bounds=bounds)


def _range_text(figure: Figure, known: Range) -> str:
    text = format_range(known.low, known.high, figure.show)
    return text if text != format_range(figure.value, figure.value, figure.show) else ""


def _time(step: StepTime | None) -> Iterator[Figure]:
    """Build the step time as a bar of sequential parts; communication overlapped with computation is shown apart."""
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
        f"seconds of one step {step.place}: "
        + ", ".join(f"{name} {format_seconds(seconds)} ({why})" for name, (seconds, why) in parts.items()),
        f"on {step.hardware}, not calibrated" if step.calibration else f"on {step.hardware}",
        parts=tuple(
            _part(name, seconds, total, shade, format_seconds(seconds), why)
            for shade, (name, (seconds, why)) in enumerate(parts.items())
            if seconds
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
    """Build peak memory; with hardware the bar is the device's memory, and one that overflows shows its limit."""
    memory, peak, room = report.memory, report.memory.peak, report.memory.capacity
    whole = max(peak, room)
    stage = f"stage {report.stage}" if report.stage is not None and (pipeline := report.plan.pipeline) and pipeline.stages > 1 else ""
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
    reserved = f"; the runtime's allocator then reserves {format_bytes(memory.reserved)}" if memory.reserved else ""
    return replace(
        figure,
        title=f"{figure.title}, of {room:,} available to a program{reserved}",
        note=(f"{stage} " if stage else "")
        + (f"fits in {format_bytes(room)}, {spare} free" if memory.fits else f"does not fit: {spare} too much"),
        tone="" if memory.fits else "bad",
        limit=None if memory.fits else {"share": round(room / whole, 6), "text": f"{format_bytes(room)}: the memory of one device"},
    )


def _on_chip(memory: Memory, whole: int) -> dict[str, Any] | None:
    """Describe temporaries kept in on-chip memory, which lower the peak compared with other hardware."""
    computed = sum(count for role, count in memory.by_role.items() if role not in (*ARGUMENT_ROLES, Role.OUTPUT))
    count = memory.working - computed
    why = "temporaries that the compiler keeps in on-chip memory: no part of the peak; without hardware they count"
    return _part("on chip", count, whole, HIDDEN, format_bytes(count), why) if count > 0 else None


def memory_parts(report: Report, whole: int = 0) -> tuple[dict[str, Any], ...]:
    """Return the stacked memory bar: the share of each role in `whole` bytes (by default the peak)."""
    whole = whole or report.memory.peak or 1
    return tuple(
        _part(role.value, count, whole, place, format_bytes(count))
        for place, role in enumerate(ROLES)
        if (count := report.memory.by_role.get(role, 0))
    )


def _sent_figure(report: Report) -> Figure:
    counts = Counter[str]()
    for collective in report.collectives:
        counts[collective.kind] += collective.count
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
    return Figure("duplication", "Duplication", report.flops.duplication, _multiple, title, "1.00× means no duplication")


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


_COMPARED = {"memory": "peak memory", "flops": "products"}  # key of a figure -> its name in a comparison


def _tiers(figure: Figure, comparison_state: ComparisonState | None) -> Iterator[dict[str, Any]]:
    if comparison_state is None:
        return
    for compared in comparison_state.comparison.figures:
        if compared.name == _COMPARED.get(figure.key):
            yield from _tiers_of(compared, figure, stale=comparison_state.stale)
        if compared.name == "kernels" and figure.key == "predicted" and compared.compiled is not None and compared.predicted is not None:
            note = f"predicted {format_seconds(compared.predicted)}, {difference_text(compared)}"
            yield _tier("kernels, compiled", format_seconds(compared.compiled), note, stale=comparison_state.stale)
    if figure.key == "sent" and (rows := comparison_state.comparison.collectives):
        predicted, compiled = sum(row.predicted for row in rows), sum(row.compiled for row in rows)
        note = "as predicted" if predicted == compiled else f"predicted {format_bytes(predicted)}"
        yield _tier("payload, compiled", format_bytes(compiled), note, stale=comparison_state.stale)
    if figure.key == "duplication" and (unique := comparison_state.comparison.report.flops.unique):
        products = next((compared.compiled for compared in comparison_state.comparison.figures if compared.name == "products"), None)
        if products is not None:
            yield _tier(
                "compiled",
                _multiple(products * comparison_state.comparison.report.flops.devices / unique),
                "",
                stale=comparison_state.stale,
            )


def _tiers_of(each: ComparedFigure, figure: Figure, *, stale: bool) -> Iterator[dict[str, Any]]:
    is_settled = figure.tier == "compiled" and not stale  # the figure itself comes from the compiler
    if is_settled and each.predicted is not None:
        text = difference_text(each._replace(measured=None))
        yield _tier("predicted", figure.show(each.predicted), text.replace("as predicted", "the same"), stale=False)
    for name, value in (("compiled", None if is_settled else each.compiled), ("measured", each.measured)):
        if value is not None:
            text = difference_text(each._replace(compiled=value, measured=None))
            yield _tier(name, figure.show(value), f"predicted {figure.show(each.predicted or 0)}, {text}" if stale else text, stale=stale)


def _tier(label: str, text: str, note: str, *, stale: bool) -> dict[str, Any]:
    mark = mark_of(next((tier for tier in ("measured", "compiled") if label.endswith(tier)), ""))
    return {"label": label, "text": text, "note": note, "stale": "before the last edit" if stale else "", "mark": mark}


def difference_text(each: ComparedFigure) -> str:
    """Describe the prediction error against the highest tier of the figure: `prediction +3%`."""
    if each.error is None:
        return ""
    if abs(each.error) < 0.005:
        return "as predicted"
    return f"prediction {each.error:+.0%}".replace("-", "−") if abs(each.error) < 10 else f"prediction {each.error + 1:.0f}×"


def _multiple(value: float) -> str:
    return f"{value:.2f}×" if value < 100 else f"{value:,.0f}×"
