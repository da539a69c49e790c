"""The reshardings of a report, read from the partitioner's edges."""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

from workbench.core.sharding import Sharding, axis_size, base_axis
from workbench.plan.plan import Plan
from workbench.propagation.propagated_plan import Propagated
from workbench.propagation.reshard_edges import SLICE, Edge
from workbench.propagation.shardy_collectives import InsertedCollective
from workbench.reports.collective import sent_bytes
from workbench.reports.reshard import REMATERIALISED, Reshard, ReshardCollective

Seconds = Callable[[list[InsertedCollective]], list[float]]


def reshard_list(plan: Plan, partitioned: Propagated, seconds_of: Seconds) -> tuple[Reshard, ...]:
    """Reshardings with counts: full gathers by XLA first, then by bytes sent."""
    counts: Counter[Reshard] = Counter()
    for edge in partitioned.edges:
        if edge.before != edge.after:
            for times, part in _parts_by_executions(edge, partitioned):
                counts[_make_reshard(plan, part, seconds_of)] += times
    merged = (replace(counted, count=count) for counted, count in counts.items())
    return tuple(sorted(merged, key=lambda row: (not row.rematerialises, -row.sent, row.path)))


def _parts_by_executions(edge: Edge, partitioned: Propagated) -> Iterator[tuple[int, Edge]]:
    """Executions per step, and the part of an edge that runs as often: XLA may move some of its collectives out of a loop, others not."""
    regions = partitioned.structure.regions
    if not edge.moves:
        yield regions[edge.region].runs_per_step, edge
    counts = [regions[each.region].runs_per_step if each.times is None else each.times for each in edge.moves]
    for count in dict.fromkeys(counts):
        yield count, replace(edge, moves=tuple(each for each, times in zip(edge.moves, counts, strict=True) if times == count))


def _make_reshard(plan: Plan, edge: Edge, seconds_of: Seconds) -> Reshard:
    operations, reader = plan.program.operations, plan.program.operations[edge.readers[0]]
    if edge.source is not None:
        maker = operations[edge.source]
        path, source, dims = maker.path, maker.source, maker.dims if maker.shape == edge.shape else ("_",) * len(edge.shape)
    elif edge.argument is not None:
        tensor = plan.program.arguments[edge.argument]
        path, source, dims = tensor.path, "", tensor.dims
    else:
        path, source, dims = reader.path, reader.source, ("_",) * len(edge.shape)
    return Reshard(
        path,
        source,
        reader.path or "the result",
        reader.source,
        edge.shape,
        dims,
        edge.dtype,
        Sharding(edge.before),
        Sharding(edge.after),
        classify_edge(edge),
        tuple(_make_move(plan, move, seconds) for move, seconds in zip(edge.moves, seconds_of(list(edge.moves)), strict=True)),
        edge.temporary,
        1,
        edge.argument is not None,
    )


def _make_move(plan: Plan, each: InsertedCollective, seconds: float) -> ReshardCollective:
    devices = math.prod(axis_size(axis, plan.mesh) for axis in each.axes)
    axes = tuple(dict.fromkeys(map(base_axis, each.axes)))
    return ReshardCollective(each.kind, axes, each.payload, sent_bytes(each.kind, each.payload, devices), seconds)


# Classes of reshardings: XLA's partitioner has eight paths (`spmd_partitioner.cc`, `ReshardNoCache`).


def classify_edge(edge: Edge) -> tuple[int, ...]:
    """The path of this resharding among the eight of XLA's `ReshardNoCache`; two numbers for one path after another."""
    kinds = tuple(dict.fromkeys("all-gather" if kind == "all-reduce" else kind for kind in edge.kinds))  # size-1 dimensions are summed
    path_class = (REMATERIALISED,) if edge.gathered_whole else _OF_KINDS.get(kinds, (7,)) if kinds else (1,)
    return ((2,) if edge.is_manual else ()) + path_class


_OF_KINDS: dict[tuple[str, ...], tuple[int, ...]] = {
    ("collective-permute",): (3,),
    ("all-to-all",): (4,),
    (SLICE,): (5,),
    (SLICE, "collective-permute"): (5, 3),
    ("all-gather",): (6,),
    ("collective-permute", "all-gather"): (3, 6),
    (SLICE, "collective-permute", "all-gather"): (5, 3, 6),
}
