"""Bytes of a micro-batch at work on every stage that there may be: the worst moments of `stage_bytes`, for blocks a to b - 1, each a and b.

Along a row a stage grows by a block at its end: what the blocks before keep, and what each needs at its worst moment, stays as it is. So a
row is a running maximum over what its blocks need.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workbench.pipeline.estimate_block_cost import BlockCost, TogetherBytes
from workbench.pipeline.stage_bytes import activation_bytes, kept_in_one_program

Table = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class AtWorkTables:
    """What at work depends on: the blocks; of each stage the bytes that it sends and that it is sent, float64[blocks, blocks + 1]; those
    of the chip's own memory."""

    blocks: Sequence[BlockCost]
    sent: Table
    received: Table
    capacity: float

    def keeping(self, residuals: Table) -> tuple[Table, Table]:
        """While the forward and the backward task run, residuals being kept (`keeping_at_work`)."""
        extra = self._largest([max(each.at_forward.working - each.at_backward.staying, 0) for each in self.blocks])
        anywhere = self._largest([each.at_backward.anywhere + each.at_backward.arriving + each.at_backward.made for each in self.blocks])
        beside = np.maximum(self._largest([each.at_backward.beside for each in self.blocks]), self.received)
        passing = np.where(anywhere <= self.capacity, self.sent + self.received, beside)
        return residuals + self.sent + extra, residuals + passing

    def recomputing(self, together: Sequence[TogetherBytes], inputs: Table) -> tuple[Table, Table]:
        """The same where a stage keeps only its `inputs` and computes its forward pass again (`recomputing_at_work`)."""
        passed = self._largest([each.at_forward.staying + each.at_forward.anywhere + each.at_forward.made for each in self.blocks])
        forward = inputs + np.where(passed <= self.capacity, self.sent, self._forward_moments())
        on_chip = self._backward_moments(together, [each.anywhere for each in together])
        whole = inputs + np.maximum(self.received, self._backward_moments(together, [each.most for each in together]))
        return forward, np.where(on_chip <= self.capacity, inputs + self.sent + self.received, np.maximum(forward, whole))

    def _largest(self, needed: Sequence[float]) -> Table:
        """What the block that needs most of it needs."""
        return _largest_so_far(np.broadcast_to(np.asarray(needed, float), (len(needed), len(needed))).copy())

    def _forward_moments(self) -> Table:
        """Beside the stage's inputs: of its first block what that makes and works with, of others all."""
        needed = np.broadcast_to([float(each.at_forward.whole) for each in self.blocks], (len(self.blocks),) * 2).copy()
        np.fill_diagonal(needed, [each.at_forward.made + each.at_forward.working for each in self.blocks])
        return _largest_so_far(needed)

    def _backward_moments(self, together: Sequence[TogetherBytes], working: Sequence[int]) -> Table:
        """Beside the stage's inputs, at the worst moment of the worst block's backward pass."""
        read = np.array([activation_bytes(each) for each in self.blocks], float)
        kept = np.array([kept_in_one_program(each, both) for each, both in zip(self.blocks, together, strict=True)], float)
        arriving, made = (np.array([getattr(each.at_backward, name) for each in self.blocks], float) for name in ("arriving", "made"))
        sums = np.concatenate(([0.0], np.cumsum(read + kept)[:-1]))
        before = sums[None, :] - (sums + read)[:, None]
        np.fill_diagonal(before, 0.0)
        needed = before + np.asarray(working, float) + arriving + np.maximum(read, made)
        np.fill_diagonal(needed, np.asarray(working, float) + arriving + made)
        return _largest_so_far(needed)


def _largest_so_far(needed: Table) -> Table:
    """float64[blocks, blocks + 1] from float64[blocks, blocks]: of stages from a to b the largest of `needed[a, a:b]`, none of none."""
    inside = np.where(np.tri(len(needed), k=-1, dtype=bool), 0.0, needed)
    return np.concatenate((np.zeros((len(needed), 1)), np.maximum.accumulate(inside, axis=1)), axis=1)
