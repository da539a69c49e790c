"""The Compared tab: the page of a comparison."""

from workbench.widgets.board.comparison_state import ComparisonState
from workbench.widgets.tabs.table_blocks import Block, Paint, note_block, page_blocks

MOST_DIFFERENCES = 100
NOTHING = (
    "Nothing of this plan is compiled or measured yet. Once it is, what XLA makes of it and what a run measures stand here beside the "
    "prediction: memory, kernels and collectives, and why they differ."
)


def compared_blocks(comparison_state: ComparisonState | None, paint: Paint) -> list[Block]:
    if comparison_state is None:
        return [note_block(NOTHING)]
    comparison = comparison_state.comparison
    stale = [note_block(f"Of the plan before the last edits: {comparison.report.plan}")] if comparison_state.stale else []
    return [*stale, *page_blocks(comparison.page(), paint, MOST_DIFFERENCES)]
