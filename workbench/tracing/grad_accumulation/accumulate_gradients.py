"""A task of a stage as it runs: its gradients are added to accumulators, and several that arrive for one value are summed first.

Devices that share the micro-batches keep partial sums, each of its own parts (`gradient_partial_sums`)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from workbench.tracing.grad_accumulation.gradient_partial_sums import NO_GROUPS, DataParallelGroups, split_gradients, split_halves
from workbench.tracing.stage_partition.stage_tasks import StageTasks, TracedStageTask
from workbench.tracing.stage_partition.stage_update import accumulator

Call = Callable[..., tuple[Any, ...]]


@dataclass(frozen=True)
class GradAccumulation:
    """`call(*totals, *arguments) -> (*totals, *results)`, traceable.

    - `totals`: places (among the virtual stage's parameter slices) of the accumulators it adds to; `sums` their shapes and types;
    - `split`: those of the places whose accumulators are partial sums, along a first dimension;
    - `reads` and `specs` of the arguments: the task's; a gradient that arrives from several stages is listed as often;
    - `gives`: the task's results without gradients;
    - `partial`: the numbers of the arguments, among `reads`, that are partial sums.
    """

    call: Call
    totals: tuple[int, ...]
    split: frozenset[int]
    sums: tuple[jax.ShapeDtypeStruct, ...]
    reads: tuple[tuple[str, int], ...]
    specs: tuple[jax.ShapeDtypeStruct, ...]
    gives: tuple[tuple[str, int], ...]
    partial: frozenset[int]


def accumulate_grads(
    stage: StageTasks,
    task: TracedStageTask,
    parts: DataParallelGroups = NO_GROUPS,
    *,
    add_separately: bool = False,
) -> GradAccumulation:
    """One of the stage's tasks with its gradients accumulated; a forward task has none. `add_separately`: gradients are made before they
    are added."""
    whole = task
    task, split = split_task(stage, task, parts)
    counts = [_count_arrivals(stage, place) if group == "arriving" else 1 for group, place in task.reads]
    totals = tuple(place for group, place in task.gives if group == "gradient")
    repeated = [i for i, count in enumerate(counts) for _ in range(count)]
    return GradAccumulation(
        _make_call(task, counts, len(totals), add_separately=add_separately),
        totals,
        split,
        tuple(
            partial_sums_spec(accumulator(stage.param_slices[place]), parts) if place in split else accumulator(stage.param_slices[place])
            for place in totals
        ),
        tuple(task.reads[i] for i in repeated),
        tuple(task.specs[i] for i in repeated),
        tuple(each for each in task.gives if each[0] != "gradient"),
        frozenset(number for number, i in enumerate(repeated) if task.specs[i].shape != whole.specs[i].shape),
    )


def split_task(stage: StageTasks, task: TracedStageTask, parts: DataParallelGroups) -> tuple[TracedStageTask, frozenset[int]]:
    """The task with its gradients as partial sums where possible, and the places of those."""
    network = stage.partition.network
    size = dict(network.batch_sizes).get(network.batch_dim, 0)
    places = [place for place, param_slice in enumerate(stage.virtual_stage.param_slices) if param_slice in parts.param_slices]
    if (halves := stage.find_halves(task)) is None:
        return split_gradients(task, parts.count, size, places)
    split, found = split_halves(halves, parts.count, size, places)
    return (split[0], frozenset()) if task is halves[0] else (split[1], found)


def partial_sums_spec(whole: jax.ShapeDtypeStruct, parts: DataParallelGroups) -> jax.ShapeDtypeStruct:
    """Shape and type of the accumulator of one gradient, as partial sums."""
    return jax.ShapeDtypeStruct((parts.count, *whole.shape), whole.dtype)


def _count_arrivals(stage: StageTasks, place: int) -> int:
    """How many gradients arrive for an output value: one from each stage that reads it."""
    return len(stage.partition.values[stage.virtual_stage.output_activations[stage.arriving[place]]].readers)


def _make_call(task: TracedStageTask, counts: Sequence[int], width: int, *, add_separately: bool) -> Call:
    gradients = [i for i, (group, _) in enumerate(task.gives) if group == "gradient"]

    def run(*values: Any) -> tuple[Any, ...]:
        totals, rest = list(values[:width]), list(values[width:])
        arguments = []
        for count in counts:
            first, *more = rest[:count]
            del rest[:count]
            for each in more:
                first = first + each
            arguments.append(first)
        results = task.call(*arguments)
        if add_separately:  # what a product adds to is no argument then
            totals = [jax.lax.optimization_barrier(total) for total in totals]
        with jax.named_scope("accumulate"):
            fresh = [total + results[i].astype(total.dtype) for total, i in zip(totals, gradients, strict=True)]
        return (*fresh, *(each for i, each in enumerate(results) if i not in gradients))

    return run
