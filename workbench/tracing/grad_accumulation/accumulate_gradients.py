"""Adds the gradients of a stage's task to accumulators, after summing several gradients of one value.

Devices that share the micro-batches keep partial sums over their own shards (`gradient_partial_sums`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import optax

from workbench.core.program import Program
from workbench.tracing.grad_accumulation.gradient_partial_sums import NO_GROUPS, DataParallelGroups, split_gradients, split_halves
from workbench.tracing.grad_accumulation.micro_batch_marks import mean_gradient
from workbench.tracing.model_state import cast, of_trained, trained_tree
from workbench.tracing.stage_partition.partition_network import partition_network
from workbench.tracing.stage_partition.stage_tasks import StageTasks, TracedStageTask
from workbench.tracing.stage_partition.stage_update import accumulator
from workbench.tracing.stage_partition.trace_network import network_of

Call = Callable[..., tuple[Any, ...]]


@dataclass(frozen=True)
class GradAccumulation:
    """`call(*totals, *arguments) -> (*totals, *results)`, traceable.

    - `totals`: positions of the accumulators among the virtual stage's parameter slices; `sums`: their shapes and
      types;
    - `split`: the positions whose accumulators are partial sums, along a first dimension;
    - `reads`, `specs`: the task's arguments; a gradient that arrives from several stages is listed once per stage;
    - `gives`: the task's results without gradients;
    - `partial`: indices into `reads` of arguments that are partial sums.
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
    stage: StageTasks, task: TracedStageTask, parts: DataParallelGroups = NO_GROUPS, *, add_separately: bool = False
) -> GradAccumulation:
    """A task with its gradients accumulated; `add_separately`: gradients are materialized before they are added."""
    whole, accumulators = task, {place: accumulator(stage.param_slices[place], stage.partition.network.sums) for place in stage.trained}
    task, split = split_task(stage, task, parts)
    counts = [_count_arrivals(stage, place) if group == "arriving" else 1 for group, place in task.reads]
    totals = tuple(place for group, place in task.gives if group == "gradient")
    repeated = [i for i, count in enumerate(counts) for _ in range(count)]
    return GradAccumulation(
        _make_call(task, counts, len(totals), add_separately=add_separately),
        totals,
        split,
        tuple(partial_sums_spec(accumulators[place], parts) if place in split else accumulators[place] for place in totals),
        tuple(task.reads[i] for i in repeated),
        tuple(task.specs[i] for i in repeated),
        tuple(item for item in task.gives if item[0] != "gradient"),
        frozenset(number for number, i in enumerate(repeated) if task.specs[i].shape != whole.specs[i].shape),
    )


def split_task(stage: StageTasks, task: TracedStageTask, parts: DataParallelGroups) -> tuple[TracedStageTask, frozenset[int]]:
    """The task with its gradients as partial sums where possible, and the positions of those."""
    network = stage.partition.network
    size = dict(network.batch_sizes).get(network.batch_dim, 0)
    places = [place for place, param_slice in enumerate(stage.virtual_stage.param_slices) if param_slice in parts.param_slices]
    if (halves := stage.find_halves(task)) is None:
        return split_gradients(task, parts.count, size, places)
    split, split_places = split_halves(halves, parts.count, size, places)
    return (split[0], frozenset()) if task is halves[0] else (split[1], split_places)


def partial_sums_spec(whole: jax.ShapeDtypeStruct, parts: DataParallelGroups) -> jax.ShapeDtypeStruct:
    """Shape and type of the accumulator of one gradient, as partial sums."""
    return jax.ShapeDtypeStruct((parts.count, *whole.shape), whole.dtype)


def _count_arrivals(stage: StageTasks, place: int) -> int:
    return len(stage.partition.values[stage.virtual_stage.output_activations[stage.arriving[place]]].readers)


def _make_call(task: TracedStageTask, counts: Sequence[int], width: int, *, add_separately: bool) -> Call:
    gradients = [i for i, (group, _) in enumerate(task.gives) if group == "gradient"]

    def run(*values: Any) -> tuple[Any, ...]:
        totals, rest = list(values[:width]), list(values[width:])
        arguments = []
        for count in counts:
            first, *more = rest[:count]
            del rest[:count]
            for item in more:
                first = first + item
            arguments.append(first)
        results = task.call(*arguments)
        if add_separately:  # keeps a product from fusing the addition
            totals = [jax.lax.optimization_barrier(total) for total in totals]
        with jax.named_scope("accumulate"):
            fresh = [total + results[i].astype(total.dtype) for total, i in zip(totals, gradients, strict=True)]
        return (*fresh, *(item for i, item in enumerate(results) if i not in gradients))

    return run


