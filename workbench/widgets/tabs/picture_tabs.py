"""Sections made of pictures: Overview, devices, memory, communication, step, graph, and Compared."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from workbench.analysis.tier_comparison import Comparison, collectives_table, figures_table
from workbench.core.path_patterns import template
from workbench.core.tensor import Role
from workbench.reports.kernel import Kernel
from workbench.reports.placement import Placement
from workbench.reports.report import Report
from workbench.units import format_bytes, format_count, format_seconds
from workbench.visualize import communication, device_grid, graph, memory_map, memory_over_step, roofline, step_time
from workbench.visualize.charts.memory_chart import memory_charts
from workbench.visualize.charts.roofline_chart import roofline_chart
from workbench.widgets.board.comparison_state import ComparisonState
from workbench.widgets.board.key_figures import figures, memory_parts
from workbench.widgets.gestures.view_gestures import ExpandGesture, MomentGesture
from workbench.widgets.tabs.communication_tab import collectives_source_text, communication_blocks
from workbench.widgets.tabs.question_answers import live_table, why
from workbench.widgets.tabs.shown_stage import Views, comparison_of
from workbench.widgets.tabs.table_blocks import (
    CHOOSE_HARDWARE,
    COMPILE,
    RUN,
    Block,
    Column,
    Control,
    Opens,
    Paint,
    Row,
    block,
    byte_cell,
    note_block,
    page_blocks,
    picture_block,
    rest_text,
    row,
    seconds_cell,
    table_block,
)

MOST_DIFFERENCES = 100
NOTHING_COMPARED = (
    "This plan is neither compiled nor measured yet. Afterwards this view compares XLA's program and the measurement with the "
    "prediction: memory, kernels, collectives, and the causes of differences."
)
MOST_KERNELS = 40
NO_HARDWARE = [note_block("Choose hardware to see the step time: its parts, the roofline, and the largest kernels.", CHOOSE_HARDWARE)]


def device_blocks(report: Report, selected: str = "") -> list[Block]:
    """Draw the shard of the selected argument on each device, by default of the largest sharded one, with a tensor picker."""
    if not report.arguments:
        return [note_block("The program takes no arguments.")]
    placed = _argument(report, selected)
    note = "" if _is_selected(placed, selected) else "The largest sharded argument. Select a tensor to see another."
    picture = device_grid(placed, report.plan.hardware, report.plan.axis_assignment)
    picker = _tensor_picker(report.arguments, placed)
    return [{**picture_block(picture, note, name=f"devices {placed.tensor.path}"), "picker": picker}]


def _tensor_picker(arguments: Sequence[Placement], shown: Placement) -> dict[str, Any]:
    """One option for the arguments of all layers, with the shown one as its value."""
    options = {template(placed.tensor.path): placed for placed in reversed(arguments)} | {template(shown.tensor.path): shown}
    named = [(name, options[name]) for name in dict.fromkeys(template(placed.tensor.path) for placed in arguments)]
    return {
        "options": [{"value": placed.tensor.path, "label": f"{name} {placed.sharding}"} for name, placed in named],
        "chosen": shown.tensor.path,
    }


def _is_selected(placed: Placement, selected: str) -> bool:
    return selected in (placed.tensor.path, template(placed.tensor.path))


def _argument(report: Report, selected: str) -> Placement:
    named = next((placed for placed in report.arguments if _is_selected(placed, selected)), None)
    if named is not None:
        return named
    state = (Role.OPTIMIZER_STATE,)
    return max(report.arguments, key=lambda placed: (bool(placed.sharding.axes), placed.tensor.role not in state, placed.tensor.elements))


def traffic_blocks(report: Report, comparison_state: ComparisonState | None, paint: Paint) -> list[Block]:
    """Return bytes sent as a picture, by axis and kind, by operation, and compared with compiled ones."""
    tables = communication_blocks(report, paint)
    if not report.collectives:
        return tables
    comparison = _current_comparison(comparison_of(comparison_state, report))
    beside = [table_block(collectives_table(comparison), paint, MOST_DIFFERENCES)] if comparison and comparison.collectives else []
    return [picture_block(communication(report), collectives_source_text(report), name="communication"), *beside, *tables]


def memory_blocks(report: Report, comparison_state: ComparisonState | None, views: Views) -> list[Block]:
    """Return memory over the step, live tensors at the selected moment, and the peak by role."""
    comparison = _current_comparison(comparison_of(comparison_state, report))
    beside = _figure_blocks(comparison, ("bytes",))
    if not report.memory_curve.paths:
        return [_roles(report), *beside]
    place = views.place_in(report)
    compiled = comparison.compiled if comparison else None
    over = memory_over_step(report, compiled, listed=0, chosen=place)
    charts = memory_charts(report, compiled, place)
    hint = "Click a moment of the step to list its live tensors." if place is None else "Click it again to return to the peak."
    return [
        picture_block(over, hint, name="memory over the step", opens=Opens(MomentGesture, "place"), charts=charts),
        picture_block(memory_map(report, place), name="memory map"),
        *beside,
        live_table(report, place),
        _roles(report),
    ]


def _roles(report: Report) -> Block:
    columns = (Column("role"), Column("share of the peak"), Column("per device", number=True), Column("bytes", number=True))
    counts = {role.value: count for role, count in report.memory.by_role.items()}
    rows = [
        row(
            part["role"],
            part["role"],
            {"share": part["share"], "shade": part["shade"], "text": f"{part['share']:.1%}"},
            part["text"],
            {"text": f"{counts[part['role']]:,}", "tone": "muted"},
        )
        for part in memory_parts(report)
    ]
    rows.append(
        row("peak", {"text": "peak of the step", "tone": "strong"}, "", format_bytes(report.memory.peak), f"{report.memory.peak:,}")
    )
    traffic = f"One device reads and writes {format_bytes(report.traffic)} of device memory per step."
    if report.memory.host:
        host_text = format_bytes(report.memory.host)
        traffic += f" It keeps {host_text} in the host's memory, and moves {format_bytes(report.host_traffic)} there and back."
    return block("By role, at the peak", columns, rows, traffic)


def step_blocks(report: Report, comparison_state: ComparisonState | None, whole: Report) -> list[Block]:
    """Return the step as a bar of its parts, and the figures of each tier; `whole` has a bar for each pipeline stage."""
    comparison = _current_comparison(comparison_of(comparison_state, report))
    missing = [] if report.step_time else NO_HARDWARE
    if missing and comparison is None:
        return missing
    bars = picture_block(step_time(whole, _current_comparison(comparison_state)), name="step time")
    return [bars, *_figure_blocks(comparison, ("seconds", "FLOP")), *missing]


def roofline_blocks(report: Report) -> list[Block]:
    if report.step_time is None:
        return NO_HARDWARE
    chart = roofline_chart(report)
    return [picture_block(roofline(report), name="roofline", charts=[chart] if chart else [])]


def kernel_blocks(report: Report, comparison_state: ComparisonState | None) -> list[Block]:
    comparison = _current_comparison(comparison_of(comparison_state, report))
    return [_kernels(report, comparison)] if report.step_time else NO_HARDWARE


def _kernels(report: Report, comparison: Comparison | None) -> Block:
    groups: dict[tuple[str, str, str], list[Kernel]] = {}
    for kernel in report.kernel_costs:
        groups.setdefault((template(kernel.path), kernel.source, kernel.bound), []).append(kernel)
    whole = sum(kernel.total_seconds for kernel in report.kernel_costs) or 1.0
    ranked = sorted(groups.values(), key=lambda group: -sum(kernel.total_seconds for kernel in group))
    compiled = _compiled_seconds(comparison)
    columns = (
        Column("kernel"),
        Column("times", number=True, title="executions a step"),
        Column("a step", number=True, title="seconds of all executions, predicted"),
        *(
            [Column("compiled", number=True, title="by the compiler's own estimate, all kernels of this scope and name")]
            if compiled
            else []
        ),
        Column("share", title="of total kernel time"),
        Column("FLOP", number=True, title="a step, on one device"),
        Column("bytes", number=True, title="read and written a step, on one device"),
        Column("FLOP/byte", number=True),
        Column("bound by"),
        Column("line"),
    )
    rows = [_kernel_row(group, whole, compiled) for group in ranked[:MOST_KERNELS]]
    return block("Kernels, longest first", columns, rows, rest_text(len(ranked), MOST_KERNELS))


def _kernel_row(group: list[Kernel], whole: float, compiled: Mapping[str, float]) -> Row:
    first, seconds = group[0], sum(kernel.total_seconds for kernel in group)
    path = template(first.path) if len({kernel.path for kernel in group}) > 1 else first.path
    work, moved = (sum(kernel.count * count for kernel, count in zip(group, counts, strict=True)) for counts in _counts(group))
    beside = [seconds_cell(compiled.get(template(first.path), 0.0))] if compiled else []
    return row(
        f"{path} {first.source} {first.bound}",
        {"path": path},
        f"{sum(kernel.count for kernel in group):,}",
        {"text": format_seconds(seconds), "title": f"{seconds:.3e} s"},
        *beside,
        {"share": round(seconds / whole, 6), "shade": 0, "text": f"{seconds / whole:.1%}"},
        {"text": format_count(work) if work else "–", "title": f"{work:,} FLOP"},
        {"text": format_bytes(moved), "title": f"{moved:,} bytes"},
        f"{work / moved:.3g}" if moved else "–",
        {"text": first.bound, "tone": "muted"},
        {"text": first.source, "tone": "muted"},
        subject=path,
    )


def _counts(group: list[Kernel]) -> tuple[list[int], list[int]]:
    return [kernel.work for kernel in group], [kernel.bytes for kernel in group]


def _compiled_seconds(comparison: Comparison | None) -> dict[str, float]:
    seconds: dict[str, float] = {}
    for kernel in comparison.compiled.kernels if comparison and comparison.compiled else ():
        if kernel.seconds is not None:
            seconds[template(kernel.path)] = seconds.get(template(kernel.path), 0.0) + kernel.seconds * kernel.count
    return seconds


def graph_blocks(report: Report, views: Views) -> list[Block]:
    if not report.graph.nodes:
        return [note_block("The program has no operations.")]
    return [picture_block(graph(report, views.opened), name="graph", opens=Opens(ExpandGesture, "scope"))]


def _current_comparison(comparison_state: ComparisonState | None) -> Comparison | None:
    return comparison_state.comparison if comparison_state and not comparison_state.stale else None


def _figure_blocks(comparison: Comparison | None, units: tuple[str, ...]) -> list[Block]:
    table = figures_table(comparison, units) if comparison else None
    return [table_block(table, Paint({}), MOST_DIFFERENCES)] if table and table.rows else []


def compared_blocks(comparison_state: ComparisonState | None, paint: Paint) -> list[Block]:
    if comparison_state is None:
        return [note_block(NOTHING_COMPARED, COMPILE, RUN)]
    comparison = comparison_state.comparison
    stale = [note_block(f"Before the last edits (another plan): {comparison.report.plan}")] if comparison_state.stale else []
    return [*stale, *page_blocks(comparison.page(), paint, MOST_DIFFERENCES)]


# The Overview: memory, time and communication of one device side by side, the largest contributors, and links to the views.

FEW = 6
WIDTH, HEIGHT = 348, 222  # pixels of the treemap, in the narrowest column


def overview_blocks(report: Report, paint: Paint) -> list[Block]:
    """Return two blocks each for memory, time and communication of one device: the parts, and the largest contributors."""
    tiles = picture_block(memory_map(report, size=(WIDTH, HEIGHT)), name="memory overview")
    time = _times(report) if report.step_time else note_block("Choose hardware to see the step time.", CHOOSE_HARDWARE)
    sent = _sent(report, paint) if report.collectives else note_block("No collective: every operation is local.")
    parts = (
        ("memory", "Memory", "figure memory", tiles if report.alive else note_block("No tensor is live.")),
        ("time", "Time", "figure predicted", time),
        ("communication", "Communication", "figure sent", sent),
    )
    blocks = []
    for view, label, question, summary in parts:
        largest = why(question, report, paint)
        blocks += [{**summary, "title": label}, _largest(largest["blocks"] if largest else (), Control(f"Open {label}", f"view-{view}"))]
    return blocks


def _largest(answer: Iterable[Block], opens: Control) -> Block:
    """Return the first rows of an answer to `Why?` (path, share, amount), with a button that opens the view."""
    largest = next((table for table in answer if table["rows"]), block("", (), []))
    counts = Counter(table_row["cells"][2]["path"] for table_row in largest["rows"][:FEW])
    rows = [
        {**table_row, "cells": _named(_in_order(table_row["cells"]), counts, table_row["cells"][3])} for table_row in largest["rows"][:FEW]
    ]
    note = f"The {FEW} largest." if len(largest["rows"]) > FEW else " "
    return {**largest, "columns": _in_order(largest["columns"]), "rows": rows, "note": note, "controls": note_block("", opens)["controls"]}


def _named(cells: list[Any], counts: Mapping[str, int], note: str) -> list[Any]:
    """Append the note, such as a tensor's role, to a path that several rows have."""
    path = cells[0]["path"]
    name = f"{path} ({note})" if counts[path] > 1 and note else path
    return [{**cells[0], "path": name, "title": name}, *cells[1:]]


