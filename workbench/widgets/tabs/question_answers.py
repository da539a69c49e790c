"""The answers to "Why?": the composition of a figure by operation with its named scope and line, the largest first, and the terms of the
glossary that it is about."""

from collections.abc import Callable, Iterable
from math import prod
from typing import Any

from workbench.core.program import Program, carries_cache, decoded_sequences
from workbench.core.sharding import axis_size, base_axis
from workbench.reports.measurement import Measurement
from workbench.reports.report import Report
from workbench.reports.step_time import StepTime
from workbench.units import format_bytes, format_count, format_seconds
from workbench.widgets.board.background_queries import BackgroundQueries
from workbench.widgets.board.key_figures import ROLES
from workbench.widgets.board.layer_folding import is_named
from workbench.widgets.tabs.communication_tab import exposed_seconds
from workbench.widgets.tabs.shown_stage import shown_stage
from workbench.widgets.tabs.stated_sharding import placed_answer, value_answer
from workbench.widgets.tabs.table_blocks import MOST_ROWS, Block, Column, Contribution, Paint, block, parts_table, row
from workbench.widgets.tabs.tensor_table import shape_text
from workbench.widgets.tabs.why_axis import axis_answer, explain_duplication

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
    """The answer to `figure KEY`, `tensor PATH`, `value PATH`, `axis KIND PLACE AXIS PATH`, `sent AXES KIND`, `collective KIND AXES PATH`.

    `None` if there is none. Of a pipelined plan figures are those of the stage they are of, the others of the picked `stage`.
    """
    kind, _, name = of.partition(" ")
    if kind == "figure":
        found = _FIGURES[name](_stage_of_figure(name, report), paint, measurement) if name in _FIGURES else None
    elif kind == "sent":
        found = _explain_payload(name, shown_stage(report, stage))
    elif kind == "collective":
        found = _explain_collective(name, shown_stage(report, stage), paint)
    elif kind == "axis":
        found = axis_answer(name, report, paint, background)
    elif kind in ("tensor", "value"):
        found = (placed_answer if kind == "tensor" else value_answer)(name, report, paint, background)
    else:
        found = None
    return found and {
        "of": of,
        "title": found[0],
        "lead": list(found[1]),
        "blocks": list(found[2]),
        "words": words_about(kind, name, report.plan.program),
    }


Answer = tuple[str, Iterable[str], Iterable[Block]]


def _stage_of_figure(name: str, report: Report) -> Report:
    """Of a pipelined plan the report of the stage that a key figure is of."""
    if report.is_of_devices:
        return report
    if name == "duplication":
        return report.most(lambda each: each.flops.duplication)
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
    """The tensors that are live at a moment of the step, by default its peak."""
    lines, shades = _scope_lines(report), {role: shade for shade, role in enumerate(ROLES)}
    parts = [
        Contribution(each.path, each.bytes, lines.get(each.path, ""), shades[each.role], (each.role.value,), each.count)
        for each in (report.alive if place is None else report.alive_at(place))
    ]
    where = "live at the peak" if place is None else "live at this moment"
    return parts_table(where, (Column("role"),), parts, format_bytes)


def _explain_payload(name: str, report: Report) -> Answer | None:
    """The collectives over some mesh axes, of one kind or of all."""
    axes, _, kind = name.partition(" ")
    alike = [each for each in report.collectives if "+".join(each.axes) == axes and kind in ("", each.kind)]
    parts = [
        Contribution(each.path, each.total_payload, each.source, 1, (each.kind, format_bytes(each.payload)), each.count) for each in alike
    ]
    if not parts:
        return None
    total = format_bytes(sum(each.total_payload for each in alike))
    lead = [f"Payload over {axes} per step: for each collective the larger of its input and output on one device, times its executions."]
    columns = (Column("collective"), Column("payload", number=True, title="of one execution"))
    return f"Why {total} over {axes}?", lead, [parts_table("scope", columns, parts, format_bytes)]


def _explain_sent(report: Report, paint: Paint, _measurement: Measurement | None) -> Answer:
    parts = [
        Contribution(each.path, each.total_sent, each.source, 1, (each.kind, paint.axes(each.axes)), each.count)
        for each in report.collectives
    ]
    lead = ["Bytes sent per device and step: each collective sends its payload over a ring, times its executions."]
    columns = (Column("collective"), Column("mesh axes"))
    return f"Why {format_bytes(report.sent)} sent?", lead, [parts_table("scope", columns, parts, format_bytes)]


