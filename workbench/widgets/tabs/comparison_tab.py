"""The Compared tab: figures of each tier side by side, collectives by mesh axes, and every difference with its cause."""

from collections.abc import Collection

from workbench.analysis.collective_causes import ALL_CAUSES, Cause
from workbench.analysis.collective_differences import Difference
from workbench.analysis.compared_figures import ComparedFigure
from workbench.analysis.kernel_differences import KERNEL_CAUSES
from workbench.analysis.memory_differences import MEMORY_CAUSES
from workbench.analysis.tier_comparison import Comparison
from workbench.analysis.time_causes import TIME_CAUSES
from workbench.core.text_tables import group_items
from workbench.units import format_figure
from workbench.widgets.board.comparison_state import ComparisonState
from workbench.widgets.tabs.blocks import Block, Cell, Column, Paint, Row, block, byte_cell, note_block, rest_text, row, seconds_cell
from workbench.widgets.tabs.communication import collectives_block

MOST_DIFFERENCES = 100
NOTHING = (
    "Nothing of this plan is compiled or measured yet. Once it is, what XLA makes of it and what a run measures stand here beside the "
    "prediction: memory, kernels and collectives, and why they differ."
)
UNITS = ("bytes", "seconds", "FLOP")


def compared_blocks(comparison_state: ComparisonState | None, paint: Paint) -> list[Block]:
    if comparison_state is None:
        return [note_block(NOTHING)]
    comparison = comparison_state.comparison
    blocks = [
        figures_block(comparison),
        *_stages(comparison),
        *_memory(comparison),
        *_kernels(comparison),
        *_time_causes(comparison),
        collectives_block(comparison, paint),
        *_differences(comparison, paint),
    ]
    if comparison_state.stale:
        blocks.insert(0, note_block(f"Of the plan before the last edits: {comparison.report.plan}"))
    return [each for each in blocks if each["rows"] or each["note"]]


def figures_block(comparison: Comparison, units: Collection[str] = UNITS) -> Block:
    """The figures of these units in each tier that has them."""
    tiers = ("predicted", "compiled", "measured")
    columns = (Column("per device"), *(Column(each, number=True) for each in tiers), Column("prediction is", number=True))
    rows = [
        row(
            each.name,
            each.name,
            *(_figure_cell(each, value) for value in (each.predicted, each.compiled, each.measured)),
            _error(each),
        )
        for each in comparison.figures
        if each.unit in units
    ]
    return block(_title(comparison), columns, rows)


def _stages(comparison: Comparison) -> list[Block]:
    """A row per stage of a pipeline, its prediction beside its compiled record."""
    names = ("peak, predicted", "as one program", "compiled", "held, predicted", "compiled", "sent inside, predicted", "compiled")
    rows = [
        row(
            f"stage {each.stage}",
            f"stage {each.stage}",
            *map(byte_cell, (each.peak, each.as_one, each.compiled.memory.peak, each.held, each.compiled.memory.arguments)),
            *map(byte_cell, (each.payload, each.compiled_payload)),
        )
        for each in comparison.stages
    ]
    return [block("Stage by stage, on one device of each", (Column("stage"), *(Column(name, number=True) for name in names)), rows)]


def _title(comparison: Comparison) -> str:
    compiled, measured = comparison.compiled, comparison.measurement
    tiers = ["Predicted"]
    if compiled is not None:
        tiers.append(f"compiled for {compiled.target}" + (f" by {compiled.compiler}" if compiled.compiler else ""))
    if measured is not None:
        tiers.append(f"measured on {measured.devices} × {measured.device_kind}")
    return ", ".join(tiers)


def _figure_cell(figure: ComparedFigure, value: float | None) -> Cell:
    if value is None:
        return {"text": "–", "tone": "muted"}
    exact = f"{value:.4g}" if figure.unit == "seconds" else f"{value:,.0f}"
    return {"text": format_figure(value, figure.unit), "title": f"{exact} {figure.unit}"}


