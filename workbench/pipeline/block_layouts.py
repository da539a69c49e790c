"""How a plan lays out each block of its network: blocks that compute alike may be laid out apart, layer by layer.

Parameters and batch data are sharded as the layout says. What blocks hand on is sharded as the compiler leaves it: Shardy is asked how the
forward pass of a block shards its results where it is given what the blocks before it made. So does the engine, which compiles the
tasks of a stage in this order and reads off each how it shards what it gives (`stage_programs.StagePrograms`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from workbench.core.derived_value_cache import cache_with_owner, cache_with_program
from workbench.core.sharding import Sharding
from workbench.core.tensor import Role
from workbench.pipeline.estimate_block_cost import BlockCost, StageContext, estimate_block, place_results
from workbench.propagation import gc_paused
from workbench.tracing.stage_partition.block_programs import BlockTasks, block_tasks
from workbench.tracing.stage_partition.network_blocks import Network


@dataclass(frozen=True, eq=False)
class LaidBlock:
    """The first block that is alike, and laid out alike, and the stage as it sees it; `outputs` are the shardings of
    `StageFunction.output_activations`."""

    block: BlockTasks
    stage: StageContext
    outputs: tuple[Sharding, ...]

    @cached_property
    def cost(self) -> BlockCost:
        """The cost of the block on a device of the stage, estimated once: the bounds of a search ask for it before a plan does."""
        with gc_paused():  # tracing leaves many live objects and little garbage
            return estimate_block(self.block, self.stage)


@cache_with_owner
def tasks_of(network: Network) -> tuple[BlockTasks, ...]:
    """The tasks of every block alone."""
    return block_tasks(network)


@cache_with_program(200)
def laid_network(stage: StageContext, network: Network) -> tuple[LaidBlock, ...]:
    """For each block of a network what to estimate in its place."""
    return laid_blocks(stage, tasks_of(network))


def laid_blocks(stage: StageContext, blocks: Sequence[BlockTasks]) -> tuple[LaidBlock, ...]:
    """For each block of a network, or each stage of a partition of it, what to estimate in its place."""
    first: dict[tuple[object, ...], LaidBlock] = {}
    traced: dict[tuple[object, ...], BlockTasks] = {}  # of those that differ in what they are given, one is traced for all
    placed: dict[int, Sharding] = {}
    found = []
    with gc_paused():  # tracing leaves many live objects and little garbage
        for block, arguments in zip(blocks, _list_arguments(stage, blocks), strict=True):
            function = block.stage.virtual_stage
            given = tuple(placed[value] for value in function.input_activations)
            alike = id(block.exemplar), arguments, _constraints_by_name(stage, block)
            key = *alike, given
            if key not in first:
                first[key] = _lay_out(traced.setdefault(alike, block), stage, given)
            placed |= zip(function.output_activations, first[key].outputs, strict=True)
            found.append(first[key])
    return tuple(found)


def _lay_out(block: BlockTasks, stage: StageContext, given: Sequence[Sharding]) -> LaidBlock:
    """A block that is given values of these shardings."""
    entering = tuple((f"input_activations/{i}", each) for i, each in enumerate(given))
    made = dict(place_results(block.keeping_program, replace(stage, entering=entering)))
    outputs = tuple(made[f"output_activations/{i}"] for i in range(len(block.stage.virtual_stage.output_activations)))
    kept = tuple((path, each) for path, each in made.items() if path.startswith("kept/"))
    arriving = tuple((f"arriving/{i}", outputs[place]) for i, place in enumerate(block.stage.arriving))
    return LaidBlock(block, replace(stage, entering=(*entering, *kept, *arriving)), outputs)


def _list_arguments(stage: StageContext, blocks: Sequence[BlockTasks]) -> list[tuple[Sharding, ...]]:
    """The shardings of the arguments of the whole program that each block reads."""
    plan = stage.plan
    placed = list(zip(plan.program.arguments, plan.argument_shardings, strict=True))
    params, inputs = [each for tensor, each in placed if tensor.role is Role.PARAMETER], [placed[i][1] for i in plan.program.inputs]
    found = []
    for block in blocks:
        function, slices = block.stage.virtual_stage, block.stage.partition.network.flat.param_slices
        found.append((*(params[slices[i][0].leaf] for i in function.param_slices), *(inputs[leaf] for leaf in function.batch)))
    return found


def _constraints_by_name(stage: StageContext, block: BlockTasks) -> tuple[tuple[str, Sharding], ...]:
    """The constraints whose pattern may tell this block from others that are alike: it has the last word of a path of the block."""
    names = {path.rpartition("/")[2] for path in block.stage.virtual_stage.blocks}
    return tuple(each for each in stage.layout.constraints if not names.isdisjoint(each[0].split("/")))
