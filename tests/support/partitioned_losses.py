"""Stage partitions of losses without a program."""

from collections.abc import Callable, Sequence
from typing import Any

import jax

from workbench.tracing.leaves import named_leaves, spec_of
from workbench.tracing.stage_partition.partition_network import StagePartition, partition_network, starts_at
from workbench.tracing.stage_partition.trace_network import flatten_loss


def partition_loss(loss: Callable[..., Any], params: Any, batch: Any, boundaries: Sequence[str] = ()) -> StagePartition:
    """`loss(params, batch)` partitioned before the blocks with these paths; `batch` is one micro-batch. Arrays or their
    specs.

    Raises `PipelineError` for an unknown block and a loss with side effects, `TraceError` if JAX cannot trace it.
    """
    trees = []
    paths = []
    for root, tree in (("params", params), ("batch", batch)):
        names, leaves = named_leaves(root, tree)
        specs = [spec_of(path, leaf) for path, leaf in zip(names, leaves, strict=True)]
        trees.append(jax.tree.unflatten(jax.tree.structure(tree), specs))
        paths.append(names)
    network = flatten_loss(loss, (trees[0], trees[1]), paths[0], paths[1], 1, getattr(loss, "__name__", "loss"))
    return partition_network(network, starts_at(network, boundaries))
