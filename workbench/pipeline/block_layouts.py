"""Shardings of each block of a network; equal blocks may be sharded differently, layer by layer.

Parameters and batch data are sharded by the layout, values between blocks by the compiler: Shardy propagates through a
block's forward pass from the results of the blocks before it. The engine does the same: it compiles the tasks of a
stage in this order and reads the shardings of their results (`stage_programs.StagePrograms`).
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from workbench.core.derived_value_cache import cache_with_owner, cache_with_program
from workbench.core.sharding import Sharding
from workbench.core.tensor import Role
from workbench.pipeline.estimate_block_cost import BlockCost, StageContext, estimate_block, place_results
from workbench.propagation import gc_paused
from workbench.tracing.stage_partition.block_programs import BlockTasks, block_tasks
from workbench.tracing.stage_partition.trace_network import Network


@dataclass(frozen=True, eq=False)
class LaidBlock:
    """The first of several equal blocks, and its stage; `outputs`: shardings of its output activations."""

    block: BlockTasks
    stage: StageContext
    outputs: tuple[Sharding, ...]

    @cached_property
    def cost(self) -> BlockCost:
        """Cost of the block on a device of the stage, cached because the bounds of a search need it before a plan does."""
        with gc_paused():  # tracing leaves many live objects and little garbage
            return estimate_block(self.block, self.stage)


@cache_with_owner
def tasks_of(network: Network) -> tuple[BlockTasks, ...]:
    """Return the tasks of every single block."""
    return block_tasks(network)


def lay_out_network(stage: StageContext, network: Network, first: int | None = None) -> tuple[LaidBlock, ...]:
    """Return for each block of a network, or for the `first` ones, the equal block to estimate in its place."""
    return _start_layout(stage, network).read(first)


def lay_out_blocks(stage: StageContext, blocks: Sequence[BlockTasks]) -> tuple[LaidBlock, ...]:
    """Return for each block, or stage of a partition, the equal one to estimate in its place."""
    return _BlockLayouts(stage, blocks).read(None)


@cache_with_program(200)
def _start_layout(stage: StageContext, network: Network) -> "_BlockLayouts":
    return _BlockLayouts(stage, tasks_of(network))


@dataclass(eq=False)
class _BlockLayouts:
    """The layouts of blocks in their order. Mutable: computed only as far as they are read.

    - `traced`: blocks that differ only in input shardings are traced once;
    - `placed`: the shardings of the values between blocks.
    """

    stage: StageContext
    blocks: Sequence[BlockTasks]
    result: list[LaidBlock] = field(default_factory=list)
    laid: dict[tuple[object, ...], LaidBlock] = field(default_factory=dict)
    traced: dict[tuple[object, ...], BlockTasks] = field(default_factory=dict)
    placed: dict[int, Sharding] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)

    @cached_property
    def arguments(self) -> list[tuple[Sharding, ...]]:
        return _list_arguments(self.stage, self.blocks)

    def read(self, first: int | None) -> tuple[LaidBlock, ...]:
        with self.lock, gc_paused():  # tracing leaves many live objects and little garbage
            for number in range(len(self.result), len(self.blocks) if first is None else first):
                self.result.append(self._next(self.blocks[number], self.arguments[number]))
            return tuple(self.result[:first])

    def _next(self, block: BlockTasks, arguments: tuple[Sharding, ...]) -> LaidBlock:
        function = block.stage.virtual_stage
        input_shardings = tuple(self.placed[value] for value in function.input_activations)
        kind_key = id(block.exemplar), arguments, _constraints_by_name(self.stage, block)
        key = *kind_key, input_shardings
        if key not in self.laid:
            self.laid[key] = _lay_out(self.traced.setdefault(kind_key, block), self.stage, input_shardings)
        self.placed |= zip(function.output_activations, self.laid[key].outputs, strict=True)
        return self.laid[key]


def _lay_out(block: BlockTasks, stage: StageContext, given: Sequence[Sharding]) -> LaidBlock:
    entering = tuple((f"input_activations/{i}", sharding) for i, sharding in enumerate(given))
    results = dict(place_results(block.keeping_program, replace(stage, entering=entering)))
    outputs = tuple(results[f"output_activations/{i}"] for i in range(len(block.stage.virtual_stage.output_activations)))
    residuals = tuple((path, sharding) for path, sharding in results.items() if path.startswith("kept/"))
    arriving = tuple((f"arriving/{i}", outputs[place]) for i, place in enumerate(block.stage.arriving))
    return LaidBlock(block, replace(stage, entering=(*entering, *residuals, *arriving)), outputs)


def _list_arguments(stage: StageContext, blocks: Sequence[BlockTasks]) -> list[tuple[Sharding, ...]]:
    plan = stage.plan
    placed = list(zip(plan.program.arguments, plan.argument_shardings, strict=True))
    params, inputs = [sharding for tensor, sharding in placed if tensor.role is Role.PARAMETER], [placed[i][1] for i in plan.program.inputs]
    shardings = []
    for block in blocks:
        function, slices = block.stage.virtual_stage, block.stage.partition.network.flat.param_slices
        shardings.append((*(params[slices[i][0].leaf] for i in function.param_slices), *(inputs[leaf] for leaf in function.batch)))
    return shardings


def _constraints_by_name(stage: StageContext, block: BlockTasks) -> tuple[tuple[str, Sharding], ...]:
    """Return the constraints that may distinguish this block from equal ones: they contain its last name."""
    names = {path.rpartition("/")[2] for path in block.stage.virtual_stage.blocks}
    return tuple(constraint for constraint in stage.layout.constraints if not names.isdisjoint(constraint[0].split("/")))
