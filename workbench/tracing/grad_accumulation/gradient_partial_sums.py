"""Gradients of a micro-batch as partial sums, one for each data-parallel shard of it.

Devices that share the micro-batches of a step sum their own shards of a gradient, and reduce over each other once at
the step's end instead of once per micro-batch. The gradient of a weight ends in an operation that sums over the batch
(a product, a sum, a scatter), followed by operations linear in that sum. So the summing operation is done on each shard
alone, and the rest on each partial sum, also inside recomputed layers. This is exact for any network, including batch
normalization, as nothing earlier changes; gradients that end differently (a convolution) are left unchanged.
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
    """A micro-batch's `count` shards along `axes`; `param_slices` are those that every shard holds whole."""

    axes: tuple[str, ...] = ()
    count: int = 1
    param_slices: frozenset[int] = frozenset()

    def among(self, param_slices: Iterable[int]) -> "DataParallelGroups":
        """The groups restricted to these parameter slices; `NO_GROUPS` if none of them has partial sums."""
        common = self.param_slices.intersection(param_slices)
        return replace(self, param_slices=common) if common else NO_GROUPS


NO_GROUPS = DataParallelGroups()


def split_gradients(task: TracedStageTask, count: int, batch: int, places: Collection[int]) -> tuple[TracedStageTask, frozenset[int]]:
    """The task with gradients of `places` as `count` partial sums along a new first dimension, and the places split so.

    `batch` is the micro-batch size: the summed dimension is as large, or comes first and is a multiple of it.
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
    """`split_gradients` for the halves of a backward pass, with partial sums passed from the first to the second."""
    first, second = halves
    gradients = _list_gradients(second, places)
    if not _divides(count, batch) or not gradients:
        return halves, frozenset()
    before = _find_partial_sums(first, count, batch)
    passed = {place: i for i, (group, place) in enumerate(first.gives) if group == "pending" and i in before.partial_results}
    passed_partials = frozenset(i for i, (group, place) in enumerate(second.reads) if group == "pending" and place in passed)
    while True:
        after = _find_partial_sums(second, count, batch, passed_partials)
        split = [i for i in gradients if i in after.partial_results]
        rewritten, read = _rewrite_task(second, after, split)
        if not (read_both_ways := passed_partials.intersection(read.wholes)):
            break
        passed_partials -= read_both_ways
    handed_over = [passed[second.reads[i][1]] for i in read.partials]
    return (_rewrite_task(first, before, handed_over)[0], rewritten), frozenset(gradients[i] for i in split)


def _list_gradients(task: TracedStageTask, places: Collection[int]) -> dict[int, int]:
    return {i: place for i, (group, place) in enumerate(task.gives) if group == "gradient" and place in places}


def _divides(count: int, batch: int) -> bool:
    return count > 1 and batch > 0 and batch % count == 0


def _find_partial_sums(task: TracedStageTask, count: int, batch: int, given: frozenset[int] = frozenset()) -> PartialSumJaxpr:
    return PartialSumJaxpr(jax.make_jaxpr(task.call)(*task.specs), count, batch, given)


def _rewrite_task(task: TracedStageTask, jaxpr: PartialSumJaxpr, split: Sequence[int]) -> tuple[TracedStageTask, PartialSumResults]:
    """The task with the results in `split`, and the arguments they are made from, as partial sums."""
    others = [i for i in range(len(task.gives)) if i not in split]
    results = jaxpr.rewrite(others, split)
    order = [[*others, *split].index(i) for i in range(len(task.gives))]
    specs = list(task.specs)
    for i in results.partials:
        specs[i] = jax.ShapeDtypeStruct((jaxpr.count, *specs[i].shape), specs[i].dtype)

    def call(*values: Any) -> tuple[Any, ...]:
        values_by_number = jex_core.jaxpr_as_fun(results.closed)(*(values[i] for i in (*results.wholes, *results.partials)))
        return tuple(values_by_number[place] for place in order)

    return replace(task, call=call, specs=tuple(specs)), results
