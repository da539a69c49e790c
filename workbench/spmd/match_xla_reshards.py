"""Which of XLA's collectives reshard which value: those between an edge's maker and its readers replace Shardy's chain."""

import math
import re
from collections import defaultdict
from collections.abc import Container, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from workbench.core.mesh import Mesh
from workbench.core.sharding import axis_size, base_axis
from workbench.core.tensor import itemsize
from workbench.propagation import Propagated
from workbench.propagation.module.shardy_attributes import Dims, local_shape
from workbench.propagation.reshard_edges import SLICE, Edge, largest_move_bytes
from workbench.propagation.shardy_collectives import InsertedCollective
from workbench.propagation.structure.program_structure import Structure
from workbench.reports.partitioned import GatheredWhole

_REDUCTIONS = ("all-reduce", "reduce-scatter")
_DEVICES = re.compile(r"devices=\[([\d,]+)\]")
_CONSTRAINTS = ("sdy.sharding_constraint",)
_PASS_THROUGH = ("return", "stablehlo.return", "func.return", "sdy.return")


class JoinedCollective(NamedTuple):
    """One of XLA's collectives, and the operations that make its operand and read its result as far as they are known."""

    reshard: InsertedCollective
    maker: int | None
    reader: int | None


def replace_edge_collectives(planned: Propagated, joined: Sequence[JoinedCollective], mesh: Mesh) -> list[Edge]:
    """The edges with what XLA sends for them. An edge where Shardy sends and XLA does not is dropped: XLA computes on the shards as they
    are.

    What goes from an edge's maker to its reader belongs to that edge. XLA may also reshard a value an operation earlier or later than
    Shardy does: an edge without any such collective gets those that touch one of its ends and run over mesh axes that it changes.
    """
    edge_index = _EdgeIndex(planned, mesh)
    found: dict[int, list[InsertedCollective]] = defaultdict(list)
    ends = [edge_index.find_between(each) for each in joined]
    taken = set(ends)
    for each, number in zip(joined, ends, strict=True):
        if (place := edge_index.find_near(each, without=taken) if number is None else number) is not None:
            found[place].append(each.reshard)
    return [_replace_moves(edge, found[number], mesh) for number, edge in enumerate(planned.edges) if found[number] or not edge.moves]


def _replace_moves(edge: Edge, moves: list[InsertedCollective], mesh: Mesh) -> Edge:
    sent = tuple(each.kind for each in moves)
    is_as_planned = sent == tuple(kind for kind in edge.kinds if kind != SLICE)
    kinds = edge.kinds if is_as_planned else (*edge.kinds[:1], *sent) if edge.kinds[0] == SLICE else sent
    return replace(edge, moves=tuple(moves), kinds=kinds, temporary=largest_move_bytes(moves, mesh))


def attach_warnings(edges: Sequence[Edge], warned: Iterable[tuple[int | None, GatheredWhole]], mesh: Mesh) -> list[Edge]:
    """The edges with XLA's warnings about them, for edges that gather something."""
    found: dict[int, list[GatheredWhole]] = defaultdict(list)
    gathered = [number for number, each in enumerate(edges) if any(move.kind == "all-gather" for move in each.moves)]
    for operation, warning in warned:
        matching = [number for number in gathered if operation in (edges[number].source, *edges[number].readers)]
        for number in _edges_of_warning(warning, edges, gathered if operation is None else matching, mesh, is_sure=operation is not None):
            found[number].append(warning)
    return [replace(edge, gathered_whole=tuple(found[number])) for number, edge in enumerate(edges)]


def _edges_of_warning(warning: GatheredWhole, edges: Sequence[Edge], numbers: Sequence[int], mesh: Mesh, *, is_sure: bool) -> Sequence[int]:
    """Those of `edges` that a warning is about: shape and both shardings match. If the operation is right for sure, the same number of
    elements is enough, for XLA may have reshaped the value; or that there is no other edge."""
    if same := [number for number in numbers if _matches_warning(warning, edges[number], mesh)]:
        return same
    sized = [number for number in numbers if math.prod(_local_shape(edges[number], mesh)) == math.prod(_warned_shape(warning))]
    return (sized or (numbers if len(numbers) == 1 else [])) if is_sure else []


def _matches_warning(warning: GatheredWhole, edge: Edge, mesh: Mesh) -> bool:
    """Whether a value of this shape is split into as many shards on both sides as it is for the edge."""
    sides = ((warning.before, edge.before), (warning.after, edge.after))
    return _warned_shape(warning) == _local_shape(edge, mesh) and all(
        warned_parts(sharding_text, len(dims)) == _parts_of(dims, mesh) for sharding_text, dims in sides
    )


def _local_shape(edge: Edge, mesh: Mesh) -> tuple[int, ...]:
    return tuple(local_shape(edge.shape, edge.before, mesh))


