"""A training step by gradient accumulation: the whole loss on one micro-batch after the other, gradients summed, one update.

The reference that a pipeline must equal, for every number of stages.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import optax

from workbench.core.program import Program
from workbench.tracing.cast import cast
from workbench.tracing.grad_accumulation.mean_gradient import mean_gradient
from workbench.tracing.stage_partition.partition_network import partition_network
from workbench.tracing.stage_partition.trace_network import network_of

Step = Callable[[Sequence[Any], Sequence[Sequence[Any]]], tuple[Any, list[Any]]]


def grad_accumulation_step(program: Program, micro_batches: int) -> Step:
    """`step(state, batches) -> (loss, new state)` of flat parameters and optimiser state, and of the leaves of each micro-batch.

    One micro-batch and the update are compiled; between them runs Python.
    """
    training = program.step.training
    assert training is not None, "asked of training steps"
    count = training.params.num_leaves
    one, update = jax.jit(_make_micro_batch(program, micro_batches)), jax.jit(_make_update(program, micro_batches))

    def step(state: Sequence[Any], batches: Sequence[Sequence[Any]]) -> tuple[Any, list[Any]]:
        parts = [one(list(state[:count]), list(batch)) for batch in batches]
        losses, weights, gradients = (list(each) for each in zip(*parts, strict=True))
        total = sum(weights[1:], start=weights[0])
        sums = gradients[0]
        for each in gradients[1:]:
            sums = jax.tree.map(jnp.add, sums, each)
        return sum(losses[1:], start=losses[0]) / total, update(list(state), sums, total)

    return step


def _make_micro_batch(program: Program, micro_batches: int) -> Callable[[list[Any], list[Any]], Any]:
    """Loss times weight, weight, and the gradient of the former; the loss as the user wrote it, without stages."""
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

        loss, gradient = jax.value_and_grad(weigh_loss)(jax.tree.unflatten(training.params, params))
        return loss, weight, jax.tree.leaves(gradient)

    return run


def _make_update(program: Program, micro_batches: int) -> Callable[[list[Any], list[Any], Any], list[Any]]:
    training, network = program.step.training, network_of(program, micro_batches)
    assert training is not None, "asked of training steps"
    averages = {network.flat.param_slices[number][0].leaf for number in network.flat.averages}
    count = training.params.num_leaves

    def run(state: list[Any], sums: list[Any], total: Any) -> list[Any]:
        means = [
            mean_gradient(each, weight.dtype, total, micro_batches, is_average=leaf in averages)
            for leaf, (each, weight) in enumerate(zip(sums, state[:count], strict=True))
        ]
        weights, gradient = (jax.tree.unflatten(training.params, each) for each in (state[:count], means))
        structure = jax.tree.structure(jax.eval_shape(training.optimizer.init, cast(weights, training.moments)))
        moments = jax.tree.unflatten(structure, state[count:])
        updates, moments = training.optimizer.update(cast(gradient, training.moments), moments, cast(weights, training.moments))
        return [*jax.tree.leaves(optax.apply_updates(weights, updates)), *jax.tree.leaves(moments)]

    return run
