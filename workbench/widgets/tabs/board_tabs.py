"""The tables and pictures under the board, one section of a view at a time."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from workbench.core.public_error_text import describe_error
from workbench.errors import PipelineError
from workbench.reports.device_trace import Trace
from workbench.reports.measurement import TaskTime
from workbench.reports.pipeline import PipelineReport
from workbench.reports.report import Report
from workbench.units import format_bytes, format_seconds
from workbench.visualize import timeline
from workbench.visualize.charts.timeline_chart import timeline_chart, timeline_parts
from workbench.widgets.board.background_queries import BackgroundQueries
from workbench.widgets.board.comparison_state import ComparisonState
from workbench.widgets.pipeline.stage_board import pipeline_blocks
from workbench.widgets.shared_states import SharedList
from workbench.widgets.tabs.picture_tabs import (
    compared_blocks,
    device_blocks,
    graph_blocks,
    kernel_blocks,
    memory_blocks,
    overview_blocks,
    roofline_blocks,
    step_blocks,
    traffic_blocks,
)
from workbench.widgets.tabs.propagation_tab import Replay, replay_blocks
from workbench.widgets.tabs.resharding_tab import resharding_blocks
from workbench.widgets.tabs.shown_stage import (
    Views,
    comparison_of_stage,
    memory_of_stages,
    picture_of_stages,
    pipeline_error_blocks,
    shown_stage,
    stages_state,
    traffic_of_stages,
)
from workbench.widgets.tabs.source_context import source_annotation_blocks
from workbench.widgets.tabs.table_blocks import CHOOSE_HARDWARE, RUN, Block, Column, Paint, as_json, block, note_block, picture_block, row
from workbench.widgets.tabs.tensor_table import result_rows, tensor_blocks
from workbench.widgets.tabs.value_table import selected_blocks, value_blocks

FindBlocks = Callable[[Report, BackgroundQueries | None], list[Block]]
"""Builds the search tab."""
NO_SEARCH = "This board cannot search for plans."
VIEWS = (("overview", "Overview"), ("memory", "Memory"), ("time", "Time"), ("communication", "Communication"), ("program", "Program"))
"""Views of the board, each with one or more sections."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Data of the tabs: a report, compiled and run results, mesh axis colours, the selected path."""

    report: Report
    comparison_state: ComparisonState | None = None
    trace: Trace | None = None
    tasks: tuple[TaskTime, ...] = field(default=(), kw_only=True)  # measured tasks of this pipeline
    trial: PipelineReport | None = field(default=None, kw_only=True)  # a boundary being dragged
    colours: dict[str, int] = field(default_factory=dict)
    selected: str = ""
    toggled: frozenset[str] = frozenset()  # keys of rows opened or closed by the user
    views: Views = field(default_factory=Views)
    replay: Replay = field(default_factory=Replay)
    background: BackgroundQueries | None = None  # computes slow questions; without it they are computed at once
    is_asked: Callable[[str], bool] = field(default=lambda _name: False, kw_only=True)  # whether a picture's text and SVG are requested
    find_blocks: FindBlocks = field(default=lambda _report, _background: [note_block(NO_SEARCH)], kw_only=True)
    remedies: bool = field(default=True, kw_only=True)  # whether notes are shown with suggested fixes
    search: str = field(default="", kw_only=True)

    @property
    def paint(self) -> Paint:
        return Paint(self.colours)

    @property
    def predicted(self) -> Report:
        """The report with the planner's figures."""
        return self.report.prediction

    @property
    def shown(self) -> Report:
        """The report of one device: of the selected stage, else of the fullest."""
        return shown_stage(self.predicted, self.views.stage)

    @property
    def of_stages(self) -> Report:
        """The report for a picture of all stages, or of the selected one."""
        return picture_of_stages(self.predicted, self.views.stage)


@dataclass(frozen=True, slots=True)
class Section:
    """A section of a view: its key in gestures and links, its label, and the function that builds its blocks.

    A shared section depends only on the report and on what is opened in it. `predicts` names the figures that it
    explains as planned.
    """

    key: str
    label: str
    view: str
    blocks: Callable[[Facts], list[Block]]
    is_shared: bool = True
    has_stages: bool = False  # whether one pipeline stage can be selected
    is_searched: bool = False
    predicts: tuple[str, ...] = ()


def _tensors(facts: Facts) -> list[Block]:
    report = facts.predicted
    results = result_rows(report, facts.paint, facts.search.lower().split(), facts.toggled)
    try:
        shown = facts.shown
    except PipelineError:
        shown = None
    return tensor_blocks(report, facts.paint, facts.search, facts.toggled, results, shown)


def _communication(facts: Facts) -> list[Block]:
    return [*traffic_of_stages(facts.predicted, facts.views.stage), *traffic_blocks(facts.shown, facts.comparison_state, facts.paint)]


def _memory(facts: Facts) -> list[Block]:
    return [*memory_of_stages(facts.predicted, facts.views.stage), *memory_blocks(facts.shown, facts.comparison_state, facts.views)]


