"""Answers to "Why?": a figure's composition by operation, largest first, and related glossary terms."""

from collections.abc import Callable, Iterable
from math import prod
from typing import Any

from workbench.core.program import Program, carries_cache, decoded_sequences
from workbench.core.sharding import axis_size, base_axis
from workbench.reports.measurement import Measurement
from workbench.reports.report import Report
from workbench.units import format_bytes, format_count, format_seconds
from workbench.widgets.board.background_queries import BackgroundQueries
from workbench.widgets.board.key_figures import ROLES
from workbench.widgets.board.layer_folding import is_named
from workbench.widgets.tabs.communication_tab import exposed_seconds
from workbench.widgets.tabs.shown_stage import shown_stage
from workbench.widgets.tabs.table_blocks import MOST_ROWS, Block, Column, Contribution, Paint, block, parts_table, row
from workbench.widgets.tabs.tensor_table import shape_text
from workbench.widgets.tabs.why_axis import axis_answer, explain_duplication, placed_answer, value_answer

_ARITHMETIC, _MEMORY, _LAUNCH, _EXPOSED = range(4)  # the shades of the step's bar
_WHY_SENT = {
    "all-reduce": "each of them holds a partial sum, because a summed dimension is sharded there; all receive the complete sum",
    "reduce-scatter": "each of them holds a partial sum, because a summed dimension is sharded there; each receives a "
    "shard of the complete sum",
    "all-gather": "each of them holds a shard of a value that all need whole",
    "all-to-all": "a value sharded on one dimension is needed sharded on another",
    "collective-permute": "shards of a value are needed on other devices",
}
_RING = {"all-reduce": "2 V (n − 1) / n", "collective-permute": "V"}


def why(
    of: str,
    report: Report,
    paint: Paint,
    measurement: Measurement | None = None,
    background: BackgroundQueries | None = None,
    stage: int | None = None,
) -> dict[str, Any] | None:
    """Answer `figure KEY`, `tensor PATH`, `value PATH`, `axis KIND PLACE AXIS PATH`, `sent AXES KIND` or `collective
    KIND AXES PATH`.

    `None` if there is no answer. In a pipelined plan, figures are those of their own stage, other answers those of the
    selected `stage`.
    """
    kind, _, name = of.partition(" ")
    if kind == "figure":
        answer = _FIGURES[name](_stage_of_figure(name, report), paint, measurement) if name in _FIGURES else None
    elif kind == "sent":
        answer = _explain_payload(name, shown_stage(report, stage))
    elif kind == "collective":
        answer = _explain_collective(name, shown_stage(report, stage), paint)
    elif kind == "axis":
        answer = axis_answer(name, report, paint, background)
    elif kind in ("tensor", "value"):
        answer = (placed_answer if kind == "tensor" else value_answer)(name, report, paint, background)
    else:
        answer = None
    return answer and {
        "of": of,
        "title": answer[0],
        "lead": list(answer[1]),
        "blocks": list(answer[2]),
        "words": related_terms(kind, name, report.plan.program),
    }


Answer = tuple[str, Iterable[str], Iterable[Block]]


def _stage_of_figure(name: str, report: Report) -> Report:
    if report.is_of_devices:
        return report
    if name == "duplication":
        return report.most(lambda stage: stage.flops.duplication)
    stages, planned = report.stages, report.pipeline
    assert planned is not None, "a pipelined plan has one once its stages have reports"
    return {"flops": stages[planned.busiest], "sent": stages[planned.most_sending(report.mesh)]}.get(name, report.fullest)


def _explain_memory(report: Report, _paint: Paint, _measurement: Measurement | None) -> Answer:
    lines = _scope_lines(report)
    lead = ["Peak memory of one device during the step, and the tensors live at the peak."]
    if (curve := report.memory_curve).paths:
        totals = [sum(counts) for counts in zip(*curve.by_role.values(), strict=True)]
        peak = curve.paths[totals.index(max(totals))] if totals else ""
        lead += [f"That is at `{peak}`" + (f", {lines[peak]}." if lines.get(peak) else ".")] if peak else []
    return f"Why {format_bytes(report.memory.peak)} on each device?", lead, [live_table(report, None)]


def live_table(report: Report, place: int | None) -> Block:
    """Build a table of the tensors live at a moment of the step, by default its peak."""
    lines, shades = _scope_lines(report), {role: shade for shade, role in enumerate(ROLES)}
    parts = [
        Contribution(tensor.path, tensor.bytes, lines.get(tensor.path, ""), shades[tensor.role], (tensor.role.value,), tensor.count)
        for tensor in (report.alive if place is None else report.alive_at(place))
    ]
    where = "live at the peak" if place is None else "live at this moment"
    return parts_table(where, (Column("role"),), parts, format_bytes)


