"""The loss functions of the zoo."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from workbench.models.layers.weights import Params

Loss = Callable[[Params, Mapping[str, Any]], Any]


def cross_entropy(logits: Any, targets: Any) -> Any:
    """The mean of logsumexp(logits) - logits[target], in nats and float32; logits [..., classes], targets int[...].

    The target's logit is a masked sum, not `take_along_axis`: nothing but element-wise operations and sums over the classes, for which
    every partitioner has one answer. Split over the classes, three arrays of the targets' shape are sent, never the logits.
    """
    wide = logits.astype(jnp.float32)
    chosen = jnp.where(targets[..., None] == jnp.arange(logits.shape[-1]), wide, 0).sum(-1)
    return (jax.nn.logsumexp(wide, axis=-1) - chosen).mean()


def classification_loss(apply: Callable[..., Any], *inputs: str) -> Loss:
    """`loss(params, {*inputs, "targets"})` of a network whose `apply(params, *inputs)` gives logits: their mean cross entropy, in nats."""

    def loss(params: Params, batch: Mapping[str, Any]) -> Any:
        logits = apply(params, *(batch[name] for name in inputs))
        with jax.named_scope("loss"):
            return cross_entropy(logits, batch["targets"])

    return loss
