"""Gradients of a micro-batch as partial sums, one for each data-parallel part of it. Devices that share the micro-batches of a step sum
their own parts of a gradient, and sum over each other once, at the step's end, instead of once for every micro-batch.

The gradient of a weight ends in an operation that sums over the batch (a product, a sum, a scatter), and whatever follows is linear in
that sum. So the operation is done on each part alone, and what follows on each partial sum, inside a layer that is computed again as well
as outside. This is exact for any network, batch normalisation too, for nothing before is touched; what ends in another way (a convolution)
is left as it is.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import jax
from jax.extend import core as jex_core

from workbench.tracing.grad_accumulation.partial_sums_jaxpr import PartialSumJaxpr
from workbench.tracing.stage_partition.stage_tasks import TracedStageTask


@dataclass(frozen=True)
class DataParallelGroups:
    """The data-parallel groups of a stage: a micro-batch is in `count` parts, along mesh axes `axes`; `param_slices` are the numbers of the
    network's parameter slices that every part has whole."""

    axes: tuple[str, ...] = ()
    count: int = 1
    param_slices: frozenset[int] = frozenset()


NO_GROUPS = DataParallelGroups()


def split_gradients(task: TracedStageTask, count: int, batch: int, places: Collection[int]) -> tuple[TracedStageTask, frozenset[int]]:
    """The task with gradients of these `places` as `count` partial sums along a new first dimension, and of which places it has them so.

    `batch` is the size of the micro-batch: the dimension summed over is as large, or comes first and is a multiple of it.
    """
    gradients = {i: position for i, (group, position) in enumerate(task.gives) if group == "gradient" and position in places}
    if count < 2 or not batch or batch % count or not gradients:
        return task, frozenset()
    jaxpr = PartialSumJaxpr(jax.make_jaxpr(task.call)(*task.specs), count, batch)
    split = [i for i in gradients if i in jaxpr.partial_results]
    if not split:
        return task, frozenset()
    others = [i for i in range(len(task.gives)) if i not in split]
    results = jaxpr.rewrite(others, split)
    order = [[*others, *split].index(i) for i in range(len(task.gives))]

    def call(*values: Any) -> tuple[Any, ...]:
        found = jex_core.jaxpr_as_fun(results.closed)(*(values[i] for i in results.wholes))
        return tuple(found[place] for place in order)

    return replace(task, call=call), frozenset(gradients[i] for i in split)
