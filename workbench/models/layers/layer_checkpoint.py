"""Recomputation of layers in the backward pass."""

from collections.abc import Callable
from typing import Any

import jax

from workbench.tracing import keep_every_dot

SAVED_NAMES = {
    "kernels": (
        *("normal", "query", "key", "value", "shares", "mixed", "stream", "up", "curved", "hidden"),
        *("query_low", "pair_low", "query_latent", "pair_latent"),  # latent attention
        *("scores", "chosen", "tokens", "mask", "share_received", "sorted"),  # mixture of experts
    ),
    "attention": ("normal", "query", "key", "value", "mixed", "stream", "up", "curved", "hidden"),
    "latent": (*("stream", "mixed", "up", "query_low", "pair_low"), *("scores", "chosen", "tokens", "mask", "share_received", "sorted")),
    "full": (),
}
"""Names of the values that a layer keeps for its backward pass besides its input, by `recompute`."""


def recompute_all(compute: Callable[..., Any]) -> Callable[..., Any]:
    """Recompute all of `compute` in the backward pass, like `torch.utils.checkpoint`; `jax.checkpoint` would drop
    operations that no gradient reads, such as the last product of a layer.
    """

    def backward(operands: Any, cotangent: Any) -> Any:
        result, pull = jax.vjp(compute, *jax.lax.optimization_barrier(operands))
        return pull(jax.lax.optimization_barrier((result, cotangent))[1])

    recomputed = jax.custom_vjp(compute)
    recomputed.defvjp(lambda *operands: (compute(*operands), operands), backward)
    return recomputed


def checkpoint_layer(layer: Callable[..., Any], recompute: str, float8: str = "") -> Callable[..., Any]:
    """Make a layer, a function of pytrees of arrays, keep the residuals chosen by `recompute` (`DecoderConfig`)."""
    if recompute == "none":
        return layer
    if recompute == "replay":
        return recompute_all(layer)
    return keep_every_dot(layer, 2) if recompute == "alternate" else jax.checkpoint(layer, policy=remat_policy(recompute, float8))


def remat_policy(recompute: str, float8: str = "") -> Any:
    """The `jax.checkpoint` policy of a layer. With tensorwise `float8`, values that only products read are kept in
    eight bits, as in Transformer Engine; an attention kernel also reads its result.
    """
    if recompute == "offload":
        return jax.checkpoint_policies.save_and_offload_only_these_names(
            names_which_can_be_saved=[],
            names_which_can_be_offloaded=["query", "key", "value"],
            offload_src="device",
            offload_dst="pinned_host",
        )
    names = SAVED_NAMES[recompute]
    if float8 == "tensorwise" and recompute == "kernels":
        names = (*(name for name in names if name not in ("normal", "hidden")), "bsd in eight bits", "bsf in eight bits")
    return jax.checkpoint_policies.save_only_these_names(*names)
