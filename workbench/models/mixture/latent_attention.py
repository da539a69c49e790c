"""The attention of the mixture model: multi-head latent attention (DeepSeek-AI 2024, arXiv:2405.04434, section 2.1), or plain heads.

    query                from a latent of width q_rank        no position | position     per head
    key, value           from a latent of width kv_rank       key | value                per head
    key's position       from x itself                                                   for all heads

Latents are normalized before the up projection. In einsum strings: b batch, s seq, d d_model, r latent, h heads, k head width.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from workbench.models.layers.decoder_blocks import Params, flash_attention, kernel, mark, mix, normalize, rotate, softmax
from workbench.models.layers.local_attention import find_window
from workbench.models.mixture.mixture_config import MixtureConfig
from workbench.tracing.jaxpr.float8_products import Einsum


def attention(
    weights: Params, x: Any, config: MixtureConfig, einsum: Einsum = jnp.einsum, reach: Any = None
) -> tuple[Any, tuple[Any, Any]]:
    """Attend over x [batch, seq, d_model], or over `reach` tokens of it; also returns keys and values, or their latent
    [batch, seq, kv_rank] and the key positions [batch, seq, d_rotary] before rotation, for a cache.
    """
    (query, key, value), seen = (_project_latents if config.attention == "latent" else _project_heads)(weights, x, config, einsum)
    window = find_window(config, x.shape[1], reach)
    if "attention" in config.fused.split():
        mixed = flash_attention(query, key, value, window)
    else:
        with jax.named_scope("core"):
            mixed = mix(query, key, value, partial(softmax, window=window))
    return project_output(weights, mixed, einsum), seen


def project_output(weights: Params, mixed: Any, einsum: Einsum) -> Any:
    """Project mixed values [batch, seq, heads, queries or none, d_value] to [batch, seq, d_model]."""
    with jax.named_scope("output"):
        mixed = mark(mixed, "mixed")
        mixed = mixed.squeeze(3) if mixed.ndim == 5 and mixed.shape[3] == 1 else mixed
        return einsum("bshk,hkd->bsd" if mixed.ndim == 4 else "bshqk,hqkd->bsd", mixed, weights["wo"].astype(mixed.dtype))


def project_heads(weights: Params, x: Any, config: MixtureConfig, einsum: Einsum, positions: Any = None) -> tuple[Any, Any, Any]:
    """Queries [batch, seq, heads, q_per_kv, d_head], keys and values; `positions` unless in order from 0."""
    with jax.named_scope("query_key_value"):
        product = einsum("bsd,dhck->bshck", x, weights["wqkv"].astype(x.dtype))
        query, key, value = jax.lax.split(product, (config.q_per_kv, 1, 1), axis=3)
        query, key = kernel("rotary", config, lambda *both: tuple(rotate(part, positions) for part in both), query, key)
        return mark(query, "query"), mark(key, "key"), mark(value, "value")


def _project_heads(weights: Params, x: Any, config: MixtureConfig, einsum: Einsum) -> tuple[tuple[Any, Any, Any], tuple[Any, Any]]:
    query, key, value = project_heads(weights, x, config, einsum)
    return (query, key, value), (key, value)


def _project_latents(weights: Params, x: Any, config: MixtureConfig, einsum: Einsum) -> tuple[tuple[Any, Any, Any], tuple[Any, Any]]:
    """Queries and keys [batch, seq, heads, 1, d_query], values [.., d_value], and the latents for a cache."""
    with jax.named_scope("latents"):
        query_low, pair_low, key_position = project_down(weights, x, config, einsum)
    with jax.named_scope("query_key_value"):
        return _project_up(weights, query_low, pair_low, key_position, config, einsum), (pair_low, key_position)


def project_down(weights: Params, x: Any, config: MixtureConfig, einsum: Einsum) -> tuple[Any, Any, Any]:
    """Normalized latents [batch, seq, q_rank] and [batch, seq, kv_rank], and key positions [batch, seq, d_rotary]."""
    query_low = mark(einsum("bsd,dr->bsr", x, weights["wq_down"].astype(x.dtype)), "query_low")
    both = mark(einsum("bsd,dr->bsr", x, weights["wkv_down"].astype(x.dtype)), "pair_low")
    pair_low, position = jax.lax.split(both, (config.kv_rank, config.d_rotary), axis=2)
    return (
        mark(normalize(weights["q_norm"], query_low, config), "query_latent"),
        mark(normalize(weights["kv_norm"], pair_low, config), "pair_latent"),
        position,
    )


def _project_up(
    weights: Params, query_low: Any, pair_low: Any, position: Any, config: MixtureConfig, einsum: Einsum
) -> tuple[Any, Any, Any]:
    query = einsum("bsr,rhk->bshk", query_low, weights["wq_up"].astype(query_low.dtype))
    pair = einsum("bsr,rhk->bshk", pair_low, weights["wkv_up"].astype(pair_low.dtype))

    def rotate_query(query: Any) -> Any:
        plain, rotary = jax.lax.split(query, (config.d_head, config.d_rotary), axis=3)
        return jnp.concatenate([plain, rotate(rotary)], 3)

    def make_key_and_value(pair: Any, position: Any) -> tuple[Any, Any]:
        plain, value = jax.lax.split(pair, (config.d_head, config.d_value), axis=3)
        shared = jnp.broadcast_to(rotate(position)[:, :, None], (*plain.shape[:3], config.d_rotary))
        return jnp.concatenate([plain, shared], 3), value

    query = kernel("rotary", config, rotate_query, query)
    key, value = kernel("rotary", config, make_key_and_value, pair, position)
    return mark(query, "query")[:, :, :, None], mark(key, "key")[:, :, :, None], mark(value, "value")[:, :, :, None]