# A training step by gradient accumulation: the whole loss on each micro-batch in turn, gradients summed, one update.
#
# The reference for pipelines with any number of stages.

Step = Callable[[Sequence[Any], Sequence[Sequence[Any]]], tuple[Any, list[Any]]]


def grad_accumulation_step(program: Program, micro_batches: int) -> Step:
    """`step(state, batches) -> (loss, new state)` of flat parameters and optimizer state, and the leaves of each
    micro-batch.

    One micro-batch and the update are compiled; Python runs between them.
    """
    training = program.step.training
    assert training is not None, "asked of training steps"
    count = training.params.num_leaves
    one, update = jax.jit(_make_micro_batch(program, micro_batches)), jax.jit(_make_update(program, micro_batches))

    def step(state: Sequence[Any], batches: Sequence[Sequence[Any]]) -> tuple[Any, list[Any]]:
        parts = [one(list(state[:count]), list(batch)) for batch in batches]
        losses, weights, gradients = (list(item) for item in zip(*parts, strict=True))
        total = sum(weights[1:], start=weights[0])
        sums = gradients[0]
        for item in gradients[1:]:
            sums = jax.tree.map(jnp.add, sums, item)
        return sum(losses[1:], start=losses[0]) / total, update(list(state), sums, total)

    return step


def _make_micro_batch(program: Program, micro_batches: int) -> Callable[[list[Any], list[Any]], Any]:
    """Loss times weight, the weight, and the gradient of the former; the loss as written, without stages."""
    training, network = program.step.training, network_of(program, micro_batches)
    assert training is not None, "asked of training steps"
    virtual_stage = partition_network(network, ()).virtual_stages[0]

    def weight_of(params: list[Any], batch: list[Any]) -> Any:
        if network.flat.weight is None:
            return jnp.ones(())
        param_slices = [network.flat.param_slices[number][0] for number in virtual_stage.param_slices]
        values = [params[leaf] if layer is None else params[leaf][layer : layer + 1] for leaf, layer in param_slices]
        return virtual_stage.call(*values, *(batch[i] for i in virtual_stage.batch))[-1]

    def run(params: list[Any], batch: list[Any]) -> Any:
        weight = weight_of(params, batch)

        def weigh_loss(weights: Any) -> Any:
            value = training.loss(weights, jax.tree.unflatten(training.batch, batch))
            return (value[0] if isinstance(value, tuple) else value) * weight

        weights = trained_tree(training.params, params, training.frozen)
        loss, gradient = jax.value_and_grad(of_trained(weigh_loss, training.params, params, training.frozen))(weights)
        return loss, weight, jax.tree.leaves(gradient)

    return run


def _make_update(program: Program, micro_batches: int) -> Callable[[list[Any], list[Any], Any], list[Any]]:
    training, network = program.step.training, network_of(program, micro_batches)
    assert training is not None, "asked of training steps"
    averages = {network.flat.param_slices[number][0].leaf for number in network.flat.averages}
    count, frozen = training.params.num_leaves, training.frozen
    trained = [leaf for leaf in range(count) if leaf not in frozen]

    def run(state: list[Any], sums: list[Any], total: Any) -> list[Any]:
        means = [
            mean_gradient(item, state[leaf].dtype, total, micro_batches, is_average=leaf in averages)
            for leaf, item in zip(trained, sums, strict=True)
        ]
        weights = trained_tree(training.params, state[:count], frozen)
        gradient = jax.tree.unflatten(jax.tree.structure(weights), means)
        structure = jax.tree.structure(jax.eval_shape(training.optimizer.init, cast(weights, training.moments)))
        moments = jax.tree.unflatten(structure, state[count:])
        updates, moments = training.optimizer.update(cast(gradient, training.moments), moments, cast(weights, training.moments))
        changed = dict(zip(trained, jax.tree.leaves(optax.apply_updates(weights, updates)), strict=True))
        return [*(changed.get(leaf, state[leaf]) for leaf in range(count)), *jax.tree.leaves(moments)]

    return run
