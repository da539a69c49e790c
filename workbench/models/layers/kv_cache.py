"""The KV cache of a decoder: keys and values of all tokens so far, so that each step computes only the new one.

    key, value   [layers, context, heads, batch, d_head]      each step writes its rows in place
    key_scale    [layers, context, heads, batch]              for int8, int4 or float8: one per token and head
    length       int32[]                                      number of filled positions, equal for all sequences of a batch

Without a scan over layers, each layer has its own dict of arrays without `layers`. Positions come first, so that a step writes to
contiguous memory: otherwise XLA:TPU (jax 0.10.2, v5e) chooses this layout for the cache of a scan, and copies all of it at both ends of a
step. In einsum strings: b batch, s seq (of queries), t context, h heads, q queries (query heads per key-value head), k d_head.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from workbench.core.program import Program
from workbench.models.data import english_text
from workbench.models.layers.decoder_blocks import mark
from workbench.models.layers.quantized_weights import SCALED_TYPES, quantize
from workbench.tracing import fused_kernel, trace_inference

SCALE_TYPE = jnp.bfloat16
"""Dtype of the scale of a token's row. The values are divided by the rounded scale, which compensates the rounding."""

Cache = dict[str, Any]


class CachedRows(NamedTuple):
    """Cached rows of a layer: values [context, heads, batch, d_head], and scales [context, heads, batch], if any."""

    values: Any
    scale: Any = None


def cache_dims(rows: Mapping[str, str], dtype: str, stack: str = "") -> dict[str, str]:
    """Dimension names of a cache, including scales; `rows` has those of the values, and `stack` is prepended.

    >>> cache_dims({"key": "context batch d_head"}, "int8", "layers ")
    {'key': 'layers context batch d_head', 'key_scale': 'layers context batch'}
    """
    named = {}
    for name, dims in rows.items():
        named[name] = stack + dims
        if dtype in SCALED_TYPES:
            named[f"{name}_scale"] = stack + dims.rpartition(" ")[0]
    return named


def empty_cache(rows: Mapping[str, tuple[int, ...]], dtype: str) -> Cache:
    """Zeros of these shapes, with scales if the dtype has any."""
    cache = {name: jnp.zeros(shape, dtype) for name, shape in rows.items()}
    return cache | {f"{name}_scale": jnp.zeros(shape[:-1], SCALE_TYPE) for name, shape in rows.items() if dtype in SCALED_TYPES}


def random_cache(key: Any, rows: Mapping[str, tuple[int, ...]], dtype: str) -> Cache:
    """Random normal rows of these shapes, encoded, for decoding without a prompt."""
    cache: Cache = {}
    for number, (name, shape) in enumerate(rows.items()):
        cache |= encode_rows(name, jax.random.normal(jax.random.fold_in(key, number), shape), dtype)
    return cache


def encode_rows(name: str, rows: Any, dtype: str) -> Cache:
    if dtype not in SCALED_TYPES:
        return {name: rows.astype(dtype)}
    values, scale = quantize(rows, (-1,), dtype, SCALE_TYPE)
    return {name: values, f"{name}_scale": scale}


def write_rows(cache: Cache, name: str, rows: Any, start: Any, layer: Any = None) -> Cache:
    """Cache with `rows` [batch, seq, heads, d_head] from `start` on; `layer` selects a stacked layer."""
    with jax.named_scope("write_cache"):
        parts = encode_rows(name, jnp.moveaxis(rows, 0, -2), str(cache[name].dtype))
        return cache | {entry: _write(cache[entry], part, start, layer) for entry, part in parts.items()}


def _write(stacked: Any, part: Any, start: Any, layer: Any) -> Any:
    zero = jnp.zeros((), jnp.int32)
    places = [jnp.asarray(start, jnp.int32), *[zero] * (part.ndim - 1)]
    if layer is None:
        return jax.lax.dynamic_update_slice(stacked, part, places)
    return jax.lax.dynamic_update_slice(stacked, part[None], [layer, *places])


def read_rows(cache: Cache, name: str, layer: Any = None) -> CachedRows:
    """Read all rows under this name; `layer` selects a stacked layer."""
    with jax.named_scope("read_cache"):

        def read(stacked: Any) -> Any:
            return stacked if layer is None else jax.lax.dynamic_index_in_dim(stacked, layer, 0, keepdims=False)

        scale = cache.get(f"{name}_scale")
        return CachedRows(read(cache[name]), None if scale is None else read(scale))


def attend_cached(query: Any, key: CachedRows, value: CachedRows, length: Any, *, fused: bool) -> Any:
    """Attend to the first `length` rows with scaled queries; `fused`: one kernel reads the cache once, as stored."""
    if fused:
        with fused_kernel("flash_decoding"), jax.named_scope("core"):
            return mark(_mix_cached(query, key, value, length), "mixed_here")
    with jax.named_scope("core"):
        return mark(_mix_cached(query, key, value, length), "mixed_here")


def _mix_cached(query: Any, key: CachedRows, value: CachedRows, length: Any) -> Any:
    """Apply scales to scores and attention weights, which are smaller than the cache."""
    scores = jnp.einsum("bshqk,thbk->bhqst", query, key.values.astype(query.dtype)).astype(jnp.float32)
    scores = scores if key.scale is None else scores * _beside_scores(key.scale)
    hidden = jnp.where(jnp.arange(scores.shape[-1]) < length, 0.0, -1e9)
    shares = jax.nn.softmax(scores + hidden, axis=-1)
    shares = shares if value.scale is None else shares * _beside_scores(value.scale)
    return jnp.einsum("bhqst,thbk->bshqk", shares.astype(query.dtype), value.values.astype(query.dtype))


def _beside_scores(scale: Any) -> Any:
    """Transpose scales [context, heads, batch] to float32[batch, heads, 1, 1, context]."""
    return scale.T[:, :, None, None].astype(jnp.float32)


# Inference programs: prefill, and decoding of one token per sequence.

Start = Callable[[Any], tuple[Any, Any]]
"""`start(key) -> (params, cache)`: the initial state of a live run."""


def trace_prompt(step: Callable[..., Any], start: Start, *, batch: int, seq: int, dims: Mapping[str, str], name: str) -> Program:
    """Trace `step(params, cache, {"tokens": int32[batch, seq]})`; live runs read `models.data.english_text`."""
    words = english_text.batches(batch, seq)
    return _trace(step, start, (batch, seq), "batch seq", dims, name, lambda number: words(number)["tokens"])


def trace_token(step: Callable[..., Any], start: Start, *, batch: int, dims: Mapping[str, str], name: str) -> Program:
    """Trace `step(params, cache, {"tokens": int32[batch]})`; live runs read `models.data.english_text`."""
    words = english_text.batches(batch, 1)
    return _trace(step, start, (batch,), "batch", dims, name, lambda number: words(number)["tokens"][:, 0])


def _trace(
    step: Callable[..., Any],
    start: Start,
    shape: tuple[int, ...],
    names: str,
    dims: Mapping[str, str],
    title: str,
    tokens: Callable[[int], Any],
) -> Program:
    params, cache = jax.eval_shape(lambda: start(jax.random.key(0)))  # a concrete key would initialize the devices
    return trace_inference(
        step,
        params,
        cache,
        {"tokens": jax.ShapeDtypeStruct(shape, jnp.int32)},
        dims={"batch/tokens": names, **dims},
        name=title,
        init=start,
        data=lambda number: {"tokens": tokens(number)},
    )
