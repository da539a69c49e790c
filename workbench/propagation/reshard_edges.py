"""Edges: reads that need another sharding than the value's, where Shardy inserts a chain of collectives and slices.

As planned, that chain is sent. XLA's partitioner may reshard differently; its collectives then replace the chain's
(`spmd.replace_shardy_collectives`).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jax.extend.mlir import ir

from workbench.core.mesh import Mesh
from workbench.core.sharding import axis_size
from workbench.propagation.module.mlir_context import producer
from workbench.propagation.module.shardy_attributes import Dims
from workbench.propagation.shardy_collectives import KINDS, InsertedCollective
from workbench.reports.partitioned import GatheredWhole

REDUCTIONS = ("sdy.all_reduce", "sdy.reduce_scatter")
SLICE = "slice"  # no collective: each device keeps a part of its shard
_MOVES = frozenset(KINDS) - frozenset(REDUCTIONS) | {"sdy.all_slice"}


@dataclass(slots=True)
class Edge:
    """One resharding: a value's shape, its shardings before and after, and the collectives of one execution.

    - `source`: the operation that made the value, or `argument` the number of main's argument; `readers`: the
      operations that need the new sharding;
    - `kinds`: those of the chain, slices included; `moves`: the collectives, in order; `temporary`: bytes of operand
      and result of the largest of them on one device;
    - `gathered_whole`: the warnings of XLA's partitioner.
    """

    shape: tuple[int, ...]
    dtype: str
    before: Dims
    after: Dims
    kinds: tuple[str, ...]
    region: int
    source: int | None
    argument: int | None
    readers: tuple[int, ...]
    moves: tuple[InsertedCollective, ...]
    temporary: int
    is_manual: bool = False
    gathered_whole: tuple[GatheredWhole, ...] = ()


def group_chains(inserted: Sequence[ir.Operation]) -> Iterator[list[ir.Operation]]:
    """Group inserted operations into chains that reshard one value step by step; a reduction is its own chain."""
    links: dict[ir.Operation, list[ir.Operation]] = {}
    for op in inserted:
        if op.name not in KINDS and op.name not in _MOVES:
            continue
        source = producer(op.operands[0]) if op.name in _MOVES else None
        link = links.get(source) if source is not None and source.name in _MOVES and len(list(source.results[0].uses)) == 1 else None
        if link is None:
            link = []
        link.append(op)
        links[op] = link
    seen: set[int] = set()
    for link in links.values():
        if id(link) not in seen:
            seen.add(id(link))
            yield link


def kinds_of(chain: Sequence[ir.Operation]) -> tuple[str, ...]:
    """The kinds of a chain's operations, in order."""
    return tuple(KINDS[op.name][0] if op.name in KINDS else SLICE for op in chain)


def largest_move_bytes(moves: Sequence[InsertedCollective], mesh: Mesh) -> int:
    """Bytes of operand and result of the largest collective on one device; slices count as part of their readers."""
    return max((_operand_bytes(move, mesh) + max(move.payload, move.local_bytes) for move in moves), default=0)


def _operand_bytes(each: InsertedCollective, mesh: Mesh) -> int:
    """Operand bytes; an all-gather's operand is one of the parts in its result."""
    return each.payload // math.prod(axis_size(axis, mesh) for axis in each.axes) if each.kind == "all-gather" else each.payload
