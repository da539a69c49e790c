"""Edges: where a value's sharding is not the one its reader needs. Shardy inserts a chain of collectives there; XLA goes its own way.

Shardy tells that and where a value is resharded, from which sharding to which. What is sent is what XLA's partitioner makes of the same
two shardings (`xla_reshard`), for that is what runs.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jax.extend.mlir import ir

from workbench.partition.attributes import Dims
from workbench.partition.context import producer
from workbench.partition.reshards import KINDS, Reshard
from workbench.partition.xla_reshard import SLICE, Step, Way

REDUCTIONS = ("sdy.all_reduce", "sdy.reduce_scatter")
_MOVES = frozenset(KINDS) - frozenset(REDUCTIONS) | {"sdy.all_slice"}


@dataclass(slots=True)
class Edge:
    """One resharding: a value of this shape, from one sharding to another, the moves of one execution.

    `source` is the operation that made the value, or `argument` the number of the argument it is; `readers` are the operations that need
    it so. `moves` are the collectives, in order; `temporary` the bytes of operand and result of the largest of them on one device.
    """

    shape: tuple[int, ...]
    dtype: str
    before: Dims
    after: Dims
    way: Way
    region: int
    source: int | None
    argument: int | None
    readers: tuple[int, ...]
    moves: tuple[Reshard, ...]
    temporary: int
    is_manual: bool = False


def chains(inserted: Sequence[ir.Operation]) -> Iterator[list[ir.Operation]]:
    """The operations Shardy inserted, those that move one value on together; a reduction stands alone."""
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


def goes_as_shardy(chain: Sequence[ir.Operation], payloads: Sequence[int], itemsize: float, way: Way) -> bool:
    """Whether XLA emits the collectives of a chain as they stand."""
    kinds = [KINDS[op.name][0] for op in chain if op.name in KINDS]
    theirs = [(step.kind, math.ceil(step.payload * itemsize)) for step in way.collectives]
    return list(zip(kinds, payloads, strict=True)) == theirs


def held(way: Way, itemsize: float) -> int:
    """Bytes of operand and result of the largest move, on one device; a slice is taken where the result is needed."""
    sizes = (step.before + max(step.payload, step.after) for step in way.steps if step.kind != SLICE)
    return math.ceil(max(sizes, default=0) * itemsize)


def classes(way: Way, *, is_manual: bool) -> tuple[int, ...]:
    """Which of the partitioner's eight ways this is (DOMAIN 3.5); two where it takes one after the other."""
    kinds = tuple(dict.fromkeys("all-gather" if step.kind == "all-reduce" else step.kind for step in way.steps))  # a thin one is summed
    return ((2,) if is_manual else ()) + ((8,) if way.rematerialises else _OF_KINDS.get(kinds, (7,)) if kinds else (1,))


_OF_KINDS: dict[tuple[str, ...], tuple[int, ...]] = {
    ("collective-permute",): (3,),
    ("all-to-all",): (4,),
    (SLICE,): (5,),
    (SLICE, "collective-permute"): (5, 3),
    ("all-gather",): (6,),
    ("collective-permute", "all-gather"): (3, 6),
    (SLICE, "collective-permute", "all-gather"): (5, 3, 6),
}


def is_last(step: Step, way: Way) -> bool:
    """Whether what a move makes is what the reader reads: not taken further, nor sliced."""
    return way.steps[-1] is step
