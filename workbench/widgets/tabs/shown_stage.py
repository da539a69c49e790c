"""Stage selection of a pipelined plan: one stage or all, and blocks that compare all stages."""

from dataclasses import dataclass, replace
from typing import Any

from workbench.analysis.tier_comparison import Comparison
from workbench.errors import WorkbenchError, ways_out_text
from workbench.reports.report import Report
from workbench.units import format_bytes
from workbench.visualize import stage_memory, stage_traffic
from workbench.visualize.draw.collapse_scopes import choose_open_scopes, scopes_of
from workbench.visualize.graph import shown_graph
from workbench.widgets.board.comparison_state import ComparisonState
from workbench.widgets.tabs.table_blocks import Block, note_block, picture_block

MOST_STAGES = 64
"""Number of stages with a button."""


def stages_state(report: Report, stage: int | None) -> dict[str, Any] | None:
    """Return the stage selector: `options` with titles, and the `chosen` one; `None` with fewer than two stages."""
    if not _has_several(report):
        return None
    try:
        stages = report.stages
    except WorkbenchError:
        return None
    fullest = report.fullest.stage
    options = [{"value": "", "label": "All stages", "title": f"All stages; per-device figures of stage {fullest}, the fullest"}]
    options += [
        {
            "value": f"{stage_report.stage}",
            "label": f"{stage_report.stage}",
            "title": f"Stage {stage_report.stage}: {format_bytes(stage_report.memory.peak)} at its peak",
        }
        for stage_report in stages[:MOST_STAGES]
    ]
    return {"options": options, "chosen": "" if _is_gone(stage, report) else f"{stage}"}


def _has_several(report: Report) -> bool:
    """Whether there are stages to choose from: a pipeline of one stage only divides the batch into micro-batches."""
    return not report.is_of_devices and report.plan.pipeline is not None and report.plan.pipeline.stages > 1


def _is_gone(stage: int | None, report: Report) -> bool:
    return stage is None or stage >= len(report.stages)


def shown_stage(report: Report, stage: int | None) -> Report:
    """Return the report of the selected stage, else of the fullest. Raises `PipelineError`."""
    if report.is_of_devices:
        return report
    return report.fullest if stage is None or _is_gone(stage, report) else report.stages[stage]


def picture_of_stages(report: Report, stage: int | None) -> Report:
    """Return the report for a picture of all stages: the selected stage, else the plan."""
    return report if report.is_of_devices or _is_gone(stage, report) else shown_stage(report, stage)


# View state of the pictures.


@dataclass(frozen=True, slots=True)
class Views:
    """View state: open graph scopes (`None`: default), a moment of the step (`None`: peak), a stage (`None`: all)."""

    opened: frozenset[str] | None = None
    place: int | None = None
    stage: int | None = None

    def at(self, place_text: str, report: Report) -> "Views":
        """Show a moment of the step, or return to its peak. Raises `WorkbenchError` for an unknown moment."""
        place = _place(place_text, shown_stage(report, self.stage))
        return replace(self, place=None if place == self.place else place)

    def toggle_scope(self, scope: str, report: Report) -> "Views":
        """Open or close a scope. Raises `WorkbenchError` for an unknown scope."""
        graph = shown_graph(picture_of_stages(report, self.stage))
        if scope not in scopes_of(graph):
            raise WorkbenchError(f"The graph has no scope `{scope[:80]}`.", ["open a scope of the graph"])
        return replace(self, opened=(choose_open_scopes(graph) if self.opened is None else self.opened) ^ {scope})

    def of_stage(self, stage_text: str, report: Report) -> "Views":
        """Show one stage, or all for an empty text. Raises `WorkbenchError` for an unknown stage."""
        if not stage_text:
            return replace(self, stage=None, place=None, opened=None)
        count = 0 if report.is_of_devices else len(report.stages)
        if not stage_text[:6].isdecimal() or len(stage_text) > 6 or int(stage_text) >= count:
            raise WorkbenchError(f"The plan has no stage `{stage_text[:40]}`; it has {count}.", ["pick one of the stages shown"])
        return replace(self, stage=int(stage_text), place=None, opened=None)

    def place_in(self, report: Report) -> int | None:
        return self.place if self.place is not None and self.place < len(report.memory_curve.paths) else None


def _place(text: str, report: Report) -> int:
    count = len(report.memory_curve.paths)
    if not text[:12].isdecimal() or len(text) > 12 or int(text) >= count:
        raise WorkbenchError(f"The step has no place `{text[:40]}`; it has {count}.", ["click on the chart"])
    return int(text)


def comparison_of(comparison_state: ComparisonState | None, shown: Report) -> ComparisonState | None:
    """Return the comparison of the shown report; a stage has its own compiled program but no measurement."""
    if comparison_state is None or shown.stage is None:
        return comparison_state
    compiled = comparison_state.comparison.compiled
    if compiled is None or shown.stage >= len(compiled.stages):
        return None
    return ComparisonState(Comparison(shown, compiled.stages[shown.stage]), comparison_state.stale)


def comparison_of_stage(comparison_state: ComparisonState | None, report: Report, stage: int | None) -> ComparisonState | None:
    """Return the comparison of the selected stage if it was compiled, else that of the plan."""
    if comparison_state is None or report.is_of_devices or _is_gone(stage, report):
        return comparison_state
    return comparison_of(comparison_state, shown_stage(report, stage)) or comparison_state


def memory_of_stages(report: Report, stage: int | None) -> list[Block]:
    if not _has_several(report) or not _is_gone(stage, report):
        return []
    note = f"Below: stage {report.fullest.stage}, the fullest. Pick another above."
    return [picture_block(stage_memory(report), note, name="memory of the stages")]


def traffic_of_stages(report: Report, stage: int | None) -> list[Block]:
    if not _has_several(report) or not _is_gone(stage, report):
        return []
    note = f"Below: what each device of stage {report.fullest.stage}, the fullest, sends. Pick another above."
    return [picture_block(stage_traffic(report), note, name="traffic of the stages")]


def pipeline_error_blocks(error: WorkbenchError) -> list[Block]:
    """Explain why there are no figures: no device runs the program without its pipeline."""
    suggestions = " ".join(filter(None, [error.message, ways_out_text(error.ways_out)]))
    return [note_block(f"{suggestions} The figures appear once the pipeline is valid; the Pipeline section of Time suggests edits.")]