def _explain_payload(name: str, report: Report) -> Answer | None:
    axes, _, kind = name.partition(" ")
    alike = [collective for collective in report.collectives if "+".join(collective.axes) == axes and kind in ("", collective.kind)]
    parts = [
        Contribution(
            collective.path,
            collective.total_payload,
            collective.source,
            1,
            (collective.kind, format_bytes(collective.payload)),
            collective.count,
        )
        for collective in alike
    ]
    if not parts:
        return None
    total = format_bytes(sum(collective.total_payload for collective in alike))
    lead = [f"Payload over {axes} per step: for each collective the larger of its input and output on one device, times its executions."]
    columns = (Column("collective"), Column("payload", number=True, title="of one execution"))
    return f"Why {total} over {axes}?", lead, [parts_table("scope", columns, parts, format_bytes)]


def _explain_sent(report: Report, paint: Paint, _measurement: Measurement | None) -> Answer:
    parts = [
        Contribution(
            collective.path, collective.total_sent, collective.source, 1, (collective.kind, paint.axes(collective.axes)), collective.count
        )
        for collective in report.collectives
    ]
    lead = ["Bytes sent per device and step: each collective sends its payload over a ring, times its executions."]
    columns = (Column("collective"), Column("mesh axes"))
    return f"Why {format_bytes(report.sent)} sent?", lead, [parts_table("scope", columns, parts, format_bytes)]


def _explain_flops(report: Report, paint: Paint, _measurement: Measurement | None) -> Answer:
    parts = [
        Contribution(dot.path, dot.per_device * dot.count, dot.source, 0, (_flop(dot.flops), paint.axes(dot.axes)), dot.count)
        for dot in report.products
    ]
    lead = [
        (
            f"The matrix products of the program take {_flop(report.flops.unique)} in all, {_flop(report.flops.per_device)} on one device: "
            "each mesh axis that splits a product divides it."
        )
    ]
    return f"Why {_flop(report.flops.per_device)}?", lead, [parts_table("product", _PRODUCT, parts, _flop)]


def _explain_step(report: Report, _paint: Paint, _measurement: Measurement | None) -> Answer | None:
    step = report.step_time
    if step is None:
        return None
    shades = {"memory": _MEMORY, "launch": _LAUNCH}
    parts = [
        Contribution(kernel.path, kernel.total_seconds, kernel.source, shades.get(kernel.bound, _ARITHMETIC), (kernel.bound,), kernel.count)
        for kernel in report.kernel_costs
    ]
    lines = _scope_lines(report)
    for (stream, kind, path, _), wait_seconds in exposed_seconds(report).items():
        if wait_seconds > 0:
            parts.append(Contribution(path, wait_seconds, lines.get(path, ""), _EXPOSED, (f"{kind}, {stream}",)))
    host = f", {format_seconds(step.host)} waiting for the host to call the next kernel" if step.host else ""
    idle = f" For {format_seconds(step.idle)} stage {report.stage} waits for other stages." if report.stage is not None else ""
    lead = [
        (
            f"One step {step.place}: {format_seconds(step.arithmetic)} in compute-bound kernels, "
            f"{format_seconds(step.memory)} in memory-bound kernels, {format_seconds(step.launch)} between kernels, "
            f"{format_seconds(step.exposed)} waiting for other devices{host}. "
            f"{format_seconds(step.hidden)} of communication overlaps with computation.{idle}"
        )
    ]
    if sequences := decoded_sequences(report.plan.program):
        lead.append(_decode_text(sequences, step.total))
    columns = (Column("bound by", title="or the exposed collective and its mesh axes"),)
    return f"Why {format_seconds(step.total)} a step?", lead, [parts_table("kernel or wait", columns, parts, format_seconds)]


def _decode_text(sequences: int, seconds: float) -> str:
    if sequences == 1:
        return f"A step writes one token of one sequence: {format_seconds(seconds)} a token are {1 / seconds:,.0f} tokens a second."
    return (
        f"A step writes a token of each of {sequences:,} sequences: the latency per token is {format_seconds(seconds)}, the throughput "
        f"{sequences:,} / {format_seconds(seconds)} = {sequences / seconds:,.0f} tokens a second."
    )


def _explain_mfu(report: Report, paint: Paint, measurement: Measurement | None) -> Answer | None:
    step = report.step_time
    answer = _explain_step(report, paint, measurement)
    if step is None or answer is None:
        return None
    lead = [
        (
            f"The model needs {_flop(report.flops.model)} in a step; at their peak the {report.flops.devices:,} devices of {step.hardware} "
            f"would take {format_seconds(step.mfu * step.total)} for it, and the step takes {format_seconds(step.total)}."
        ),
        f"With recomputed and duplicated work it is {step.hfu:.1%} (HFU). Parts of the step time:",
    ]
    return f"Why {step.mfu:.1%}?", lead, answer[2]


