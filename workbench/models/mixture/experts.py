"""A mixture of experts: a router chooses experts for each token, and tokens are sent to the devices of their experts and back.

    x [batch, seq, d_model]        sharded along batch
     | permute: group tokens by expert, at most `capacity` per sequence
    sent [batch, experts, capacity, d_model]
     | all-to-all: from sharded batch and all experts to all of the batch and sharded experts
    received -> up -> hidden -> made
     | all-to-all back, then sum the results of each token
    [batch, seq, d_model]

An expert has `capacity` slots per sequence, so all shapes and payloads are independent of the data. If tokens
are gathered, their weights are sent along and applied before the last product: the final sum then needs no residuals for the backward
pass.

In einsum strings: b batch, s seq, d d_model, e experts, c capacity, g gates, f d_expert.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name

from workbench.models.layers.decoder_blocks import Params, kernel, mark
from workbench.models.mixture.mixture_config import MixtureConfig
from workbench.tracing.jaxpr.float8_products import Einsum


def experts(weights: Params, x: Any, config: MixtureConfig, einsum: Einsum = jnp.einsum) -> tuple[Any, Any]:
    """Apply the experts to x [batch, seq, d_model]; also returns the load imbalance [batch] (1 is even)."""
    with jax.named_scope("router"):
        logits = jnp.einsum("bsd,de->bse", x, weights["router"].astype(x.dtype)).astype(jnp.float32)
        gates, load = route(logits, config)
    by = _by_product if config.dispatch == "product" else _by_gather
    return by(weights, x, gates, config, einsum), load


def _by_gather(weights: Params, x: Any, gates: Any, config: MixtureConfig, einsum: Einsum) -> Any:
    """Each expert takes the `capacity` tokens per sequence with the largest weights (Megatron-LM's `probs`)."""
    with jax.named_scope("dispatch"):
        share, tokens = assign(gates, config)
        sent = mark(kernel("permute", config, _take_tokens, x, tokens), "sent")
        received = kernel("sort", config, _swap_leading, mark(sent, "received"))
        share = _swap_leading(mark(mark(share, "share_sent"), "share_received"))
    outputs = _expert_mlp(weights, mark(received, "sorted"), share, config, einsum)
    with jax.named_scope("combine"):
        returned = mark(mark(kernel("sort", config, _swap_leading, outputs), "made"), "returned")
        return kernel("permute", config, lambda rows, at: _sum_rows(rows, at, config.seq), returned, tokens)


def _by_product(weights: Params, x: Any, gates: Any, config: MixtureConfig, einsum: Einsum) -> Any:
    """Each expert takes the first `capacity` tokens per sequence that choose it. Products with a mask [batch, seq,
    experts, capacity] dispatch and combine them (GShard, Lepikhin et al. 2020, section 3.2).
    """
    with jax.named_scope("dispatch"):
        mask = checkpoint_name(make_dispatch_mask(gates, config).astype(x.dtype), "mask")
        sent = mark(jnp.einsum("bsec,bsd->becd", mask, x), "sent")
        received = mark(_swap_leading(mark(sent, "received")), "sorted")
    outputs = _expert_mlp(weights, received, None, config, einsum)
    with jax.named_scope("combine"):
        returned = mark(mark(_swap_leading(outputs), "made"), "returned")
        return jnp.einsum("bsec,becd->bsd", mask * gates[..., None].astype(x.dtype), returned)


def make_dispatch_mask(gates: Any, config: MixtureConfig) -> Any:
    """1 if a token has a slot of an expert: float32[batch, seq, experts, capacity]. First choices are placed first,
    then earlier tokens (GShard, algorithm 1).
    """
    gates = jax.lax.stop_gradient(gates)
    choices = jax.nn.one_hot(_largest(gates, config.top_k), config.experts, dtype=jnp.int32).swapaxes(1, 2)  # batch, choice, seq, experts
    before = jnp.cumsum(choices, axis=2) - choices
    earlier = choices.sum(2, keepdims=True)  # tokens per choice
    place = before + jnp.cumsum(earlier, axis=1) - earlier
    return (jax.nn.one_hot(place, config.capacity, dtype=jnp.float32) * choices[..., None]).sum(1)


def route(logits: Any, config: MixtureConfig) -> tuple[Any, Any]:
    """Weight of each expert per token (0 if not chosen), and the load imbalance float32[batch]: the sum over experts of
    the share of choices times the share of scores, times `experts`.
    """
    scores = jax.nn.sigmoid(logits) if config.score == "sigmoid" else jax.nn.softmax(logits)
    scores = checkpoint_name(scores, "scores")
    chosen = checkpoint_name(_choose_experts(jax.lax.stop_gradient(scores), config), "chosen")
    gates = scores * chosen
    if config.score == "sigmoid":
        gates = gates / gates.sum(-1, keepdims=True)
        scores = scores / scores.sum(-1, keepdims=True)
    load = (chosen.mean(1) * scores.mean(1)).sum(-1) * (config.experts / config.top_k)
    return gates * config.scale, load


def _choose_experts(scores: Any, config: MixtureConfig) -> Any:
    """1 for the `top_k` experts of each token, within the `top_groups` with the best experts in total."""
    if config.top_groups:
        grouped = scores.reshape(*scores.shape[:2], config.groups, -1)
        best = -jnp.sort(-grouped)[..., : config.top_k // config.top_groups].sum(-1)
        allowed = _mark_largest(best, config.top_groups)[..., None]
        scores = jnp.where(allowed > 0, grouped, -1.0).reshape(scores.shape)
    return _mark_largest(scores, config.top_k)


def _mark_largest(scores: Any, count: int) -> Any:
    return jax.nn.one_hot(_largest(scores, count), scores.shape[-1], dtype=scores.dtype).sum(-2)


def _largest(values: Any, count: int) -> Any:
    """Indices of the `count` largest values. Sorted: XLA's partitioner gathers the operand of `top_k`."""
    places = jax.lax.broadcasted_iota(jnp.int32, values.shape, values.ndim - 1)
    return jax.lax.sort((-values, places), num_keys=1)[1][..., :count]


def assign(gates: Any, config: MixtureConfig) -> tuple[Any, Any]:
    """The largest weights per sequence and expert, and their tokens: float32 and int32 [batch, experts, capacity]."""
    gates = jnp.swapaxes(gates, 1, 2)
    tokens = checkpoint_name(_largest(jax.lax.stop_gradient(gates), config.capacity), "tokens")
    return jax.vmap(jax.vmap(_gather_rows))(gates, tokens), tokens


def _take_tokens(x: Any, tokens: Any) -> Any:
    """Rows of x [batch, seq, d_model] at `tokens`: [batch, experts, capacity, d_model]."""
    return jax.vmap(_gather_rows)(x, tokens)


def _gather_rows(values: Any, at: Any) -> Any:
    return values.at[at].get(mode="promise_in_bounds")


def _sum_rows(rows: Any, tokens: Any, seq: int) -> Any:
    """Sum of each token's rows [batch, experts, capacity, d_model]: [batch, seq, d_model]."""

    def one(rows: Any, at: Any) -> Any:
        return jnp.zeros((seq, rows.shape[-1]), rows.dtype).at[at].add(rows, mode="promise_in_bounds")

    return jax.vmap(one)(rows, tokens)


def _swap_leading(x: Any) -> Any:
    return jnp.swapaxes(x, 0, 1)


def _expert_mlp(weights: Params, x: Any, share: Any, config: MixtureConfig, einsum: Einsum) -> Any:
    """The experts' MLPs for x [experts, batch, capacity, d_model], with rows scaled by `share`, if given."""

    def activate(up: Any, share: Any) -> Any:
        wide = up.astype(jnp.float32)
        gated = jax.nn.silu(wide[..., 0, :]) * wide[..., 1, :] if config.expert_gates > 1 else jax.nn.gelu(wide[..., 0, :])
        return (gated if share is None else gated * share[..., None]).astype(up.dtype)

    with jax.named_scope("up"):
        up = mark(einsum("ebcd,edgf->ebcgf", x, weights["w1"].astype(x.dtype)), "up")
    hidden = mark(kernel("activation", config, activate, up, share), "hidden")
    with jax.named_scope("down"):
        return einsum("ebcf,efd->ebcd", hidden, weights["w2"].astype(x.dtype))
