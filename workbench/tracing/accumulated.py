"""A training step by accumulation: micro-batches one after the other through the whole loss, their gradients added up, one update.

What a pipeline must equal, for every number of stages.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import optax

from workbench.program import Program
from workbench.tracing.cast import cast
from workbench.tracing.cut import cut_network
from workbench.tracing.cutting import network_of

Step = Callable[[Sequence[Any], Sequence[Sequence[Any]]], tuple[Any, list[Any]]]


def accumulated_step(program: Program, micro_batches: int) -> Step:
    """`step(state, batches) -> (loss, new state)`, traceable; `state` are parameters and optimiser state, flat, `batches` the leaves of
    each micro-batch."""
    training = program.step.training
    assert training is not None, "asked of training steps"
    network = network_of(program, micro_batches)
    weigh = cut_network(network, ()).segments[0]
    count = training.params.num_leaves
    averages = {network.flat.pieces[number][0].leaf for number in network.flat.averages}

    def step(state: Sequence[Any], batches: Sequence[Sequence[Any]]) -> tuple[Any, list[Any]]:
        weights = jax.tree.unflatten(training.params, state[:count])
        sums, losses, total = jax.tree.map(jnp.zeros_like, weights), 0.0, 0.0
        for batch in batches:
            weight = _weight(weigh, network, state[:count], batch)
            loss, gradient = jax.value_and_grad(_scaled(training, weight))(weights, jax.tree.unflatten(training.batch, batch))
            sums = jax.tree.map(jnp.add, sums, gradient)
            losses, total = losses + loss, total + weight
        mean = [
            each / (micro_batches if leaf in averages else total) for leaf, each in enumerate(jax.tree.leaves(sums))
        ]
        mean = [each.astype(weight.dtype) for each, weight in zip(mean, state[:count], strict=True)]
        structure = jax.tree.structure(jax.eval_shape(training.optimizer.init, cast(weights, training.moments)))
        moments = jax.tree.unflatten(structure, state[count:])
        gradient = jax.tree.unflatten(training.params, mean)
        updates, moments = training.optimizer.update(cast(gradient, training.moments), moments, cast(weights, training.moments))
        return losses / total, [*jax.tree.leaves(optax.apply_updates(weights, updates)), *jax.tree.leaves(moments)]

    return step


def _scaled(training: Any, weight: Any) -> Callable[[Any, Any], Any]:
    def scaled(weights: Any, batch: Any) -> Any:
        value = training.loss(weights, batch)
        return (value[0] if isinstance(value, tuple) else value) * weight

    return scaled


def _weight(segment: Any, network: Any, params: Sequence[Any], batch: Sequence[Any]) -> Any:
    """What a micro-batch counts for."""
    if network.flat.weight is None:
        return 1.0
    pieces = []
    for number in segment.pieces:
        leaf, layer = network.flat.pieces[number][0]
        pieces.append(params[leaf] if layer is None else params[leaf][layer : layer + 1])
    return segment.call(*pieces, *(batch[i] for i in segment.batch))[-1]