def _explain_flops(report: Report, paint: Paint, _measurement: Measurement | None) -> Answer:
    parts = [
        Contribution(each.path, each.per_device * each.count, each.source, 0, (_flop(each.flops), paint.axes(each.axes)), each.count)
        for each in report.products
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
    parts = [
        Contribution(each.path, each.total_seconds, each.source, _bound_shade(each.bound), (each.bound,), each.count)
        for each in report.kernel_costs
    ]
    lines = _scope_lines(report)
    for (stream, kind, path, _), wait_seconds in exposed_seconds(report).items():
        if wait_seconds > 0:
            parts.append(Contribution(path, wait_seconds, lines.get(path, ""), _EXPOSED, (f"{kind}, {stream}",)))
    lead = [
        (
            f"One step {step.place}: {format_seconds(step.arithmetic)} in compute-bound kernels, "
            f"{format_seconds(step.memory)} in memory-bound kernels, {format_seconds(step.launch)} between kernels, "
            f"{format_seconds(step.exposed)} waiting for other devices{_host_wait_text(step)}. "
            f"{format_seconds(step.hidden)} of communication overlaps with computation.{_idle_text(report, step)}"
        )
    ]
    if sequences := decoded_sequences(report.plan.program):
        lead.append(_decode_text(sequences, step.total))
    columns = (Column("bound by", title="or the exposed collective and its mesh axes"),)
    return f"Why {format_seconds(step.total)} a step?", lead, [parts_table("kernel or wait", columns, parts, format_seconds)]


def _decode_text(sequences: int, seconds: float) -> str:
    """Latency and throughput of a step of decoding."""
    if sequences == 1:
        return f"A step writes one token of one sequence: {format_seconds(seconds)} a token are {1 / seconds:,.0f} tokens a second."
    return (
        f"A step writes a token of each of {sequences:,} sequences: the latency per token is {format_seconds(seconds)}, the throughput "
        f"{sequences:,} / {format_seconds(seconds)} = {sequences / seconds:,.0f} tokens a second."
    )


def _idle_text(report: Report, step: StepTime) -> str:
    return f" For {format_seconds(step.idle)} stage {report.stage} waits for other stages." if report.stage is not None else ""


def _host_wait_text(step: StepTime) -> str:
    return f", {format_seconds(step.host)} waiting for the host to call the next kernel" if step.host else ""


def _explain_mfu(report: Report, paint: Paint, measurement: Measurement | None) -> Answer | None:
    step = report.step_time
    found = _explain_step(report, paint, measurement)
    if step is None or found is None:
        return None
    lead = [
        (
            f"The model needs {_flop(report.flops.model)} in a step; at their peak the {report.flops.devices:,} devices of {step.hardware} "
            f"would take {format_seconds(step.mfu * step.total)} for it, and the step takes {format_seconds(step.total)}."
        ),
        f"With recomputed and duplicated work it is {step.hfu:.1%} (HFU). Parts of the step time:",
    ]
    return f"Why {step.mfu:.1%}?", lead, found[2]


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
    alike = [each for each in report.collectives if each.kind == kind and "+".join(each.axes) == axes and is_named(path, each.path)]
    if not alike:
        return None
    first = alike[0]
    size = prod(axis_size(axis, report.mesh) for axis in first.axes)
    total = sum(each.total_sent for each in alike)
    values = [value for value in report.values if is_named(path, value.path)]
    lead = [
        f"`{path}`" + (f", {first.source}." if first.source else "."),
        f"Along {' and '.join(map(base_axis, first.axes))} ({size} devices) {_WHY_SENT.get(kind, 'values move between devices')}.",
        (
            f"V = {format_bytes(first.payload)} is the larger of input and output on one device; a ring of n = {size} sends "
            f"{_RING.get(kind, 'V (n − 1) / n')} = {format_bytes(first.sent)}, {_times(sum(each.count for each in alike))}."
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
    """The user's line of each scope: the first one."""
    lines: dict[str, str] = {}
    for operation in report.plan.program.operations:
        lines.setdefault(operation.path, operation.source)
    return lines


def _bound_shade(bound: str) -> int:
    return {"memory": _MEMORY, "launch": _LAUNCH}.get(bound, _ARITHMETIC)


def _times(count: int) -> str:
    return "once a step" if count == 1 else f"{count:,} times a step"


def _flop(count: float) -> str:
    return format_count(count, "FLOP")


# The terms of the glossary that an answer to "Why?" is about.

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
"""By what is asked, the terms that the answer is about."""
DECODE_WORDS = {
    "memory": ("Memory per device", "Role", "KV cache", "Batch of sequences"),
    "flops": (*WORDS["flops"], "Decode"),
    "predicted": ("Predicted step", "Decode", "Latency per token", "Throughput", "Latency front"),
    "mfu": (*WORDS["mfu"], "Decode"),
    "measured": (*WORDS["measured"], "Latency per token"),
}
"""Where the program is a step of decoding."""
PREFILL_WORDS = {
    "memory": DECODE_WORDS["memory"],
    "flops": (*WORDS["flops"], "Prefill"),
    "predicted": ("Predicted step", "Exposed and hidden communication", "Prefill", "Time to first token"),
    "mfu": (*WORDS["mfu"], "Prefill"),
    "measured": (*WORDS["measured"], "Time to first token"),
}
"""Where it is another step of inference: many tokens of each sequence at once."""


def words_about(kind: str, name: str, program: Program) -> list[str]:
    """The terms for a figure by its `name`, or for a `kind` of thing that is asked about."""
    asked = name if kind == "figure" else kind
    special = DECODE_WORDS if decoded_sequences(program) else PREFILL_WORDS if carries_cache(program) else {}
    return list(special.get(asked, WORDS[asked]))