def _explain_measured(report: Report, _paint: Paint, measurement: Measurement | None) -> Answer | None:
    if measurement is None:
        return None
    slow, fast = max(measurement.step_seconds), min(measurement.step_seconds)
    lead = [
        (
            f"The median of {len(measurement.step_seconds)} steps on {measurement.devices} × "
            f"{measurement.device_kind}, without the first step, which "
            f"compiles; the fastest took {format_seconds(fast)}, the slowest {format_seconds(slow)}."
        )
    ]
    step = report.step_time
    if step:
        lead.append(f"The prediction was {format_seconds(step.total)} on {step.hardware}. “Timeline” compares both.")
    return f"Why {format_seconds(measurement.median_seconds)} a step?", lead, []


_FIGURES: dict[str, Callable[[Report, Paint, Measurement | None], Answer | None]] = {
    "memory": _explain_memory,
    "sent": _explain_sent,
    "flops": _explain_flops,
    "duplication": explain_duplication,
    "predicted": _explain_step,
    "mfu": _explain_mfu,
    "measured": _explain_measured,
}
_PRODUCT = (Column("once, on all devices", number=True), Column("split over"))


def _explain_collective(name: str, report: Report, paint: Paint) -> Answer | None:
    kind, axes, path = ([*name.split(" ", 2), "", ""])[:3]
    alike = [
        collective
        for collective in report.collectives
        if collective.kind == kind and "+".join(collective.axes) == axes and is_named(path, collective.path)
    ]
    if not alike:
        return None
    first = alike[0]
    size = prod(axis_size(axis, report.mesh) for axis in first.axes)
    total = sum(collective.total_sent for collective in alike)
    values = [value for value in report.values if is_named(path, value.path)]
    lead = [
        f"`{path}`" + (f", {first.source}." if first.source else "."),
        f"Along {' and '.join(map(base_axis, first.axes))} ({size} devices) {_WHY_SENT.get(kind, 'values move between devices')}.",
        (
            f"V = {format_bytes(first.payload)} is the larger of input and output on one device; a ring of n = {size} sends "
            f"{_RING.get(kind, 'V (n − 1) / n')} = {format_bytes(first.sent)}, {_times(sum(collective.count for collective in alike))}."
        ),
    ]
    columns = (Column("value there"), Column("dimensions"), Column("per device"), Column("times", number=True))
    rows = [
        row(
            f"{place}",
            {"path": value.path},
            paint.dims(value.dims, value.shape, value.sharding),
            shape_text(value.local_shape),
            f"{value.count:,}",
            subject=value.path,
        )
        for place, value in enumerate(values[:MOST_ROWS])
    ]
    tables = [block("Operations of this kind", columns, rows)] if rows else []
    return f"Why {format_bytes(total)} by {kind}?", lead, tables


def _scope_lines(report: Report) -> dict[str, str]:
    lines: dict[str, str] = {}
    for operation in report.plan.program.operations:
        lines.setdefault(operation.path, operation.source)
    return lines


def _times(count: int) -> str:
    return "once a step" if count == 1 else f"{count:,} times a step"


def _flop(count: float) -> str:
    return format_count(count, "FLOP")


# Glossary terms related to an answer to "Why?".

WORDS = {
    "memory": ("Memory per device", "Role", "Recomputation"),
    "sent": ("Sent per device", "Payload", "Collective"),
    "flops": ("FLOP per device", "Duplication"),
    "duplication": ("Duplication", "Mesh", "Padding"),
    "predicted": ("Predicted step", "Exposed and hidden communication", "Bubble"),
    "mfu": ("MFU", "Predicted step"),
    "measured": ("Measured", "Predicted, compiled, measured"),
    "collective": ("Collective", "Payload", "Partial sum (unreduced)"),
    "axis": ("Propagation", "Conflict", "Override and constraint"),
    "tensor": ("Per device", "Sharding"),
    "value": ("Propagation", "Sharding"),
}
"""Related terms by question."""
DECODE_WORDS = {
    "memory": ("Memory per device", "Role", "KV cache", "Batch of sequences"),
    "flops": (*WORDS["flops"], "Decode"),
    "predicted": ("Predicted step", "Decode", "Latency per token", "Throughput", "Latency front"),
    "mfu": (*WORDS["mfu"], "Decode"),
    "measured": (*WORDS["measured"], "Latency per token"),
}
"""Related terms of a decode step, where they differ."""
PREFILL_WORDS = {
    "memory": DECODE_WORDS["memory"],
    "flops": (*WORDS["flops"], "Prefill"),
    "predicted": ("Predicted step", "Exposed and hidden communication", "Prefill", "Time to first token"),
    "mfu": (*WORDS["mfu"], "Prefill"),
    "measured": (*WORDS["measured"], "Time to first token"),
}
"""Related terms of other inference steps, which process many tokens of each sequence at once."""


def related_terms(kind: str, name: str, program: Program) -> list[str]:
    question = name if kind == "figure" else kind
    special = DECODE_WORDS if decoded_sequences(program) else PREFILL_WORDS if carries_cache(program) else {}
    return list(special.get(question, WORDS[question]))
