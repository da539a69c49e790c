"""What a micro-batch leaves on the devices of a virtual stage between its tasks, block by block, in bytes on one device."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from workbench.pipeline.estimate_block_cost import BlockCost
from workbench.tracing.stage_partition.block_programs import BlockTasks

KeptBytes = tuple[tuple[int, int], ...]
"""(block, bytes): of a residual the block that makes it, or reads it where another stage makes it."""


class KeptByBlock(NamedTuple):
    """The blocks of a network with the virtual stages that begin at `starts`, and the `sizes` of the values between them (`value_bytes`);
    batch data is not counted."""

    sizes: Sequence[int]
    costs: Sequence[BlockCost]
    tasks: Sequence[BlockTasks]
    starts: tuple[int, ...]

    def residuals(self, stage: int) -> KeptBytes:
        """What is kept from the forward to the backward pass: inside the blocks as it is sharded there, and values between blocks."""
        a, b = self._bounds[stage]
        found = Counter[int]()
        values = {value: block for block in reversed(range(a, b)) for value in self.tasks[block].residuals.values}
        for block in range(a, b):
            found[block] += self.costs[block].kept(self.tasks[block].residuals.inside)
        for value, block in values.items():
            found[block] += self.sizes[value]
        return tuple(found.items())

    def input_activations(self, stage: int) -> KeptBytes:
        """What a stage that recomputes keeps: the values that it reads of other stages."""
        a, b = self._bounds[stage]
        partition = self.tasks[0].stage.partition
        read = {value: block for block in reversed(range(a, b)) for value in partition.virtual_stages[block].input_activations}
        found = Counter[int]()
        for value, block in read.items():
            if not a <= partition.values[value].maker < b:
                found[block] += self.sizes[value]
        return tuple(found.items())

    @property
    def _bounds(self) -> list[tuple[int, int]]:
        return list(pairwise((0, *self.starts, len(self.costs))))
