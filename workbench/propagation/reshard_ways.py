"""Which way a resharding takes: XLA's partitioner has eight (`spmd_partitioner.cc`, `ReshardNoCache`)."""

from workbench.propagation.reshard_edges import SLICE, Edge
from workbench.reports.reshard import REMATERIALISED


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