def _graph(facts: Facts) -> list[Block]:
    return [*selected_blocks(facts.predicted, facts.paint, facts.selected), *graph_blocks(facts.of_stages, facts.views)]


def _compared(facts: Facts) -> list[Block]:
    return compared_blocks(comparison_of_stage(facts.comparison_state, facts.predicted, facts.views.stage), facts.paint)


def _timeline(facts: Facts) -> list[Block]:
    report = facts.of_stages
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


SECTIONS = (
    Section(
        *("overview", "Summary", "overview"),
        lambda facts: overview_blocks(facts.shown, facts.paint),
        has_stages=True,
        predicts=("peak", "step"),
    ),
    Section(
        *("notes", "Warnings", "overview"),
        lambda facts: [*_notes(facts.report, remedies=facts.remedies), *source_annotation_blocks(facts.predicted, facts.paint)],
    ),
    Section("compared", "Compared", "overview", _compared, is_shared=False, has_stages=True),
    Section("memory", "Memory", "memory", _memory, has_stages=True, predicts=("peak",)),
    Section(
        *("step", "Step", "time"),
        lambda facts: step_blocks(facts.shown, facts.comparison_state, facts.of_stages),
        has_stages=True,
        predicts=("step",),
    ),
    Section("timeline", "Timeline", "time", _timeline, has_stages=True, predicts=("step",)),
    Section(
        *("kernels", "Kernels", "time"),
        lambda facts: kernel_blocks(facts.shown, facts.comparison_state),
        has_stages=True,
        predicts=("step",),
    ),
    Section("roofline", "Roofline", "time", lambda facts: roofline_blocks(facts.shown), has_stages=True, predicts=("step",)),
    Section("pipeline", "Pipeline", "time", lambda facts: pipeline_blocks(facts.predicted, facts.tasks, facts.trial)),
    Section("communication", "Collectives", "communication", _communication, has_stages=True),
    Section(
        *("resharding", "Resharding", "communication"),
        lambda facts: resharding_blocks(facts.shown, facts.comparison_state, facts.paint),
        is_shared=False,
        has_stages=True,
    ),
    Section("devices", "Devices", "communication", lambda facts: device_blocks(facts.shown, facts.selected), has_stages=True),
    Section("tensors", "Tensors", "program", _tensors, has_stages=True, is_searched=True),
    Section("graph", "Graph", "program", _graph, has_stages=True, predicts=("step",)),
    Section("values", "Values", "program", lambda facts: value_blocks(facts.predicted, facts.paint, facts.search), is_searched=True),
    Section(
        *("propagation", "Propagation", "program"),
        lambda facts: replay_blocks(facts.predicted, facts.paint, facts.replay, facts.background, facts.views.opened),
        is_shared=False,
    ),
    Section("find", "Find", "", lambda facts: facts.find_blocks(facts.report, facts.background), is_shared=False),
)
ALWAYS_SHOWN = ("overview", "notes", "find")
"""Sections that an exercise cannot leave out; a host decides on the search."""
_BY_KEY = {section.key: section for section in SECTIONS}


def section_of(tab: str) -> Section:
    """Return the section of a key, the tensors for an unknown key."""
    return _BY_KEY.get(tab, _BY_KEY["tensors"])


def table_state(facts: Facts, tab: str, search: str = "") -> dict[str, Any]:
    """Return the blocks of one section, with planned figures; `search` filters tensors and values."""
    section = section_of(tab)
    try:
        shown = [*_settled_notes(facts.report, section.predicts), *section.blocks(replace(facts, search=search))]
    except PipelineError as error:
        shown = pipeline_error_blocks(error)
    return {
        "tab": section.key,
        "search": search if section.is_searched else None,
        "stages": stages_state(facts.predicted, facts.views.stage) if section.has_stages else None,
        "blocks": SharedList([as_json(block, facts.is_asked) for block in shown]),
    }


def _settled_notes(report: Report, predicts: tuple[str, ...]) -> list[Block]:
    predicted = report.prediction
    pairs = []
    if "peak" in predicts:
        pairs.append(("peak", format_bytes(report.memory.peak), format_bytes(predicted.memory.peak)))
    if "step" in predicts and report.step_time and predicted.step_time:
        pairs.append(("step", format_seconds(report.step_time.total), format_seconds(predicted.step_time.total)))
    text = "This view shows the prediction, a {} of {}. The {} at the top of the board come from the compiler."
    sentences = [text.format(name, predicted_text, top) for name, top, predicted_text in pairs if top != predicted_text]
    return [note_block(" ".join(sentences))] if sentences else []


def failed_state(tab: str, error: Exception) -> dict[str, Any]:
    """Return an error message in place of a tab."""
    failure_text = f"This view could not be made: {describe_error(error)}. Other views still work; undo returns to the previous plan."
    return {"tab": tab, "search": None, "stages": None, "blocks": [note_block(failure_text)]}
