"""Two plans side by side, as blocks: which decisions differ, in the colours of the mesh axes, and what that costs or saves."""

from workbench.analysis.plan_diff import PlanDiff, figures_table
from workbench.widgets.board.board_state import axis_colours
from workbench.widgets.tabs.table_blocks import Block, Paint, page_blocks, table_block

MOST_ROWS = 40


def diff_blocks(diff: PlanDiff) -> list[Block]:
    """Changes, figures, traffic, placements; of equal plans that they are, and the figures."""
    paint = Paint(diff_colours(diff))
    blocks = [*page_blocks(diff.page(with_zeros=False), paint, MOST_ROWS)]
    return blocks if diff.changes else [*blocks, table_block(figures_table(diff, with_zeros=False), paint, MOST_ROWS)]


def diff_colours(diff: PlanDiff) -> dict[str, int]:
    """The axes of the second plan in its colours; one that only the first plan has keeps the colour it has there."""
    return {**axis_colours(diff.before.plan), **axis_colours(diff.after.plan)}
