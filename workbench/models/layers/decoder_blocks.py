"""What the decoder Transformers of the zoo share: marks and kernels, normalisation, positions, the attention's core, the two ends.

Dimensions in einsum strings: b batch, s seq (of queries), t seq (of keys), d d_model, h heads (of keys and values), q queries (heads of
queries for each of these), k d_head, g gate_up, f d_ff, v vocab.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name

from workbench.models.decoder.decoder_layouts import CORE
from workbench.models.layers import norms_and_losses
from workbench.models.layers.float8_products import Einsum
from workbench.tracing import fused_kernel

Params = dict[str, Any]


class Choices(Protocol):
    """What the configurations of decoders have in common; `DecoderConfig` says what each choice means."""

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
    """`compute(*operands)` in its named scope; as one kernel, which keeps nothing but its operands, where the target has one for it."""
    if name not in config.fused.split():
        with jax.named_scope(name):
            return compute(*operands)
    with fused_kernel(name):
        return jax.checkpoint(compute)(*operands)


def mark(value: Any, name: str) -> Any:
    """`value`, by a name that a layout's constraint (`@NAME/reduce_precision=[...]`, forward and backward) and a remat policy can use.

    Rounding to the precision it has is no operation in XLA, which drops it once the sharding is settled.
    """
    kind = jnp.finfo(value.dtype)
    with jax.named_scope(name):
        return checkpoint_name(jax.lax.reduce_precision(value, kind.nexp, kind.nmant), name)


def normalize(weights: Params, x: Any, config: Choices) -> Any:
    """Layer (Ba et al. 2016) or root-mean-square normalisation (Zhang and Sennrich 2019) over the last dimension, in float32."""

    def compute(weights: Params, x: Any) -> Any:
        wide = x.astype(jnp.float32)
        if config.norm == "layer":
            wide = wide - wide.mean(-1, keepdims=True)
        scaled = wide * jax.lax.rsqrt(jnp.square(wide).mean(-1, keepdims=True) + 1e-5) * weights["scale"].astype(jnp.float32)
        return (scaled + weights["bias"].astype(jnp.float32) if "bias" in weights else scaled).astype(x.dtype)

    return kernel("norm", config, compute, weights, x)


def rotate(x: Any, positions: Any = None) -> Any:
    """Rotary positions (Su et al. 2021): the halves of the last dimension of x [batch, seq, ...] turned by angles that grow with the
    position; `positions` [seq] if not in their order."""
    half = x.shape[-1] // 2
    angles = (jnp.arange(x.shape[1]) if positions is None else positions)[:, None] * 1e4 ** (-jnp.arange(half) / half)
    cos, sin = (jnp.expand_dims(turn(angles), tuple(range(1, x.ndim - 2))) for turn in (jnp.cos, jnp.sin))
    left, right = x[..., :half].astype(jnp.float32), x[..., half:].astype(jnp.float32)
    return jnp.concatenate([left * cos - right * sin, right * cos + left * sin], -1).astype(x.dtype)


def softmax(scores: Any) -> Any:
    """Softmax over the keys a query may see, in float32: [batch, heads, queries, seq, keys] from the same."""
    positions = jnp.arange(scores.shape[-1])
    hidden = jnp.where(positions[:, None] >= positions[None, :], 0.0, -1e9)
    return jax.nn.softmax(scores.astype(jnp.float32) + hidden, axis=-1).astype(scores.dtype)


def mix(query: Any, key: Any, value: Any, shares: Callable[..., Any]) -> Any:
    """Causal attention, [batch, seq, heads, queries, d_head]; keys and values have 1 for `queries`, and values a width of their own."""
    query, key, value = (mark(each, name) for each, name in zip((query, key, value), CORE[:3], strict=True))
    scores = jnp.einsum("bshqk,bthk->bhqst", query * query.shape[-1] ** -0.5, key.squeeze(3))
    return mark(jnp.einsum("bhqst,bthk->bshqk", shares(scores), value.squeeze(3)), CORE[3])


def flash_attention(query: Any, key: Any, value: Any) -> Any:
    """`mix` as one kernel that skips what the mask hides."""
    with fused_kernel("flash_attention", work=0.5), jax.named_scope("core"):
        return jax.checkpoint(partial(mix, shares=softmax))(query, key, value)


def activate(config: Choices, up: Any, bias: Any) -> Any:
    """SwiGLU, silu(gate) x value, of up [batch, seq, 2, d_ff]; GELU of [batch, seq, 1, d_ff]."""
    up = up if bias is None else up + bias.astype(up.dtype)
    curve = jax.nn.silu if up.shape[2] > 1 else jax.nn.gelu
    if "nonlinearity" in config.fused.split():
        curved = mark(kernel("nonlinearity", config, curve, up[:, :, 0]), "curved")
    else:
        curved = curve(up[:, :, 0])
    return curved * up[:, :, 1] if up.shape[2] > 1 else curved


def mlp(weights: Params, x: Any, config: Choices, einsum: Einsum = jnp.einsum) -> Any:
    """[batch, seq, d_model] from the same, through d_ff; `einsum` computes the products."""
    with jax.named_scope("up"):
        up = mark(einsum("bsd,dgf->bsgf", x, weights["w1"].astype(x.dtype)), "up")
    hidden = kernel("activation", config, partial(activate, config), up, weights.get("b1"))
    with jax.named_scope("down"):
        return einsum("bsf,fd->bsd", mark(hidden, "hidden"), weights["w2"].astype(x.dtype))


def add(x: Any, change: Any, weights: Params, bias: str) -> Any:
    """The stream after a sublayer."""
    with jax.named_scope("residual"):
        return mark((change + weights[bias].astype(x.dtype) if bias in weights else change) + x, "stream")


def sinusoids(seq: int, d_model: int) -> Any:
    """float32[seq, d_model]: sines, then cosines, of wavelengths from 2 pi to 10,000 times that (Vaswani et al. 2017)."""
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
    """[batch, seq, d_model] from int32[batch, seq]; `arrange` puts a table of positions [rows, d_model] in the order of the tokens, and
    `rows` are as many as there are tokens if it is left out."""
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
    """Logits [batch, seq, vocab] of the last layer's [batch, seq, d_model]."""
    with jax.named_scope("norm"):
        x = mark(normalize(params["norm"], x, config), "final")
    with jax.named_scope("head"):
        return einsum(
            "bsd,dv->bsv", x, params["embedding"]["tokens"].T.astype(x.dtype) if config.tied else params["head"]["w"].astype(x.dtype)
        )


def cross_entropy(params: Params, x: Any, targets: Any, config: Choices) -> Any:
    """The mean over tokens of logsumexp(logits) - logits[target], in nats, from the last layer's [batch, seq, d_model]."""
    return kernel("loss", config, norms_and_losses.cross_entropy, project_vocab(params, x, config), targets)
