"""The attention of a mixture of experts in inference, to what is cached.

A latent attention caches `latent` [context, batch, d_latent]: of each token the normalised latent of its keys and values, and the turned
position of its key, both for all heads. In decoding no key or value is made of it: the projection up is absorbed into the query and into
what is mixed (DeepSeek-AI 2024, arXiv:2405.04434, section 2.1.2), so that all heads read one row of a token.

    scores   q . (W_key c) = (q W_key) . c             once for the new token, not for all that are cached
    mixed    sum_t share_t (W_value c_t) = W_value (sum_t share_t c_t)

Plain heads cache `key` and `value`. In einsum strings: b batch, s seq, h heads, k a head's width, r a latent.
"""

from typing import Any

import jax
import jax.numpy as jnp

from workbench.models.layers.decoder_blocks import Params, kernel, mark, rotate
from workbench.models.layers.kv_cache import Cache, CachedRows, attend_cached, read_rows, write_rows
from workbench.models.layers.quantized_weights import QuantizedWeight, multiply
from workbench.models.mixture.config import MixtureConfig
from workbench.models.mixture.latent_attention import attention, project_down, project_heads

LATENT_ROWS = {"latent": "context batch d_latent"}
HEAD_ROWS = {"key": "context heads batch d_head", "value": "context heads batch d_value"}
"""What an attention caches, and its dimensions."""


def cached_names(config: MixtureConfig) -> dict[str, str]:
    return LATENT_ROWS if config.attention == "latent" else HEAD_ROWS


def attend_prompt(weights: Params, x: Any, cache: Cache, config: MixtureConfig, layer: Any = None) -> tuple[Any, Cache]:
    """[batch, seq, d_model] from the same, a prompt, each token attending to those before it, and the cache that begins with it."""
    change, (left, right) = attention(weights, x, config, multiply)
    return change, _write(cache, left, right, 0, None, config, layer)


def attend_token(weights: Params, x: Any, cache: Cache, position: Any, config: MixtureConfig, layer: Any = None) -> tuple[Any, Cache]:
    """[batch, 1, d_model] from the same, one token at `position` attending to the cache, and the cache with it."""
    attend = _attend_latents if config.attention == "latent" else _attend_heads
    mixed, cache = attend(weights, x, cache, position, config, layer)
    with jax.named_scope("output"):
        return multiply("bshk,hkd->bsd", mark(mixed, "mixed"), weights["wo"].astype(x.dtype)), cache


def _write(cache: Cache, left: Any, right: Any, start: Any, positions: Any, config: MixtureConfig, layer: Any) -> Cache:
    """The cache with new rows: of keys and values [batch, seq, heads, 1, width], or of a latent and a position yet to be turned."""
    if config.attention != "latent":
        return write_rows(write_rows(cache, "key", left.squeeze(3), start, layer), "value", right.squeeze(3), start, layer)
    turned = kernel("rotary", config, lambda x: rotate(x, positions), right)
    return write_rows(cache, "latent", jnp.concatenate([left, turned], 2), start, layer)


def _attend_heads(weights: Params, x: Any, cache: Cache, position: Any, config: MixtureConfig, layer: Any) -> tuple[Any, Cache]:
    query, key, value = project_heads(weights, x, config, multiply, position[None])
    cache = _write(cache, key, value, position, position[None], config, layer)
    keys, values = read_rows(cache, "key", layer), read_rows(cache, "value", layer)
    fused = "attention" in config.fused.split()
    return attend_cached(query * config.d_head**-0.5, keys, values, position + 1, fused=fused).squeeze(3), cache


def _attend_latents(weights: Params, x: Any, cache: Cache, position: Any, config: MixtureConfig, layer: Any) -> tuple[Any, Cache]:
    with jax.named_scope("latents"):
        query_low, pair_low, key_position = project_down(weights, x, config, multiply)
    cache = _write(cache, pair_low, key_position, position, position[None], config, layer)
    key_up, value_up = _split_last(weights["wkv_up"], (config.d_head, config.d_value))
    with jax.named_scope("query"):
        query = multiply("bsr,rhk->bshk", query_low, weights["wq_up"].astype(x.dtype))
        plain, rotary = jax.lax.split(query, (config.d_head, config.d_rotary), axis=3)
        absorbed = multiply("bshk,rhk->bshr", plain, key_up.astype(x.dtype))
        query = jnp.concatenate([absorbed, kernel("rotary", config, lambda each: rotate(each, position[None]), rotary)], 3)
    rows = _as_one_head(read_rows(cache, "latent", layer))
    scaled = mark(query, "query")[:, :, None] * config.d_query**-0.5
    mixed = attend_cached(scaled, rows, rows, position + 1, fused="attention" in config.fused.split())
    with jax.named_scope("value"):
        # what is mixed of the keys' position is dropped here: a slice of the cache before would be a copy of it
        return multiply("bshr,rhk->bshk", mixed[:, :, 0, :, : config.kv_rank], value_up.astype(x.dtype)), cache


def _as_one_head(rows: CachedRows) -> CachedRows:
    return CachedRows(rows.values[:, None], None if rows.scale is None else rows.scale[:, None])


def _split_last(weight: Any, sizes: tuple[int, ...]) -> list[Any]:
    return weight.split(sizes) if isinstance(weight, QuantizedWeight) else list(jax.lax.split(weight, sizes, axis=weight.ndim - 1))
