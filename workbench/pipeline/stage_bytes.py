"""Bytes of a virtual stage while its tasks run, from its blocks alone.

A task is one program for the compiler, whose temporaries are in the device's memory only where the chip has no room for all of them. Where
it recomputes, the forward pass keeps no more for the backward pass than those two need as one program: much of what is kept between two
tasks is computed again where it is read, as part of a kernel.

Letters: block i of the stage reads x_i of the block before, keeps K_i for its backward pass and needs W_i at its worst moment; its backward
pass is given y_i and returns dx_i, which is written over x_i. During the backward pass of block i the stage has

    x_1 + .. + x_i-1  +  K_0 + .. + K_i-1  +  W_i + y_i + max(x_i, dx_i)
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from workbench.core.schedules.stage_cost import AtWork
from workbench.cost.tiled_bytes import tiled_bytes
from workbench.pipeline.estimate_block_cost import BlockCost, TogetherBytes
from workbench.tracing.jaxpr.equation_costs import size_of


def local_value_bytes(aval: Any, shards: int, tile: tuple[int, ...]) -> int:
    """Bytes on one device of a value of a micro-batch that so many devices share along its first dimension, padded to the chip's tiles; of
    one that cannot be shared so, its even part."""
    even = size_of(aval) // shards
    is_plain = hasattr(aval.dtype, "itemsize") and len(aval.shape) > 0 and aval.shape[0] % shards == 0
    if not tile or not is_plain:
        return even
    return max(even, tiled_bytes((aval.shape[0] // shards, *aval.shape[1:]), str(aval.dtype), tile))


def sum_value_bytes(avals: Iterable[Any], shards: int, tile: tuple[int, ...]) -> int:
    """The same of several values."""
    return sum(local_value_bytes(each, shards, tile) for each in avals)


def keeping_at_work(blocks: Sequence[BlockCost], residuals: int, arriving: int, outputs: int, departing: int, capacity: int) -> AtWork:
    """Bytes at work where residuals are kept. `arriving`, `outputs`, `departing`: gradients of the stage's outputs, its outputs, gradients
    of its inputs; `capacity`: of the chip's own memory."""
    extra = max(max(each.at_forward.working - each.at_backward.staying, 0) for each in blocks)
    anywhere = max(each.at_backward.anywhere + each.at_backward.arriving + each.at_backward.made for each in blocks)
    beside = max(each.at_backward.beside for each in blocks)
    return AtWork(residuals + outputs + extra, residuals + (arriving + departing if anywhere <= capacity else max(beside, departing)))


def recomputing_at_work(
    blocks: Sequence[BlockCost],
    together: Sequence[TogetherBytes],
    inputs: int,
    arriving: int,
    outputs: int,
    departing: int,
    capacity: int,
) -> AtWork:
    """The same where the stage keeps only its `inputs` and computes its forward pass again; `together`: of each block its forward and its
    backward pass as one program."""
    passed = max(each.at_forward.staying + each.at_forward.anywhere + each.at_forward.made for each in blocks)
    forward = inputs + outputs if passed <= capacity else max(_forward_moments(blocks, inputs))
    anywhere = max(_backward_moments(blocks, together, on_chip=True), default=0)
    if anywhere <= capacity:
        return AtWork(forward, inputs + arriving + departing)
    return AtWork(forward, max(forward, inputs + max(departing, *_backward_moments(blocks, together, on_chip=False))))


def _forward_moments(blocks: Sequence[BlockCost], inputs: int) -> Iterator[int]:
    yield inputs + blocks[0].at_forward.made + blocks[0].at_forward.working
    yield from (inputs + each.at_forward.whole for each in blocks[1:])


def _backward_moments(blocks: Sequence[BlockCost], together: Sequence[TogetherBytes], *, on_chip: bool) -> Iterator[int]:
    """Bytes beside the stage's inputs during the backward pass of each block; with `on_chip` wherever they are."""
    before = 0
    for number, (each, both) in enumerate(zip(blocks, together, strict=True)):
        read = activation_bytes(each) if number else 0
        working = both.anywhere if on_chip else both.most
        yield before + working + each.at_backward.arriving + max(read, each.at_backward.made)
        before += read + kept_in_one_program(each, both)


def kept_in_one_program(block: BlockCost, both: TogetherBytes) -> int:
    """Bytes that a block keeps while later ones run; where a block alone has room for it on the chip, of several no more is known than that
    it is at most all it needs, and what is kept between two tasks."""
    return both.kept or min(block.at_backward.staying, both.anywhere)


def activation_bytes(block: BlockCost) -> int:
    """What a block reads of other blocks."""
    return sum(size for path, size in block.at_forward.read if path.startswith("input_activations/"))
