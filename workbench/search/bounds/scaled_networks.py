"""Whether two networks of a program differ in nothing but the size of their micro-batches.

Tracing finds the batch among other dimensions by its size: where gradients are summed shard by shard, and where
dimensions are named. A micro-batch as large as another dimension may thus give another program than a smaller one. The
programs that the planner prices tell: their texts must agree in everything but numbers, and these must be equal or in
the ratio of the micro-batches.
"""

import re
from collections.abc import Sequence
from math import isclose

from workbench.core.derived_value_cache import cache_with_owner
from workbench.core.program import Program
from workbench.pipeline.block_layouts import tasks_of
from workbench.propagation.module.mlir_context import parse_module
from workbench.tracing.grad_accumulation.gradient_partial_sums import DataParallelGroups
from workbench.tracing.stage_partition.block_programs import BlockTasks
from workbench.tracing.stage_partition.trace_network import Network

_NUMBER = re.compile(r"(\d+(?:\.\d+)?(?:e[+-]\d+)?)")
_ROUNDING = 1e-6
"""Relative difference of constants, which are printed with seven digits."""


@cache_with_owner
def is_scaled(network: Network, other: Network, parts: DataParallelGroups, first: int | None, *, adds_separately: bool) -> bool:
    """Whether the blocks of both networks, or the `first` of them, are the same programs up to the size of the
    micro-batch, for replicas that share it in `parts`.
    """
    blocks, others = tasks_of(network), tasks_of(other)
    examples = _count_examples(network), _count_examples(other)
    if 0 in examples or _list_kinds(blocks) != _list_kinds(others):
        return False
    pairs = list(zip(blocks, others, strict=True))[:first]
    if any(block.residuals != like.residuals for block, like in pairs):
        return False
    kinds = {id(block.exemplar): (block.exemplar, like.exemplar) for block, like in pairs}
    texts = ([_describe(block, parts, adds_separately=adds_separately) for block in pair] for pair in kinds.values())
    return all(_are_scaled(text, like, examples[0] / examples[1]) for text, like in texts)


def _count_examples(network: Network) -> int:
    return dict(network.batch_sizes).get(network.batch_dim, 0)


def _list_kinds(blocks: Sequence[BlockTasks]) -> list[int]:
    """For each block, the number of the first equal one."""
    first: dict[int, int] = {}
    return [first.setdefault(id(block.exemplar), number) for number, block in enumerate(blocks)]


def _describe(block: BlockTasks, parts: DataParallelGroups, *, adds_separately: bool) -> str:
    """The programs by which a block is placed and priced, as text."""
    backward = block.backward_program(parts, recompute=False, add_separately=adds_separately)
    return "\n".join(map(_print, (block.keeping_program, block.forward_program, backward)))


def _print(program: Program) -> str:
    values = [(tensor.path, tensor.role.name, tensor.dtype, tensor.dims) for tensor in (*program.arguments, *program.results)]
    return f"{values}\n{parse_module(program.module)}"


def _are_scaled(text: str, other: str, ratio: float) -> bool:
    """Whether texts differ in numbers alone, each of them equal, or `ratio` times as large in the first, or as small.

    >>> _are_scaled("tensor<96x2048xf32> / 1.966080e+05", "tensor<12x2048xf32> / 2.457600e+04", 8)
    True
    >>> _are_scaled("contract [0, 1] of 96x96x2048", "contract [1, 2] of 12x96x2048", 8)
    False
    """
    words, others = _NUMBER.split(text), _NUMBER.split(other)
    if words[::2] != others[::2]:
        return False
    differing = ((float(one), float(two)) for one, two in zip(words[1::2], others[1::2], strict=True) if one != two)
    return all(isclose(one, ratio * two, rel_tol=_ROUNDING) or isclose(one * ratio, two, rel_tol=_ROUNDING) for one, two in differing)
