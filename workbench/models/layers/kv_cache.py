"""The cache of keys and values: what a decoder keeps of the tokens it has seen, so that a new one is computed alone.

    key, value   [layers, context, heads, batch, d_head]      a step's rows are written at their position, in place
    key_scale    [layers, context, heads, batch]              where the cache is int8, int4 or float8: one for each token and head
    length       int32[]                                      how many positions are filled; all sequences of a batch are equally long

A cache is a dictionary of arrays without `layers` where layers are not scanned. Positions stand first, so that what a step writes lies in
one piece: XLA:TPU (jax 0.10.2, v5e) else lays the cache of a scan out so by itself, and copies all of it at the beginning and the end of a
step. In einsum strings: b batch, s seq (of queries), t context, h heads, q queries (heads of queries for each of these), k d_head.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from workbench.core.program import Program
from workbench.models.data import english_text
from workbench.models.layers.decoder_blocks import mark
from workbench.models.layers.quantized_weights import quantize
from workbench.tracing import fused_kernel, trace_inference

CACHES = ("bfloat16", "float32", "int8", "int4", "float8_e4m3fn")
"""Types in which a cache may be kept."""
SCALED = ("int8", "int4", "float8_e4m3fn")
"""Those of them that have scales."""
SCALE_TYPE = jnp.bfloat16
"""Of a token's row: what it rounds off is made up for by the values, which are divided by the rounded scale."""

Cache = dict[str, Any]


class CachedRows(NamedTuple):
    """What one layer has cached under one name: values [context, heads, batch, d_head], and scales [context, heads, batch], if any."""

    values: Any
    scale: Any = None


def cache_dims(rows: Mapping[str, str], dtype: str, stack: str = "") -> dict[str, str]:
    """The names of a cache's dimensions, `rows` by name without those of scales; `stack` in front.

    >>> cache_dims({"key": "context batch d_head"}, "int8", "layers ")
    {'key': 'layers context batch d_head', 'key_scale': 'layers context batch'}
    """
    found = {}
    for name, dims in rows.items():
        found[name] = stack + dims
        if dtype in SCALED:
            found[f"{name}_scale"] = stack + dims.rpartition(" ")[0]
    return found


def empty_cache(rows: Mapping[str, tuple[int, ...]], dtype: str) -> Cache:
    """Zeros of these shapes, and of their scales if the type has any."""
    found = {name: jnp.zeros(shape, dtype) for name, shape in rows.items()}
    return found | {f"{name}_scale": jnp.zeros(shape[:-1], SCALE_TYPE) for name, shape in rows.items() if dtype in SCALED}


def random_cache(key: Any, rows: Mapping[str, tuple[int, ...]], dtype: str) -> Cache:
    """Normal rows of these shapes, encoded: what a run begins with that decodes without a prompt."""
    found: Cache = {}
    for number, (name, shape) in enumerate(rows.items()):
        found |= encode_rows(name, jax.random.normal(jax.random.fold_in(key, number), shape), dtype)
    return found


def encode_rows(name: str, rows: Any, dtype: str) -> Cache:
    """Rows [..., d_head] as the cache keeps them."""
    if dtype not in SCALED:
        return {name: rows.astype(dtype)}
    values, scale = quantize(rows, (-1,), dtype, SCALE_TYPE)
    return {name: values, f"{name}_scale": scale}


def write_rows(cache: Cache, name: str, rows: Any, start: Any, layer: Any = None) -> Cache:
    """The cache with `rows` [batch, seq, heads, d_head], or without heads, from position `start` on, of one `layer` where they are
    stacked."""
    with jax.named_scope("write_cache"):
        parts = encode_rows(name, jnp.moveaxis(rows, 0, -2), str(cache[name].dtype))
        return cache | {each: _write(cache[each], part, start, layer) for each, part in parts.items()}


def _write(stacked: Any, part: Any, start: Any, layer: Any) -> Any:
    zero = jnp.zeros((), jnp.int32)
    places = [jnp.asarray(start, jnp.int32), *[zero] * (part.ndim - 1)]
    if layer is None:
        return jax.lax.dynamic_update_slice(stacked, part, places)
    return jax.lax.dynamic_update_slice(stacked, part[None], [layer, *places])


def read_rows(cache: Cache, name: str, layer: Any = None) -> CachedRows:
    """All rows under this name, of one `layer` where they are stacked."""
    with jax.named_scope("read_cache"):

        def read(stacked: Any) -> Any:
            return stacked if layer is None else jax.lax.dynamic_index_in_dim(stacked, layer, 0, keepdims=False)

        scale = cache.get(f"{name}_scale")
        return CachedRows(read(cache[name]), None if scale is None else read(scale))


def attend_cached(query: Any, key: CachedRows, value: CachedRows, length: Any, *, fused: bool) -> Any:
    """The mix [batch, seq, heads, queries, d_head] of the first `length` values, for queries of that shape that are already scaled by the
    root of their width; `fused` if one kernel computes it, which reads the cache once, as it is kept."""
    if fused:
        with fused_kernel("flash_decoding"), jax.named_scope("core"):
            return mark(_mix_cached(query, key, value, length), "mixed_here")
    with jax.named_scope("core"):
        return mark(_mix_cached(query, key, value, length), "mixed_here")


def _mix_cached(query: Any, key: CachedRows, value: CachedRows, length: Any) -> Any:
    """Scales are applied to the scores and to the shares, which are fewer than what is cached."""
    scores = jnp.einsum("bshqk,thbk->bhqst", query, key.values.astype(query.dtype)).astype(jnp.float32)
    scores = scores if key.scale is None else scores * _beside_scores(key.scale)
    hidden = jnp.where(jnp.arange(scores.shape[-1]) < length, 0.0, -1e9)
    shares = jax.nn.softmax(scores + hidden, axis=-1)
    shares = shares if value.scale is None else shares * _beside_scores(value.scale)
    return jnp.einsum("bhqst,thbk->bshqk", shares.astype(query.dtype), value.values.astype(query.dtype))


def _beside_scores(scale: Any) -> Any:
    """Scales [context, heads, batch] as float32[batch, heads, 1, 1, context]."""
    return scale.T[:, :, None, None].astype(jnp.float32)


# Programs of a step of inference: those that read prompts, and those that make one token of each sequence.

Start = Callable[[Any], tuple[Any, Any]]
"""`start(key) -> (params, cache)`: what a live run begins with."""


def trace_prompt(step: Callable[..., Any], start: Start, *, batch: int, seq: int, dims: Mapping[str, str], name: str) -> Program:
    """The program of `step(params, cache, {"tokens": int32[batch, seq]})`; live runs read the bytes of `models.data.english_text`."""
    words = english_text.batches(batch, seq)
    return _trace(step, start, (batch, seq), "batch seq", dims, name, lambda number: words(number)["tokens"])


def trace_token(step: Callable[..., Any], start: Start, *, batch: int, dims: Mapping[str, str], name: str) -> Program:
    """The program of `step(params, cache, {"tokens": int32[batch]})`; live runs read bytes of `models.data.english_text`, whatever
    the model would have written."""
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
    params, cache = jax.eval_shape(lambda: start(jax.random.key(0)))  # a key made outside would wake the devices
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
