"""How a plan's layout lays out each block of its network: blocks that compute alike may be laid out apart, layer by layer.

Inside a stage a block reads what others made. Along a dimension that the layout has a rule for, such a value is split as the rule says.
Where instead the arguments of blocks are placed one by one, it is split as the block's own arguments are along that dimension, if they all
agree; where it has none with that dimension, as the blocks are that made the value. So a rule, and overrides that say the same of each
argument, cost the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from workbench.core.sharding import Sharding, base_axis
from workbench.core.tensor import Role, Tensor
from workbench.pipeline.data_parallel_groups import find_batch_axes
from workbench.pipeline.estimate_block_cost import DimRules, StageContext
from workbench.tracing.stage_partition.block_programs import BlockTasks

Placed = tuple[Tensor, Sharding]


class LaidBlock(NamedTuple):
    """The first block that is alike, and laid out alike, and the stage as it sees it."""

    block: BlockTasks
    stage: StageContext


def laid_blocks(stage: StageContext, blocks: Sequence[BlockTasks]) -> tuple[LaidBlock, ...]:
    """For each block of a network, or each stage of a partition of it, what to estimate in its place."""
    first: dict[tuple[object, ...], LaidBlock] = {}
    arguments = _list_arguments(stage, blocks)
    entering = _rules_of_values(stage, blocks, arguments) if stage.layout.overrides else [()] * len(blocks)
    found = []
    for block, rules, placed in zip(blocks, entering, arguments, strict=True):
        key = id(block.exemplar), rules, tuple(sharding.dims for _, sharding in placed), _constraints_by_name(stage, block)
        found.append(first.setdefault(key, LaidBlock(block, replace(stage, entering=rules))))
    return tuple(found)


def _list_arguments(stage: StageContext, blocks: Sequence[BlockTasks]) -> list[list[Placed]]:
    """The arguments of the whole program that each block reads, with their shardings."""
    plan = stage.plan
    placed = list(zip(plan.program.arguments, plan.argument_shardings, strict=True))
    params, inputs = [each for each in placed if each[0].role is Role.PARAMETER], [placed[i] for i in plan.program.inputs]
    found = []
    for block in blocks:
        function, slices = block.stage.virtual_stage, block.stage.partition.network.flat.param_slices
        found.append([params[slices[i][0].leaf] for i in function.param_slices] + [inputs[leaf] for leaf in function.batch])
    return found


def _rules_of_values(stage: StageContext, blocks: Sequence[BlockTasks], arguments: Sequence[Sequence[Placed]]) -> list[DimRules]:
    """For each block the axes of dimensions that the layout has no rule for, as its arguments, or its values' makers, have them."""
    ruled = {dim for dim, _ in stage.layout.rules}
    examples = {base_axis(axis) for axis in find_batch_axes(stage.plan)}
    known: list[dict[str, tuple[str, ...]]] = []
    for block, placed in zip(blocks, arguments, strict=True):
        partition, function = block.stage.partition, block.stage.virtual_stage
        rules: dict[str, tuple[str, ...]] = {}
        for maker in sorted({partition.values[value].maker for value in function.input_activations}):
            rules |= known[maker]
        known.append(rules | {dim: axes for dim, axes in _agreed_axes(placed, examples).items() if dim not in ruled})
    return [tuple(sorted((dim, axes) for dim, axes in each.items() if axes)) for each in known]


def _agreed_axes(placed: Sequence[Placed], examples: set[str]) -> Mapping[str, tuple[str, ...]]:
    """The axes of each dimension but those of examples; none where arguments disagree."""
    found: dict[str, set[tuple[str, ...]]] = {}
    for tensor, sharding in placed:
        for dim, axes in zip(tensor.dims, sharding.dims, strict=True):
            found.setdefault(dim, set()).add(tuple(axis for axis in axes or () if base_axis(axis) not in examples))
    return {dim: next(iter(axes)) if len(axes) == 1 else () for dim, axes in found.items()}


def _constraints_by_name(stage: StageContext, block: BlockTasks) -> tuple[tuple[str, Sharding], ...]:
    """The constraints whose pattern may tell this block from others that are alike: it has the last word of a path of the block."""
    names = {path.rpartition("/")[2] for path in block.stage.virtual_stage.blocks}
    return tuple(each for each in stage.layout.constraints if not names.isdisjoint(each[0].split("/")))