def _error(figure: ComparedFigure) -> Cell:
    return {"text": figure.verdict, "tone": "good" if abs(figure.error) < 0.05 else "warn"} if figure.error is not None else ""


def _memory(comparison: Comparison) -> list[Block]:
    found = comparison.memory_differences
    if not found:
        return []
    columns = (Column("cause"), Column("scope"), Column("predicted", number=True), Column("compiled", number=True))
    rows = [
        row(
            f"{each.cause.name} {each.scope}",
            {"text": each.cause.name, "title": each.cause.text, "tone": "warn"},
            {"path": each.scope or "–"},
            byte_cell(each.predicted),
            byte_cell(each.compiled),
        )
        for each in found
    ]
    return [block("Where the peaks differ, and why", columns, rows), _legend(MEMORY_CAUSES, {each.cause for each in found})]


def _kernels(comparison: Comparison) -> list[Block]:
    found = comparison.kernel_differences
    if not found:
        return []
    columns = (Column("cause"), Column("scope"), Column("work"), Column("predicted", number=True), Column("compiled", number=True))
    rows = [
        row(
            f"{each.cause.name} {each.scope} {each.work}",
            {"text": each.cause.name, "title": each.cause.text, "tone": "warn"},
            {"path": each.scope or "–"},
            {"text": each.work, "tone": "muted"},
            seconds_cell(each.predicted),
            seconds_cell(each.compiled),
        )
        for each in found
    ]
    return [block("Where the kernels differ, and why", columns, rows), _legend(KERNEL_CAUSES, {each.cause for each in found})]


def _time_causes(comparison: Comparison) -> list[Block]:
    found = comparison.time_causes
    if not found:
        return []
    columns = (Column("cause"), Column("of the predicted step", number=True))
    rows = [
        row(each.cause.name, {"text": each.cause.name, "title": each.cause.text, "tone": "warn"}, seconds_cell(each.seconds))
        for each in found
    ]
    return [block("What the predicted step rests on", columns, rows), _legend(TIME_CAUSES, {each.cause for each in found})]


def _legend(known: tuple[Cause, ...], named: set[Cause]) -> Block:
    rows = [
        row(cause.name, {"text": cause.name, "tone": "strong"}, {"text": f"{cause.text}.", "wrap": True})
        for cause in known
        if cause in named
    ]
    return block("What the causes mean", (Column("cause"), Column("what happens")), rows)


def _differences(comparison: Comparison, paint: Paint) -> list[Block]:
    if comparison.compiled is None or comparison.stages:
        return []
    found = comparison.differences
    if not found:
        return [note_block("The compiled program sends what the plan says, collective by collective.")]
    groups = group_items(found, lambda each: (each.cause, each.axes, each.kind, each.path, each.source))
    columns = (
        Column("cause"),
        Column("mesh axes"),
        Column("class"),
        Column("predicted", number=True),
        Column("compiled", number=True),
        Column("scope"),
        Column("line"),
    )
    rows = [_difference_row(group, paint) for group in groups[:MOST_DIFFERENCES]]
    return [
        block("Where they differ, and why", columns, rows, rest_text(len(groups), MOST_DIFFERENCES)),
        _legend(ALL_CAUSES, {each.cause for each in found}),
    ]


def _difference_row(group: list[Difference], paint: Paint) -> Row:
    first = group[0]
    predicted, compiled = sum(each.predicted for each in group), sum(each.compiled for each in group)
    same = predicted == compiled
    return row(
        f"{first.cause.name} {first.axes} {first.kind} {first.path} {first.source}",
        {"text": first.cause.name, "title": first.cause.text, "tone": "" if same else "warn"},
        paint.axes(first.axes),
        first.kind,
        byte_cell(predicted),
        byte_cell(compiled),
        {"path": first.path, "count": f"×{len(group)}" if len(group) > 1 else ""},
        {"text": first.source, "tone": "muted"},
    )
