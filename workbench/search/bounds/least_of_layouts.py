"""What no choice among several layouts, made for each stage, can beat: block by block, what the layout needs that needs least.

A plan that is composed of layouts, one a stage, has every block as one of them has it, or it is not taken (`choose_stages`). Bounds of a
pipeline rise with the costs of its blocks, so that those of the least costs are bounds of every such plan.
"""

from collections.abc import Sequence
from dataclasses import fields

import numpy as np

from workbench.search.bounds.relaxed_blocks import BlockWork
from workbench.search.bounds.stage_bounds import BlockTotals


def least_totals(layouts: Sequence[BlockTotals]) -> BlockTotals:
    """Of each block the least of each cost."""
    columns = ([getattr(each, column.name) for each in layouts] for column in fields(BlockTotals))
    return BlockTotals(*(np.minimum.reduce(each) for each in columns))


def least_work(layouts: Sequence[BlockWork]) -> BlockWork:
    """The least work of the same blocks, of which the most may be shared."""
    return BlockWork(
        min(each.forward for each in layouts),
        min(each.backward for each in layouts),
        max(each.sharable_forward for each in layouts),
        max(each.sharable_backward for each in layouts),
    )
