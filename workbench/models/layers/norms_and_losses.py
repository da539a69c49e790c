"""Normalization, always in float32, and the loss functions of the zoo."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from workbench.models.layers.weight_tables import Params

# Normalization by mean and variance, always in float32.


def normalize(weights: Params, x: Any, over: tuple[int, ...]) -> Any:
    """Normalize x to mean 0 and variance 1 over the dimensions `over`; `scale` and `bias` apply along the last one, if
    present.

    Over the last dimension this is layer normalization (Ba et al. 2016), over all but the last batch normalization
    (Ioffe and Szegedy 2015), over space instance normalization (Ulyanov et al. 2016). If one of `over` is sharded, the
    sums cross devices, so the result is the same as on one device ("synchronized" batch normalization).
    """
    wide = x.astype(jnp.float32)
    centered = wide - wide.mean(over, keepdims=True)
    scaled = centered * jax.lax.rsqrt(jnp.square(centered).mean(over, keepdims=True) + 1e-5)
    scaled = scaled * weights["scale"] if "scale" in weights else scaled
    return (scaled + weights["bias"] if "bias" in weights else scaled).astype(x.dtype)


def layer_norm(weights: Params, x: Any) -> Any:
    return normalize(weights, x, (-1,))


def batch_norm(weights: Params, x: Any) -> Any:
    return normalize(weights, x, tuple(range(x.ndim - 1)))


def instance_norm(weights: Params, x: Any) -> Any:
    return normalize(weights, x, tuple(range(1, x.ndim - 1)))


def rms_norm(weights: Params, x: Any) -> Any:
    """Divide x by its root mean square along the last dimension and multiply by `scale` (Zhang and Sennrich 2019)."""
    wide = x.astype(jnp.float32)
    return (wide * jax.lax.rsqrt(jnp.square(wide).mean(-1, keepdims=True) + 1e-6) * weights["scale"]).astype(x.dtype)


# The loss functions of the zoo.

Loss = Callable[[Params, Mapping[str, Any]], Any]


def cross_entropy(logits: Any, targets: Any) -> Any:
    """Mean of logsumexp(logits) - logits[target] in nats and float32; logits [..., classes], targets int[...].

    The target's logit is a masked sum, not `take_along_axis`: only elementwise operations and sums over the classes,
    which all partitioners handle in the same way. With the classes sharded, three arrays of the targets' shape are
    sent, never the logits.
    """
    wide = logits.astype(jnp.float32)
    chosen = jnp.where(targets[..., None] == jnp.arange(logits.shape[-1]), wide, 0).sum(-1)
    return (jax.nn.logsumexp(wide, axis=-1) - chosen).mean()


def classification_loss(apply: Callable[..., Any], *inputs: str) -> Loss:
    """`loss(params, {*inputs, "targets"})`: mean cross entropy in nats of the logits `apply(params, *inputs)`."""

    def loss(params: Params, batch: Mapping[str, Any]) -> Any:
        logits = apply(params, *(batch[name] for name in inputs))
        with jax.named_scope("loss"):
            return cross_entropy(logits, batch["targets"])

    return loss
