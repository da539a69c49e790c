"""The tabs made of pictures: devices, memory, communication, step, graph, and what the user has opened in them; and the Compared tab."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from workbench.analysis.tier_comparison import Comparison, collectives_table, figures_table
from workbench.core.path_patterns import template
from workbench.core.tensor import Role
from workbench.errors import WorkbenchError
from workbench.reports.device_memory import Alive
from workbench.reports.kernel import Kernel
from workbench.reports.placement import Placement
from workbench.reports.report import Report
from workbench.units import format_bytes, format_count, format_seconds
from workbench.visualize import communication, device_grid, graph, memory_map, memory_over_step, roofline, step_time
from workbench.visualize.charts.memory_chart import memory_charts
from workbench.visualize.charts.roofline_chart import roofline_chart
from workbench.visualize.draw.collapse_scopes import choose_open_scopes, scopes_of
from workbench.visualize.graph import shown_graph
from workbench.widgets.board.comparison_state import ComparisonState
from workbench.widgets.board.key_figures import ROLES, memory_parts
from workbench.widgets.gestures.view_gestures import ExpandGesture, MomentGesture
from workbench.widgets.tabs.communication_tab import collectives_source_text, communication_blocks
from workbench.widgets.tabs.shown_stage import comparison_of, picture_of_stages, shown_stage
from workbench.widgets.tabs.table_blocks import (
    CHOOSE_HARDWARE,
    COMPILE,
    RUN,
    Block,
    Column,
    Opens,
    Paint,
    Row,
    block,
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
MOST_ALIVE = 24
MOST_KERNELS = 40
NO_HARDWARE = "Choose hardware to see what a step takes there: its parts, the roofline, and the largest kernels."


@dataclass(frozen=True, slots=True)
class Views:
    """What was opened in the pictures: scopes of the graph (`None`: those open at first), a moment of the step (`None`: its peak), and the
    stage of a pipeline (`None`: all)."""

    opened: frozenset[str] | None = None
    place: int | None = None
    stage: int | None = None

    def at(self, place_text: str, report: Report) -> "Views":
        """Show a moment of the step, or its peak again. Raises `WorkbenchError` for one that does not exist."""
        place = _place(place_text, shown_stage(report, self.stage))
        return replace(self, place=None if place == self.place else place)

    def toggle_scope(self, scope: str, report: Report) -> "Views":
        """Open or close a scope. Raises `WorkbenchError` for one that does not exist."""
        graph = shown_graph(picture_of_stages(report, self.stage))
        if scope not in scopes_of(graph):
            raise WorkbenchError(f"The graph has no scope `{scope[:80]}`.", ["open a scope of the graph"])
        return replace(self, opened=(choose_open_scopes(graph) if self.opened is None else self.opened) ^ {scope})

    def of_stage(self, stage_text: str, report: Report) -> "Views":
        """Show one stage, or all with an empty text. Raises `WorkbenchError` for one that does not exist."""
        if not stage_text:
            return replace(self, stage=None, place=None, opened=None)
        count = 0 if report.is_of_devices else len(report.stages)
        if not stage_text[:6].isdecimal() or len(stage_text) > 6 or int(stage_text) >= count:
            raise WorkbenchError(f"The plan has no stage `{stage_text[:40]}`; it has {count}.", ["pick one of the stages shown"])
        return replace(self, stage=int(stage_text), place=None, opened=None)

    def place_in(self, report: Report) -> int | None:
        """The moment, if the step of this report has it."""
        return self.place if self.place is not None and self.place < len(report.memory_curve.paths) else None


def _place(text: str, report: Report) -> int:
    count = len(report.memory_curve.paths)
    if not text[:12].isdecimal() or len(text) > 12 or int(text) >= count:
        raise WorkbenchError(f"The step has no place `{text[:40]}`; it has {count}.", ["click on the chart"])
    return int(text)


def device_blocks(report: Report, selected: str = "") -> list[Block]:
    """The part of the selected argument that each device holds; of the largest sharded one, if none is selected."""
    if not report.arguments:
        return [note_block("The program takes no arguments.")]
    placed = _argument(report, selected)
    note = "" if _is_selected(placed, selected) else "The largest sharded argument. Select a tensor to see another."
    return [
        picture_block(device_grid(placed, report.plan.hardware, report.plan.axis_assignment), note, name=f"devices {placed.tensor.path}")
    ]


def _is_selected(placed: Placement, selected: str) -> bool:
    return selected in (placed.tensor.path, template(placed.tensor.path))


def _argument(report: Report, selected: str) -> Placement:
    named = next((placed for placed in report.arguments if _is_selected(placed, selected)), None)
    if named is not None:
        return named
    state = (Role.OPTIMIZER_STATE,)
    return max(report.arguments, key=lambda each: (bool(each.sharding.axes), each.tensor.role not in state, each.tensor.elements))


def traffic_blocks(report: Report, comparison_state: ComparisonState | None, paint: Paint) -> list[Block]:
    """Bytes sent: as a picture, by axis and kind, by operation, and beside the compiled ones."""
    tables = communication_blocks(report, paint)
    if not report.collectives:
        return tables
    comparison = _current_comparison(comparison_of(comparison_state, report))
    beside = [table_block(collectives_table(comparison), paint, MOST_DIFFERENCES)] if comparison and comparison.collectives else []
    return [picture_block(communication(report), collectives_source_text(report), name="communication"), *beside, *tables]


def memory_blocks(report: Report, comparison_state: ComparisonState | None, views: Views) -> list[Block]:
    """Memory over the step, what is alive at its peak or at the moment that was clicked, and the peak by role, beside other tiers."""
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
        _alive(report, place),
        _roles(report),
    ]


def _alive(report: Report, place: int | None) -> Block:
    alive: tuple[Alive, ...] = report.alive if place is None else report.alive_at(place)
    held = sum(each.bytes for each in alive) or 1
    where = "live at the peak" if place is None else "live at this moment"
    columns = (Column(where), Column("role"), Column("share"), Column("per device", number=True))
    places = {role: number for number, role in enumerate(ROLES)}
    rows = [
        row(
            f"{each.path} {each.role}",
            {"path": each.path, "count": f"×{each.count}" if each.count > 1 else ""},
            {"text": each.role.value, "tone": "muted"},
            {"share": round(min(each.bytes / held, 1.0), 6), "shade": places[each.role], "text": f"{each.bytes / held:.1%}"},
            {"text": format_bytes(each.bytes), "title": f"{each.bytes:,} bytes"},
            subject=each.path,
        )
        for each in alive[:MOST_ALIVE]
    ]
    return block("", columns, rows, rest_text(len(alive), MOST_ALIVE))


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


def step_blocks(report: Report, comparison_state: ComparisonState | None, whole: Report | None = None) -> list[Block]:
    """The step as a bar of its parts, the figures of each tier, the roofline, and the kernels that take longest. `whole` is the report that
    the bars are of: for a pipeline a bar for each of its stages."""
    current = _current_comparison(comparison_state)
    comparison = _current_comparison(comparison_of(comparison_state, report))
    if report.step_time is None and comparison is None:
        return [note_block(NO_HARDWARE, CHOOSE_HARDWARE)]
    blocks = [picture_block(step_time(whole or report, current), name="step time"), *_figure_blocks(comparison, ("seconds", "FLOP"))]
    if report.step_time is None:
        return [*blocks, note_block(NO_HARDWARE, CHOOSE_HARDWARE)]
    chart = roofline_chart(report)
    return [*blocks, picture_block(roofline(report), name="roofline", charts=[chart] if chart else []), _kernels(report, comparison)]


def _kernels(report: Report, comparison: Comparison | None) -> Block:
    """Kernels of one scope, line and bound together; beside them the compiler's estimate for that scope."""
    groups: dict[tuple[str, str, str], list[Kernel]] = {}
    for each in report.kernel_costs:
        groups.setdefault((template(each.path), each.source, each.bound), []).append(each)
    whole = sum(each.total_seconds for each in report.kernel_costs) or 1.0
    ranked = sorted(groups.values(), key=lambda group: -sum(each.total_seconds for each in group))
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
    first, seconds = group[0], sum(each.total_seconds for each in group)
    path = template(first.path) if len({each.path for each in group}) > 1 else first.path
    work, moved = (sum(each.count * count for each, count in zip(group, counts, strict=True)) for counts in _counts(group))
    beside = [seconds_cell(compiled.get(template(first.path), 0.0))] if compiled else []
    return row(
        f"{path} {first.source} {first.bound}",
        {"path": path},
        f"{sum(each.count for each in group):,}",
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
    return [each.work for each in group], [each.bytes for each in group]


def _compiled_seconds(comparison: Comparison | None) -> dict[str, float]:
    """By scope and name, the kernels for which the compiler gave a time."""
    found: dict[str, float] = {}
    for each in comparison.compiled.kernels if comparison and comparison.compiled else ():
        if each.seconds is not None:
            found[template(each.path)] = found.get(template(each.path), 0.0) + each.seconds * each.count
    return found


def graph_blocks(report: Report, views: Views) -> list[Block]:
    """The graph of the step, its scopes opened level by level."""
    if not report.graph.nodes:
        return [note_block("The program has no operations.")]
    return [picture_block(graph(report, views.opened), name="graph", opens=Opens(ExpandGesture, "scope"))]


def _current_comparison(comparison_state: ComparisonState | None) -> Comparison | None:
    """What was compiled or measured for the present plan."""
    return comparison_state.comparison if comparison_state and not comparison_state.stale else None


def _figure_blocks(comparison: Comparison | None, units: tuple[str, ...]) -> list[Block]:
    """The figures of these units as predicted, compiled and measured."""
    found = figures_table(comparison, units) if comparison else None
    return [table_block(found, Paint({}), MOST_DIFFERENCES)] if found and found.rows else []


def compared_blocks(comparison_state: ComparisonState | None, paint: Paint) -> list[Block]:
    if comparison_state is None:
        return [note_block(NOTHING_COMPARED, COMPILE, RUN)]
    comparison = comparison_state.comparison
    stale = [note_block(f"Of the plan before the last edits: {comparison.report.plan}")] if comparison_state.stale else []
    return [*stale, *page_blocks(comparison.page(), paint, MOST_DIFFERENCES)]
