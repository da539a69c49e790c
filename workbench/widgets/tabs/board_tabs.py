"""The tables and pictures under the board, one tab at a time."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from workbench.core.public_error_text import describe_error
from workbench.errors import PipelineError
from workbench.reports.device_trace import Trace
from workbench.reports.measurement import TaskTime
from workbench.reports.pipeline import PipelineReport
from workbench.reports.report import Report
from workbench.units import format_bytes, format_seconds
from workbench.visualize import timeline
from workbench.visualize.charts.timeline_chart import timeline_chart
from workbench.visualize.step_timeline import timeline_parts
from workbench.widgets.board.background_queries import BackgroundQueries
from workbench.widgets.board.comparison_state import ComparisonState
from workbench.widgets.pipeline.stage_board import pipeline_blocks
from workbench.widgets.tabs.picture_tabs import (
    Views,
    compared_blocks,
    device_blocks,
    graph_blocks,
    memory_blocks,
    step_blocks,
    traffic_blocks,
)
from workbench.widgets.tabs.propagation_tab import Replay, replay_blocks
from workbench.widgets.tabs.resharding_tab import resharding_blocks
from workbench.widgets.tabs.shown_stage import (
    broken_pipeline,
    comparison_of_picked,
    memory_of_stages,
    picture_of_stages,
    shown_stage,
    stages_state,
    traffic_of_stages,
)
from workbench.widgets.tabs.source_context import source_annotation_blocks
from workbench.widgets.tabs.table_blocks import CHOOSE_HARDWARE, RUN, Block, Column, Paint, as_json, block, note_block, picture_block, row
from workbench.widgets.tabs.tensor_table import result_rows, tensor_blocks
from workbench.widgets.tabs.value_table import selected_blocks, value_blocks

FindBlocks = Callable[[Report, BackgroundQueries | None], list[Block]]
"""Makes the tab of the search."""
NO_SEARCH = "This board cannot search for plans."
SEARCHED = ("tensors", "values")
"""Tabs that can be searched."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the tabs show: a report, the results of a compilation and a run, the colours of the mesh axes, the selected path."""

    report: Report
    comparison_state: ComparisonState | None = None
    trace: Trace | None = None
    tasks: tuple[TaskTime, ...] = field(default=(), kw_only=True)  # of a run of this pipeline
    trial: PipelineReport | None = field(default=None, kw_only=True)  # a boundary being dragged
    colours: dict[str, int] = field(default_factory=dict)
    selected: str = ""
    toggled: frozenset[str] = frozenset()  # keys of what the user opened or closed
    views: Views = field(default_factory=Views)
    replay: Replay = field(default_factory=Replay)
    background: BackgroundQueries | None = None  # where slow questions are computed; at once, without it
    is_asked: Callable[[str], bool] = field(default=lambda _name: False, kw_only=True)  # whether a picture's text and SVG are
    find_blocks: FindBlocks = field(default=lambda _report, _background: [note_block(NO_SEARCH)], kw_only=True)
    remedies: bool = field(default=True, kw_only=True)  # whether notes are shown with what would fix them


