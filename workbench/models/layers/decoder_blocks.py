"""Shared blocks of the zoo's decoder Transformers: marks, kernels, normalization, positions, attention, embedding and
head.

Dimensions in einsum strings: b batch, s seq (of queries), t seq (of keys), d d_model, h heads (of keys and values), q
queries (query heads per key-value head), k d_head, g gate_up, f d_ff, v vocab.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name

from workbench.models.decoder.decoder_layouts import CORE
from workbench.models.layers import norms_and_losses
from workbench.models.layers.local_attention import Window, sees
from workbench.tracing import fused_kernel
from workbench.tracing.jaxpr.float8_products import Einsum

Params = dict[str, Any]


class Choices(Protocol):
    """Common fields of the decoder configurations; see `DecoderConfig` for their meaning."""

    @property
    def vocab(self) -> int: ...
    @property
    def norm(self) -> str: ...
    @property
    def positions(self) -> str: ...
    @property
    def tied(self) -> bool: ...
    @property
    def lookup(self) -> str: ...
    @property
    def fused(self) -> str: ...
    @property
    def compute(self) -> str: ...


def kernel(name: str, config: Choices, compute: Callable[..., Any], *operands: Any) -> Any:
    """Compute `compute(*operands)` in a named scope, or as one kernel that keeps only its operands."""
    if name not in config.fused.split():
        with jax.named_scope(name):
            return compute(*operands)
    with fused_kernel(name):
        return jax.checkpoint(compute)(*operands)


def mark(value: Any, name: str) -> Any:
    """Name a value for constraints of a layout (`@NAME/reduce_precision=[...]`, forward and backward) and for remat
    policies.

    Rounding to the present precision is a no-op, which XLA drops once the sharding is settled.
    """
    kind = jnp.finfo(value.dtype)
    with jax.named_scope(name):
        return checkpoint_name(jax.lax.reduce_precision(value, kind.nexp, kind.nmant), name)


def normalize(weights: Params, x: Any, config: Choices) -> Any:
    """Layer (Ba et al. 2016) or RMS normalization (Zhang and Sennrich 2019) over the last dimension, in float32."""

    def compute(weights: Params, x: Any) -> Any:
        wide = x.astype(jnp.float32)
        if config.norm == "layer":
            wide = wide - wide.mean(-1, keepdims=True)
        scaled = wide * jax.lax.rsqrt(jnp.square(wide).mean(-1, keepdims=True) + 1e-5) * weights["scale"].astype(jnp.float32)
        return (scaled + weights["bias"].astype(jnp.float32) if "bias" in weights else scaled).astype(x.dtype)

    return kernel("norm", config, compute, weights, x)


def rotate(x: Any, positions: Any = None) -> Any:
    """Rotary positions (Su et al. 2021) for x [batch, seq, ...]; `positions` [seq] if not in order."""
    half = x.shape[-1] // 2
    angles = (jnp.arange(x.shape[1]) if positions is None else positions)[:, None] * 1e4 ** (-jnp.arange(half) / half)
    cos, sin = (jnp.expand_dims(turn(angles), tuple(range(1, x.ndim - 2))) for turn in (jnp.cos, jnp.sin))
    left, right = x[..., :half].astype(jnp.float32), x[..., half:].astype(jnp.float32)
    return jnp.concatenate([left * cos - right * sin, right * cos + left * sin], -1).astype(x.dtype)


def softmax(scores: Any, window: Window | None = None) -> Any:
    """Causal softmax in float32 over the last dimension of scores [batch, heads, queries, seq, keys], of the keys in the window."""
    positions = jnp.arange(scores.shape[-1])
    visible = positions[:, None] >= positions[None, :]
    if window is not None:
        visible &= sees(window, positions[:, None] - positions[None, :], positions[None, :])
    hidden = jnp.where(visible, 0.0, -1e9)
    return jax.nn.softmax(scores.astype(jnp.float32) + hidden, axis=-1).astype(scores.dtype)


def mix(query: Any, key: Any, value: Any, shares: Callable[..., Any]) -> Any:
    """Causal attention [batch, seq, heads, queries, d_head]; keys and values have 1 for `queries`."""
    query, key, value = (mark(operand, name) for operand, name in zip((query, key, value), CORE[:3], strict=True))
    # `jnp.einsum` makes its last operand the left one of these products, and Shardy shards the left one's dimension if it must choose.
    # Queries must win: scores sharded by keys would be re-sharded, all of them.
    scores = jnp.einsum("bthk,bshqk->bhqst", key.squeeze(3), query * query.shape[-1] ** -0.5)
    return mark(jnp.einsum("bthk,bhqst->bshqk", value.squeeze(3), shares(scores)), CORE[3])


def flash_attention(query: Any, key: Any, value: Any, window: Window | None = None) -> Any:
    """`mix` as one kernel that skips masked scores."""
    if window is None:
        with fused_kernel("flash_attention", work=0.5), jax.named_scope("core"):
            return jax.checkpoint(partial(mix, shares=softmax))(query, key, value)

    def attend(query: Any, key: Any, value: Any, reach: Any) -> Any:
        return mix(query, key, value, partial(softmax, window=window._replace(reach=reach)))

    with fused_kernel("flash_attention", work=window.share), jax.named_scope("core"):
        return jax.checkpoint(attend)(query, key, value, jnp.asarray(window.reach, jnp.int32))


def activate(config: Choices, up: Any, bias: Any) -> Any:
    """SwiGLU, silu(gate) x value, for up [batch, seq, 2, d_ff]; GELU for [batch, seq, 1, d_ff]."""
    up = up if bias is None else up + bias.astype(up.dtype)
    curve = jax.nn.silu if up.shape[2] > 1 else jax.nn.gelu
    if "nonlinearity" in config.fused.split():
        curved = mark(kernel("nonlinearity", config, curve, up[:, :, 0]), "curved")
    else:
        curved = curve(up[:, :, 0])
    return curved * up[:, :, 1] if up.shape[2] > 1 else curved


def mlp(weights: Params, x: Any, config: Choices, einsum: Einsum = jnp.einsum) -> Any:
    with jax.named_scope("up"):
        up = mark(einsum("bsd,dgf->bsgf", x, weights["w1"].astype(x.dtype)), "up")
    hidden = kernel("activation", config, partial(activate, config), up, weights.get("b1"))
    with jax.named_scope("down"):
        return einsum("bsf,fd->bsd", mark(hidden, "hidden"), weights["w2"].astype(x.dtype))


def add(x: Any, change: Any, weights: Params, bias: str) -> Any:
    with jax.named_scope("residual"):
        return mark((change + weights[bias].astype(x.dtype) if bias in weights else change) + x, "stream")


def sinusoids(seq: int, d_model: int) -> Any:
    """float32[seq, d_model]: sines, then cosines, wavelengths 2 pi to 10,000 times that (Vaswani et al. 2017)."""
    angles = jnp.arange(seq)[:, None] * 1e4 ** (-jnp.arange(d_model // 2) / (d_model // 2))
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)


def embed(
    params: Params,
    tokens: Any,
    config: Choices,
    arrange: Callable[[Any], Any] = lambda table: table,
    *,
    einsum: Einsum = jnp.einsum,
    rows: int | None = None,
) -> Any:
    """Embed tokens int32[batch, seq]; `arrange` puts a table of positions [rows, d_model] in token order."""
    table = params["embedding"]["tokens"].astype(config.compute)
    with jax.named_scope("embedding"):
        x = (
            table[tokens]
            if config.lookup == "gather"
            else einsum("bsv,vd->bsd", jax.nn.one_hot(tokens, config.vocab, dtype=table.dtype), table)
        )
        if config.positions == "sinusoidal":
            x = x + arrange(sinusoids(rows or x.shape[1], x.shape[2])).astype(x.dtype)
        return mark(x + arrange(params["embedding"]["positions"]).astype(x.dtype) if config.positions == "learned" else x, "stream")


def project_vocab(params: Params, x: Any, config: Choices, einsum: Einsum = jnp.einsum) -> Any:
    """Logits [batch, seq, vocab] of the last layer's output [batch, seq, d_model]."""
    with jax.named_scope("norm"):
        x = mark(normalize(params["norm"], x, config), "final")
    with jax.named_scope("head"):
        return einsum(
            "bsd,dv->bsv", x, params["embedding"]["tokens"].T.astype(x.dtype) if config.tied else params["head"]["w"].astype(x.dtype)
        )


def cross_entropy(params: Params, x: Any, targets: Any, config: Choices) -> Any:
    """Mean cross entropy over tokens in nats, from the last layer's output [batch, seq, d_model]."""
    return kernel("loss", config, norms_and_losses.cross_entropy, project_vocab(params, x, config), targets)