def _warned_shape(warning: GatheredWhole) -> tuple[int, ...]:
    """The shape on one device of the value in the warning: `f32[8,16]`."""
    return tuple(map(int, re.findall(r"\d+", warning.shape.partition("[")[2])))


def warned_parts(sharding_text: str, rank: int) -> tuple[int, ...]:
    """The number of shards of each dimension, from a sharding as XLA writes it.

    >>> warned_parts("{devices=[2,1,4]<=[8]}", 3), warned_parts("{replicated}", 2)
    ((2, 1, 4), (1, 1))
    """
    found = _DEVICES.search(sharding_text)
    return tuple(map(int, found[1].split(",")))[:rank] if found else (1,) * rank


def _parts_of(dims: Dims, mesh: Mesh) -> tuple[int, ...]:
    return tuple(math.prod(axis_size(axis, mesh) for axis in axes) for axes in dims)


class _EdgeIndex:
    """The edges by their ends."""

    def __init__(self, planned: Propagated, mesh: Mesh) -> None:
        self._edges, self._mesh = planned.edges, mesh
        self._planned_reduction_sources = {each.source for each in planned.reshards if each.kind in _REDUCTIONS}
        self._by_source: dict[int | None, set[int]] = defaultdict(set)
        self._by_reader: dict[int | None, set[int]] = defaultdict(set)
        for number, edge in enumerate(planned.edges):
            for source in _possible_names(planned.structure, edge.source):
                self._by_source[source].add(number)
            for reader in {name for each in edge.readers for name in _possible_names(planned.structure, each)}:
                self._by_reader[reader].add(number)

    def find_between(self, each: JoinedCollective) -> int | None:
        """The edge from what makes the operand to what reads the result; of several, the one that fits best."""
        if each.reshard.kind in _REDUCTIONS:
            return self._find_gather_done_as_sum(each)
        both = self._by_source.get(each.maker, set()) & self._by_reader.get(each.reader, set())
        return self._best_edge(sorted(both), each.reshard, least=int(each.maker is None or each.reader is None))

    def find_near(self, each: JoinedCollective, without: Container[int | None]) -> int | None:
        """An edge not in `without` that shares an end with the collective; any that is read there, if the maker is not known."""
        if each.reshard.kind in _REDUCTIONS:
            return None
        ends = [end for end in (each.maker, each.reader) if end is not None]
        touching = (number for end in ends for place in (self._by_source, self._by_reader) for number in sorted(place.get(end, ())))
        found = self._best_edge((number for number in touching if number not in without), each.reshard, least=1)
        if found is None and each.maker is None and each.reader is not None:
            return self._best_edge(sorted(self._by_reader.get(each.reader, ())), each.reshard, least=1)
        return found

    def _find_gather_done_as_sum(self, each: JoinedCollective) -> int | None:
        """The edge of a thin value, which is summed over devices instead of gathered, and is named after its reader: no sum of the
        program's."""
        if each.maker is None or each.maker in self._planned_reduction_sources:
            return None
        return self._best_edge(sorted(self._by_reader.get(each.maker, ())), each.reshard, least=1)

    def _best_edge(self, numbers: Iterable[int], move: InsertedCollective, least: int = 0) -> int | None:
        ratings = {number: rating for number in numbers if (rating := _rate_fit(self._edges[number], move, self._mesh)) >= least}
        return max(ratings, key=lambda number: ratings[number], default=None)


def _rate_fit(edge: Edge, move: InsertedCollective, mesh: Mesh) -> int:
    """How well a collective fits an edge: 2, Shardy has the same one there; 1, payload and axes are possible for the edge; 0, they are
    not."""
    if any((each.kind, set(each.axes), each.payload) == (move.kind, set(move.axes), move.payload) for each in edge.moves):
        return 2
    changed = {base_axis(axis) for old, new in zip(edge.before, edge.after, strict=True) if old != new for axis in (*old, *new)}
    return int(changed >= {base_axis(axis) for axis in move.axes} and move.payload <= _most_bytes(edge, mesh))


def _most_bytes(edge: Edge, mesh: Mesh) -> float:
    """Bytes of the whole value with the padding of uneven shards; a back end may send two bytes as four."""
    sides = (
        math.prod(-(-size // n) * n for size, n in zip(edge.shape, _parts_of(dims, mesh), strict=True))
        for dims in (edge.before, edge.after)
    )
    return max(sides) * max(itemsize(edge.dtype), 4)


def _possible_names(structure: Structure, operation: int | None) -> set[int | None]:
    """The operations whose names XLA may give to an operation: none for one that passes a value on, and at times for a constraint."""
    kind = structure.ops[operation].kind if operation is not None else ""
    return {None} if kind in _PASS_THROUGH else {operation, None} if kind in _CONSTRAINTS else {operation}
