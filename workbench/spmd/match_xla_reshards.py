"""Assign XLA's collectives to edges of the plan: those between an edge's maker and its readers replace Shardy's."""

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
_NAMED, _AXIS = re.compile(r"mesh\[([^\]]*)\], \[(.*)\]"), re.compile(r"'([^']+)'(?::\(\d+\)(\d+))?")
_CONSTRAINTS = ("sdy.sharding_constraint",)
_PASS_THROUGH = ("return", "stablehlo.return", "func.return", "sdy.return")


class JoinedCollective(NamedTuple):
    """One of XLA's collectives with the operations that make its operand and read its result, if known."""

    reshard: InsertedCollective
    maker: int | None
    reader: int | None


def replace_edge_collectives(planned: Propagated, joined: Sequence[JoinedCollective], mesh: Mesh) -> list[Edge]:
    """Replace the edges' collectives with XLA's; an edge that XLA does not reshard is dropped.

    A collective from an edge's maker to its reader belongs to that edge. XLA may also reshard a value an operation
    earlier or later than Shardy: an edge without any such collective gets those that touch one of its ends and run over
    mesh axes that it changes.
    """
    edge_index = _EdgeIndex(planned, mesh)
    reshards: dict[int, list[InsertedCollective]] = defaultdict(list)
    ends = [edge_index.find_between(collective) for collective in joined]
    matched = set(ends)
    for collective, number in zip(joined, ends, strict=True):
        if (place := edge_index.find_near(collective, without=matched) if number is None else number) is not None:
            reshards[place].append(collective.reshard)
    return [_replace_moves(edge, reshards[number], mesh) for number, edge in enumerate(planned.edges) if reshards[number] or not edge.moves]


def _replace_moves(edge: Edge, moves: list[InsertedCollective], mesh: Mesh) -> Edge:
    move_kinds = tuple(move.kind for move in moves)
    is_as_planned = move_kinds == tuple(kind for kind in edge.kinds if kind != SLICE)
    kinds = edge.kinds if is_as_planned else (*edge.kinds[:1], *move_kinds) if edge.kinds[0] == SLICE else move_kinds
    return replace(edge, moves=tuple(moves), kinds=kinds, temporary=largest_move_bytes(moves, mesh))


def attach_warnings(edges: Sequence[Edge], warned: Iterable[tuple[int | None, GatheredWhole]], mesh: Mesh) -> list[Edge]:
    """Attach XLA's warnings to the edges with an all-gather that they refer to."""
    warnings_by_edge: dict[int, list[GatheredWhole]] = defaultdict(list)
    gathered = [number for number, candidate in enumerate(edges) if any(move.kind == "all-gather" for move in candidate.moves)]
    for operation, warning in warned:
        matching = [number for number in gathered if operation in (edges[number].source, *edges[number].readers)]
        for number in _edges_of_warning(warning, edges, gathered if operation is None else matching, mesh, is_sure=operation is not None):
            warnings_by_edge[number].append(warning)
    return [replace(edge, gathered_whole=tuple(warnings_by_edge[number])) for number, edge in enumerate(edges)]


def _edges_of_warning(warning: GatheredWhole, edges: Sequence[Edge], numbers: Sequence[int], mesh: Mesh, *, is_sure: bool) -> Sequence[int]:
    """Select a warning's edges by shape and shardings, or if `is_sure` by size, as XLA may reshape, or as the only one."""
    if exact := [number for number in numbers if _matches_warning(warning, edges[number], mesh)]:
        return exact
    same_size = [number for number in numbers if math.prod(_local_shape(edges[number], mesh)) == math.prod(_warned_shape(warning))]
    return (same_size or (numbers if len(numbers) == 1 else [])) if is_sure else []


def _matches_warning(warning: GatheredWhole, edge: Edge, mesh: Mesh) -> bool:
    sides = ((warning.before, edge.before), (warning.after, edge.after))
    return _warned_shape(warning) == _local_shape(edge, mesh) and all(
        shard_counts(sharding_text, len(dims)) == _parts_of(dims, mesh) for sharding_text, dims in sides
    )


def _local_shape(edge: Edge, mesh: Mesh) -> tuple[int, ...]:
    return tuple(local_shape(edge.shape, edge.before, mesh))


def _warned_shape(warning: GatheredWhole) -> tuple[int, ...]:
    """Shape per device of the warning's value, `f32[8,16]`."""
    return tuple(map(int, re.findall(r"\d+", warning.shape.partition("[")[2])))