def table_state(facts: Facts, tab: str, search: str = "") -> dict[str, Any]:
    """The blocks of one tab. `search` filters the tensors and the values; what an unopened tab needs is not computed.

    Views explain how a figure comes about, which the planner knows; the compiler's results are in Compared, and where they stand at the top
    of the board in place of the predicted ones, the view has both.
    """
    paint, report, stage = Paint(facts.colours), facts.report.prediction, facts.views.stage
    blocks: dict[str, Callable[[], list[Block]]] = {
        "tensors": lambda: tensor_blocks(
            report,
            paint,
            search,
            facts.toggled,
            result_rows(report, paint, search.lower().split(), facts.toggled),
            _tensors_of(report, stage),
        ),
        "find": lambda: facts.find_blocks(report, facts.background),
        "devices": lambda: device_blocks(shown_stage(report, stage), facts.selected),
        "communication": lambda: [
            *traffic_of_stages(report, stage),
            *traffic_blocks(shown_stage(report, stage), facts.comparison_state, paint),
        ],
        "resharding": lambda: resharding_blocks(shown_stage(report, stage), facts.comparison_state, paint),
        "memory": lambda: [
            *memory_of_stages(report, stage),
            *memory_blocks(shown_stage(report, stage), facts.comparison_state, facts.views),
        ],
        "step": lambda: step_blocks(shown_stage(report, stage), facts.comparison_state, picture_of_stages(report, stage)),
        "timeline": lambda: _timeline(facts),
        "pipeline": lambda: pipeline_blocks(report, facts.tasks, facts.trial),
        "graph": lambda: [*selected_blocks(report, paint, facts.selected), *graph_blocks(picture_of_stages(report, stage), facts.views)],
        "compared": lambda: compared_blocks(comparison_of_picked(facts.comparison_state, report, stage), paint),
        "values": lambda: value_blocks(report, paint, search),
        "propagation": lambda: replay_blocks(report, paint, facts.replay, facts.background, facts.views.opened),
        "notes": lambda: [*_notes(facts.report, remedies=facts.remedies), *source_annotation_blocks(report, paint)],
    }
    open_tab = tab if tab in blocks else "tensors"
    try:
        shown = [*_settled_note(facts.report, open_tab), *blocks[open_tab]()]
    except PipelineError as error:
        shown = broken_pipeline(error)
    shown = [as_json(each, facts.is_asked) for each in shown]
    picker = stages_state(report, open_tab, stage)
    return {"tab": open_tab, "search": search if open_tab in SEARCHED else None, "stages": picker, "blocks": shown}


def _settled_note(report: Report, tab: str) -> list[Block]:
    """The compiler's figure at the top, and that of a view of the prediction, where they differ."""
    predicted = report.prediction
    if tab == "memory":
        what, top, here = "peak", format_bytes(report.memory.peak), format_bytes(predicted.memory.peak)
    elif tab in ("step", "timeline", "graph") and report.step_time and predicted.step_time:
        what, top, here = "step", format_seconds(report.step_time.total), format_seconds(predicted.step_time.total)
    else:
        return []
    text = f"This view shows the prediction, a {what} of {here}. The {top} at the top of the board come from the compiler."
    return [] if top == here else [note_block(text)]


def _tensors_of(report: Report, stage: int | None) -> Report | None:
    """The report with what a device holds of each tensor; tensors stay where they are if the pipeline cannot be made."""
    try:
        return shown_stage(report, stage)
    except PipelineError:
        return None


def failed_state(tab: str, error: Exception) -> dict[str, Any]:
    """The error message in place of a tab."""
    failure_text = f"This view could not be made: {describe_error(error)}. Other views still work; undo returns to the previous plan."
    return {"tab": tab, "search": None, "stages": None, "blocks": [note_block(failure_text)]}


def _timeline(facts: Facts) -> list[Block]:
    report = picture_of_stages(facts.report.prediction, facts.views.stage)
    if report.step_time is None and facts.trace is None and not facts.tasks:
        return [
            note_block(
                "Choose hardware to see when each kernel and collective of a step would run, or run the plan here.", CHOOSE_HARDWARE, RUN
            )
        ]
    parts = timeline_parts(report, facts.trace, facts.tasks)
    chart = timeline_chart(report, facts.trace, parts)
    return [picture_block(timeline(report, facts.trace, parts), name="timeline", charts=[chart] if chart else [])]


def _notes(report: Report, *, remedies: bool) -> list[Block]:
    if not report.notes:
        return [note_block("No warnings for this plan.")]
    rows = [
        row(
            f"{place} {note.subject}",
            {"text": note.kind, "tone": "warn"},
            {"text": note.message, "wrap": True},
            *([{"edits": [str(edit) for edit in note.edits]}] if remedies else []),
        )
        for place, note in enumerate(report.notes)
    ]
    columns = (Column("kind"), Column("note"), Column("suggested fix"))
    return [block("", columns if remedies else columns[:2], rows)]
