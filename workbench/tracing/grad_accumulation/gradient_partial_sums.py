"""Gradients of a micro-batch as partial sums, one for each data-parallel part of it. Devices that share the micro-batches of a step sum
their own parts of a gradient, and sum over each other once, at the step's end, instead of once for every micro-batch.

The gradient of a weight ends in an operation that sums over the batch (a product, a sum, a scatter), and whatever follows is linear in
that sum. So the operation is done on each part alone, and what follows on each partial sum, inside a layer that is computed again as well
as outside. This is exact for any network, batch normalisation too, for nothing before is touched; what ends in another way (a convolution)
is left as it is.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
from jax.extend import core as jex_core

from workbench.tracing.grad_accumulation.partial_sums_jaxpr import PartialSumJaxpr
from workbench.tracing.grad_accumulation.summing_equations import PartialSumResults
from workbench.tracing.stage_partition.stage_tasks import TracedStageTask


@dataclass(frozen=True)
class DataParallelGroups:
    """The data-parallel groups of a stage: a micro-batch is in `count` parts, along mesh axes `axes`; `param_slices` are the numbers of the
    network's parameter slices that every part has whole."""

    axes: tuple[str, ...] = ()
    count: int = 1
    param_slices: frozenset[int] = frozenset()

    def among(self, param_slices: Iterable[int]) -> "DataParallelGroups":
        """As far as they concern a block with these parameter slices: none, where it has no gradient as partial sums, however many groups
        there are."""
        own = self.param_slices.intersection(param_slices)
        return replace(self, param_slices=own) if own else NO_GROUPS


NO_GROUPS = DataParallelGroups()


def split_gradients(task: TracedStageTask, count: int, batch: int, places: Collection[int]) -> tuple[TracedStageTask, frozenset[int]]:
    """The task with gradients of these `places` as `count` partial sums along a new first dimension, and of which places it has them so.

    `batch` is the size of the micro-batch: the dimension summed over is as large, or comes first and is a multiple of it.
    """
    gradients = _list_gradients(task, places)
    if not _divides(count, batch) or not gradients:
        return task, frozenset()
    jaxpr = _find_partial_sums(task, count, batch)
    split = [i for i in gradients if i in jaxpr.partial_results]
    if not split:
        return task, frozenset()
    return _rewrite_task(task, jaxpr, split)[0], frozenset(gradients[i] for i in split)


def split_halves(
    halves: tuple[TracedStageTask, TracedStageTask], count: int, batch: int, places: Collection[int]
) -> tuple[tuple[TracedStageTask, TracedStageTask], frozenset[int]]:
    """As `split_gradients`, for the halves of a backward pass: of sums that the gradient of the input leaves for that of the weights, the
    parts are handed over (of a layer that is computed again, both gradients are one equation)."""
    first, second = halves
    gradients = _list_gradients(second, places)
    if not _divides(count, batch) or not gradients:
        return halves, frozenset()
    before = _find_partial_sums(first, count, batch)
    passed = {place: i for i, (group, place) in enumerate(first.gives) if group == "pending" and i in before.partial_results}
    given = frozenset(i for i, (group, place) in enumerate(second.reads) if group == "pending" and place in passed)
    while True:
        after = _find_partial_sums(second, count, batch, given)
        split = [i for i in gradients if i in after.partial_results]
        rewritten, read = _rewrite_task(second, after, split)
        if not (read_both_ways := given.intersection(read.wholes)):
            break
        given -= read_both_ways
    left = [passed[second.reads[i][1]] for i in read.partials]
    return (_rewrite_task(first, before, left)[0], rewritten), frozenset(gradients[i] for i in split)


def _list_gradients(task: TracedStageTask, places: Collection[int]) -> dict[int, int]:
    """The place of each result that is a gradient of one of `places`, by the number of the result."""
    return {i: place for i, (group, place) in enumerate(task.gives) if group == "gradient" and place in places}


def _divides(count: int, batch: int) -> bool:
    return count > 1 and batch > 0 and batch % count == 0


def _find_partial_sums(task: TracedStageTask, count: int, batch: int, given: frozenset[int] = frozenset()) -> PartialSumJaxpr:
    return PartialSumJaxpr(jax.make_jaxpr(task.call)(*task.specs), count, batch, given)


def _rewrite_task(task: TracedStageTask, jaxpr: PartialSumJaxpr, split: Sequence[int]) -> tuple[TracedStageTask, PartialSumResults]:
    """The task with the results numbered `split`, and the arguments they are made from, as partial sums."""
    others = [i for i in range(len(task.gives)) if i not in split]
    results = jaxpr.rewrite(others, split)
    order = [[*others, *split].index(i) for i in range(len(task.gives))]
    specs = list(task.specs)
    for i in results.partials:
        specs[i] = jax.ShapeDtypeStruct((jaxpr.count, *specs[i].shape), specs[i].dtype)

    def call(*values: Any) -> tuple[Any, ...]:
        found = jex_core.jaxpr_as_fun(results.closed)(*(values[i] for i in (*results.wholes, *results.partials)))
        return tuple(found[place] for place in order)

    return replace(task, call=call, specs=tuple(specs)), results