def shard_counts(sharding_text: str, rank: int) -> tuple[int, ...]:
    """Number of shards of each dimension of a sharding in XLA's notation.

    >>> shard_counts("{devices=[2,1,4]<=[8]}", 3), shard_counts("{replicated}", 2)
    ((2, 1, 4), (1, 1))
    >>> shard_counts("{mesh['r'=2,'c'=4], [{'r'}, {}, {'c':(1)2, 'r'}]}", 3)  # so from JAX 0.12 on
    (2, 1, 4)
    """
    if named := _NAMED.search(sharding_text):
        sizes = dict(re.findall(r"'([^']+)'=(\d+)", named[1]))
        axes_by_dim = (_AXIS.findall(dim) for dim in re.findall(r"\{([^{}]*)\}", named[2]))
        return tuple(math.prod(int(part or sizes[axis]) for axis, part in axes) for axes in axes_by_dim)
    match = _DEVICES.search(sharding_text)
    return tuple(map(int, match[1].split(",")))[:rank] if match else (1,) * rank


def _parts_of(dims: Dims, mesh: Mesh) -> tuple[int, ...]:
    return tuple(math.prod(axis_size(axis, mesh) for axis in axes) for axes in dims)


class _EdgeIndex:
    def __init__(self, planned: Propagated, mesh: Mesh) -> None:
        self._edges, self._mesh = planned.edges, mesh
        self._planned_reduction_sources = {reshard.source for reshard in planned.reshards if reshard.kind in _REDUCTIONS}
        self._by_source: dict[int | None, set[int]] = defaultdict(set)
        self._by_reader: dict[int | None, set[int]] = defaultdict(set)
        for number, edge in enumerate(planned.edges):
            for source in _possible_names(planned.structure, edge.source):
                self._by_source[source].add(number)
            for reader in {name for operation in edge.readers for name in _possible_names(planned.structure, operation)}:
                self._by_reader[reader].add(number)

    def find_between(self, each: JoinedCollective) -> int | None:
        """Return the best-fitting edge from the maker of the operand to the reader of the result."""
        if each.reshard.kind in _REDUCTIONS:
            return self._find_gather_done_as_sum(each)
        both = self._by_source.get(each.maker, set()) & self._by_reader.get(each.reader, set())
        return self._best_edge(sorted(both), each.reshard, least=int(each.maker is None or each.reader is None))

    def find_near(self, each: JoinedCollective, without: Container[int | None]) -> int | None:
        if each.reshard.kind in _REDUCTIONS:
            return None
        ends = [end for end in (each.maker, each.reader) if end is not None]
        candidates = (number for end in ends for place in (self._by_source, self._by_reader) for number in sorted(place.get(end, ())))
        edge = self._best_edge((number for number in candidates if number not in without), each.reshard, least=1)
        if edge is None and each.maker is None and each.reader is not None:
            return self._best_edge(sorted(self._by_reader.get(each.reader, ())), each.reshard, least=1)
        return edge

    def _find_gather_done_as_sum(self, each: JoinedCollective) -> int | None:
        """Return the edge of a value that is summed instead of gathered; the sum has the reader's name."""
        if each.maker is None or each.maker in self._planned_reduction_sources:
            return None
        return self._best_edge(sorted(self._by_reader.get(each.maker, ())), each.reshard, least=1)

    def _best_edge(self, numbers: Iterable[int], move: InsertedCollective, least: int = 0) -> int | None:
        ratings = {number: rating for number in numbers if (rating := _rate_fit(self._edges[number], move, self._mesh)) >= least}
        return max(ratings, key=lambda number: ratings[number], default=None)


def _rate_fit(edge: Edge, move: InsertedCollective, mesh: Mesh) -> int:
    """Rate a collective for an edge: 2 if Shardy has the same, 1 if payload and axes are possible, else 0."""
    if any((planned.kind, set(planned.axes), planned.payload) == (move.kind, set(move.axes), move.payload) for planned in edge.moves):
        return 2
    changed = {base_axis(axis) for old, new in zip(edge.before, edge.after, strict=True) if old != new for axis in (*old, *new)}
    return int(changed >= {base_axis(axis) for axis in move.axes} and move.payload <= _most_bytes(edge, mesh))


def _most_bytes(edge: Edge, mesh: Mesh) -> float:
    sides = (
        math.prod(-(-size // n) * n for size, n in zip(edge.shape, _parts_of(dims, mesh), strict=True))
        for dims in (edge.before, edge.after)
    )
    return max(sides) * max(itemsize(edge.dtype), 4)


def _possible_names(structure: Structure, operation: int | None) -> set[int | None]:
    """Operations whose names XLA may use: none if a value is passed on, and sometimes for a constraint."""
    kind = structure.ops[operation].kind if operation is not None else ""
    return {None} if kind in _PASS_THROUGH else {operation, None} if kind in _CONSTRAINTS else {operation}
