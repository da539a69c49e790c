"""The reshardings of a report, read off the partitioner's edges."""

import math
from collections.abc import Callable
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
    """Reshardings, alike ones of one place together: what XLA gathers whole first, then by the bytes sent."""
    counts: dict[Reshard, int] = {}
    for edge in partitioned.edges:
        if edge.before != edge.after:
            found = _make_reshard(plan, edge, seconds_of)
            counts[found] = counts.get(found, 0) + _count_executions(edge, partitioned)
    merged = (replace(each, count=count) for each, count in counts.items())
    return tuple(sorted(merged, key=lambda each: (not each.rematerialises, -each.sent, each.path)))


def _count_executions(edge: Edge, partitioned: Propagated) -> int:
    """Executions per step: those of its collectives, for XLA moves out of a loop what no iteration changes."""
    if edge.moves and (times := edge.moves[0].times) is not None:
        return times
    return partitioned.structure.regions[edge.moves[0].region if edge.moves else edge.region].runs_per_step


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
        tuple(_make_move(plan, each, seconds) for each, seconds in zip(edge.moves, seconds_of(list(edge.moves)), strict=True)),
        edge.temporary,
        1,
        edge.argument is not None,
    )


def _make_move(plan: Plan, each: InsertedCollective, seconds: float) -> ReshardCollective:
    devices = math.prod(axis_size(axis, plan.mesh) for axis in each.axes)
    axes = tuple(dict.fromkeys(map(base_axis, each.axes)))
    return ReshardCollective(each.kind, axes, each.payload, sent_bytes(each.kind, each.payload, devices), seconds)


# Which way a resharding takes: XLA's partitioner has eight (`spmd_partitioner.cc`, `ReshardNoCache`).


def classify_edge(edge: Edge) -> tuple[int, ...]:
    """Which of the eight ways of XLA's `ReshardNoCache` this is; two where it takes one after the other."""
    kinds = tuple(dict.fromkeys("all-gather" if kind == "all-reduce" else kind for kind in edge.kinds))  # a thin one is summed
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