def _in_order(entries: list[Any]) -> list[Any]:
    return [*entries[2:3], *entries[:2]]


def _times(report: Report) -> Block:
    figure = next(candidate for candidate in figures(report) if candidate.key == "predicted")
    rows = [
        row(
            part["role"],
            part["role"],
            {"share": part["share"], "shade": part["shade"], "text": f"{part['share']:.1%}"},
            {"text": part["text"], "title": part["title"]},
        )
        for part in (*figure.parts, *filter(None, [figure.apart]))
    ]
    return block("", (Column("of a step"), Column("share"), Column("time", number=True)), rows)


def _sent(report: Report, paint: Paint) -> Block:
    sent: Counter[tuple[str, ...]] = Counter()
    seconds: dict[tuple[str, ...], float] = defaultdict(float)
    for collective in report.collectives:
        sent[collective.axes] += collective.total_sent
        seconds[collective.axes] += collective.seconds * collective.count
    timed = report.step_time is not None
    total = report.sent or 1
    rows = [
        row(
            "+".join(axes),
            paint.axes(axes),
            {"share": round(count / total, 6), "shade": 1, "text": f"{count / total:.1%}"},
            byte_cell(count),
            *([seconds_cell(seconds[axes])] * timed),
        )
        for axes, count in sent.most_common()
    ]
    columns = (Column("mesh axes"), Column("share"), Column("sent a step", number=True), *([Column("time a step", number=True)] * timed))
    return block("", columns, rows, f"{format_bytes(report.sent)} sent per device and step.")
