"""A decoder Transformer with the choices of today's models: grouped queries, rotary or learned positions, RMS or layer normalisation,
SwiGLU or GELU, with or without biases, a tied head or one of its own, and what is computed again in the backward pass.

Dimensions: batch, seq (positions of a query), d_model, kv_heads, queries (heads of queries for each head of keys and values), d_head,
gates, d_ff, vocab, layers.
In einsum strings they are b, s, d, h, q, k, g, f, v; t is the sequence of keys, c the width of the joint projection.

A group's queries, its key and its value are one projection (as Megatron-LM stores them), and so are gate and value of SwiGLU: with
heads or `d_ff` split, a layer then has two all-reduces forward and two backward (Shoeybi et al. 2019). With `sequence_parallel` they
become all-gathers and reduce-scatters (Korthikanti et al. 2022).
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.ad_checkpoint import checkpoint_name

from workbench.errors import DocumentError, unknown_name
from workbench.models import text
from workbench.models.decoder_config import PRESETS, DecoderConfig
from workbench.models.decoder_layouts import CORE
from workbench.models.decoder_weights import Params, dims, init
from workbench.models.recompute import remat_policy, replayed
from workbench.program import Program
from workbench.tracing import fused_kernel, trace_training


def _kernel(name: str, config: DecoderConfig, compute: Callable[..., Any], *operands: Any) -> Any:
    """`compute(*operands)` in its named scope; as one kernel, which keeps nothing but its operands, where the target has one for it."""
    if name not in config.fused.split():
        with jax.named_scope(name):
            return compute(*operands)
    with fused_kernel(name):
        return jax.checkpoint(compute)(*operands)


def _normalize(weights: Params, x: Any, config: DecoderConfig) -> Any:
    """Layer (Ba et al. 2016) or root-mean-square normalisation (Zhang and Sennrich 2019) over d_model, in float32."""

    def compute(weights: Params, x: Any) -> Any:
        wide = x.astype(jnp.float32)
        if config.norm == "layer":
            wide = wide - wide.mean(-1, keepdims=True)
        scaled = wide * jax.lax.rsqrt(jnp.square(wide).mean(-1, keepdims=True) + 1e-5) * weights["scale"].astype(jnp.float32)
        return (scaled + weights["bias"].astype(jnp.float32) if "bias" in weights else scaled).astype(x.dtype)

    return _kernel("norm", config, compute, weights, x)


def _rotate(x: Any) -> Any:
    """Rotary positions (Su et al. 2021): the halves of x [batch, seq, kv_heads, width, d_head] turned by angles that grow with seq."""
    half = x.shape[-1] // 2
    angles = jnp.arange(x.shape[1])[:, None] * 1e4 ** (-jnp.arange(half) / half)
    cos, sin = (turn(angles)[:, None, None, :] for turn in (jnp.cos, jnp.sin))
    left, right = x[..., :half].astype(jnp.float32), x[..., half:].astype(jnp.float32)
    return jnp.concatenate([left * cos - right * sin, right * cos + left * sin], -1).astype(x.dtype)


def _mark(value: Any, name: str) -> Any:
    """`value`, by a name that a layout's constraint (`@NAME/reduce_precision=[...]`, forward and backward) and a remat policy can use.

    Rounding to the precision it has is no operation in XLA, which drops it once the sharding is settled.
    """
    kind = jnp.finfo(value.dtype)
    with jax.named_scope(name):
        return checkpoint_name(jax.lax.reduce_precision(value, kind.nexp, kind.nmant), name)


def _query_key_value(weights: Params, x: Any, config: DecoderConfig) -> tuple[Any, Any, Any]:
    """Queries [batch, seq, kv_heads, queries, d_head], keys and values with one instead of `queries`."""
    product = jnp.einsum("bsd,dhck->bshck", x, weights["wqkv"].astype(x.dtype))
    if "bqkv" in weights:
        product += weights["bqkv"].astype(x.dtype)
    query, key, value = jax.lax.split(_mark(product, "projected"), (config.queries, 1, 1), axis=3)
    if config.positions == "rotary":
        query, key = _kernel("rotary", config, lambda *both: tuple(map(_rotate, both)), query, key)
    return _mark(query, "query"), _mark(key, "key"), _mark(value, "value")


def _shares(scores: Any) -> Any:
    """Softmax over the keys a query may see, in float32: [batch, kv_heads, queries, seq, keys] from the same."""
    positions = jnp.arange(scores.shape[-1])
    hidden = jnp.where(positions[:, None] >= positions[None, :], 0.0, -1e9)
    return jax.nn.softmax(scores.astype(jnp.float32) + hidden, axis=-1).astype(scores.dtype)


def _drop(shares: Any, key: Any, rate: float) -> Any:
    """A share `rate` of the values set to zero (Srivastava et al. 2014), the others scaled up; key uint32[4]."""
    _, bits = jax.lax.rng_bit_generator(key, shares.shape, dtype=jnp.uint8)
    return jnp.where(bits >= round(256 * rate), shares * (1 / (1 - rate)), 0).astype(shares.dtype)


def _mix(query: Any, key: Any, value: Any, shares: Callable[..., Any]) -> Any:
    """Causal attention, [batch, seq, kv_heads, queries, d_head]."""
    query, key, value = (_mark(each, name) for each, name in zip((query, key, value), CORE[:3], strict=True))
    scores = jnp.einsum("bshqk,bthk->bhqst", query * query.shape[-1] ** -0.5, key.squeeze(3))
    return _mark(jnp.einsum("bhqst,bthk->bshqk", shares(scores), value.squeeze(3)), CORE[3])


def _core(query: Any, key: Any, value: Any, random: Any, config: DecoderConfig) -> Any:
    """Attention by a product, a softmax, dropout and a product."""

    def shares(scores: Any) -> Any:
        found = checkpoint_name(_kernel("softmax", config, _shares, scores), "shares")
        return (
            _kernel("dropout", config, lambda shares, key: _drop(shares, key, config.dropout), found, random) if config.dropout else found
        )

    return _mix(query, key, value, shares)


def _attention(weights: Params, x: Any, random: Any, config: DecoderConfig) -> Any:
    """[batch, seq, d_model] from the same."""
    with jax.named_scope("query_key_value"):
        query, key, value = _query_key_value(weights, x, config)
    if "attention" in config.fused.split():
        with fused_kernel("flash_attention", work=0.5), jax.named_scope("core"):
            mixed = jax.checkpoint(partial(_mix, shares=_shares))(query, key, value)
    else:
        with jax.named_scope("core"):
            core = partial(_core, config=config)
            mixed = (replayed(core) if config.recompute == "attention" else core)(query, key, value, random)
    with jax.named_scope("output"):
        return jnp.einsum("bshqk,hqkd->bsd", _mark(mixed, "mixed"), weights["wo"].astype(x.dtype))


def _activate(up: Any, bias: Any) -> Any:
    """SwiGLU, silu(gate) x value, of up [batch, seq, 2, d_ff]; GELU of [batch, seq, 1, d_ff]."""
    up = up if bias is None else up + bias.astype(up.dtype)
    return jax.nn.silu(up[:, :, 0]) * up[:, :, 1] if up.shape[2] > 1 else jax.nn.gelu(up[:, :, 0])


def _mlp(weights: Params, x: Any, config: DecoderConfig) -> Any:
    """[batch, seq, d_model] from the same, through d_ff."""
    with jax.named_scope("up"):
        up = _mark(jnp.einsum("bsd,dgf->bsgf", x, weights["w1"].astype(x.dtype)), "up")
    hidden = _kernel("activation", config, _activate, up, weights.get("b1"))
    with jax.named_scope("down"):
        return jnp.einsum("bsf,fd->bsd", _mark(hidden, "hidden"), weights["w2"].astype(x.dtype))


def _add(x: Any, change: Any, weights: Params, bias: str) -> Any:
    with jax.named_scope("residual"):
        return _mark((change + weights[bias].astype(x.dtype) if bias in weights else change) + x, "stream")


def layer(weights: Params, x: Any, random: Any, config: DecoderConfig) -> Any:
    """One layer, [batch, seq, d_model] from the same; `random` is the key of its dropout, if it has any."""
    with jax.named_scope("attention"):
        normal = _mark(_normalize(weights["norm1"], x, config), "normal")
        x = _add(x, _attention(weights["attention"], normal, random, config), weights["attention"], "bo")
    with jax.named_scope("mlp"):
        normal = _mark(_normalize(weights["norm2"], x, config), "normal")
        return _add(x, _mlp(weights["mlp"], normal, config), weights["mlp"], "b2")


def run_layers(params: Params, x: Any, config: DecoderConfig, key: Any = None) -> Any:
    """All layers, scanned if they are stacked, each keeping for its backward pass what `recompute` says; `key` uint32[4] if there is
    dropout."""
    one: Callable[..., Any] = partial(layer, config=config)
    if config.recompute == "replay":
        one = replayed(one)
    elif config.recompute != "none":
        one = jax.checkpoint(one, policy=remat_policy(config.recompute))
    with jax.named_scope("layers"):
        keys = None if key is None else key + jnp.arange(config.layers, dtype=key.dtype)[:, None]
        if isinstance(params["layers"], dict):
            return jax.lax.scan(lambda x, each: (one(each[0], x, each[1]), None), x, (params["layers"], keys))[0]
        for number, weights in enumerate(params["layers"]):
            with jax.named_scope(str(number)):
                x = one(weights, x, None if keys is None else keys[number])
    return x


def embed(params: Params, tokens: Any, config: DecoderConfig) -> Any:
    """[batch, seq, d_model] from int32[batch, seq]."""
    table = params["embedding"]["tokens"].astype(config.compute)
    with jax.named_scope("embedding"):
        x = (
            table[tokens]
            if config.lookup == "gather"
            else jnp.einsum("bsv,vd->bsd", jax.nn.one_hot(tokens, config.vocab, dtype=table.dtype), table)
        )
        return _mark(x + params["embedding"]["positions"].astype(x.dtype) if config.positions == "learned" else x, "stream")


def cross_entropy(params: Params, x: Any, targets: Any, config: DecoderConfig) -> Any:
    """The mean over tokens of logsumexp(logits) - logits[target], in nats, from the last layer's [batch, seq, d_model]."""
    with jax.named_scope("norm"):
        x = _mark(_normalize(params["norm"], x, config), "final")
    with jax.named_scope("head"):
        logits = jnp.einsum(
            "bsd,dv->bsv", x, params["embedding"]["tokens"].T.astype(x.dtype) if config.tied else params["head"]["w"].astype(x.dtype)
        )
    return _kernel("loss", config, _cross_entropy, logits, targets)


def _cross_entropy(logits: Any, targets: Any) -> Any:
    wide = logits.astype(jnp.float32)
    chosen = jnp.where(targets[..., None] == jnp.arange(logits.shape[-1]), wide, 0).sum(-1)
    return (jax.nn.logsumexp(wide, axis=-1) - chosen).mean()


def random_key(config: DecoderConfig) -> dict[str, Any]:
    """The part of a batch that dropout needs."""
    return {"key": jax.ShapeDtypeStruct((4,), jnp.uint32)} if config.dropout else {}


def make_loss(config: DecoderConfig) -> Callable[[Params, dict[str, Any]], Any]:
    """`loss(params, {"tokens", "targets"})`: the mean cross entropy of the next token."""

    def loss(params: Params, batch: dict[str, Any]) -> Any:
        x = run_layers(params, embed(params, batch["tokens"], config), config, batch.get("key"))
        return cross_entropy(params, x, batch["targets"], config)

    return loss


def preset_config(preset: str, **changes: Any) -> DecoderConfig:
    """A preset with some of its choices changed; `None` keeps the preset's. Raises `DocumentError` for an unknown preset."""
    if preset not in PRESETS:
        raise DocumentError(*unknown_name("preset", preset, PRESETS))
    return replace(PRESETS[preset], **{name: value for name, value in changes.items() if value is not None})


def build(
    *,
    preset: str = "tiny",
    scan: bool = True,
    recompute: str = "",
    batch: int | None = None,
    layers: int | None = None,
    seq: int | None = None,
) -> Program:
    """A training step of a preset with AdamW, some of its choices changed; nothing is allocated."""
    config = preset_config(preset, batch=batch, layers=layers, seq=seq, recompute=recompute or None)
    return training_step(config, scan=scan, name=f"decoder {preset}")


def training_step(config: DecoderConfig, *, scan: bool = True, name: str = "decoder") -> Program:
    """A training step with AdamW; nothing is allocated. Live runs train on the bytes of `models.text`."""
    start = partial(init, config=config, scan=scan)
    tokens, words = jax.ShapeDtypeStruct((config.batch, config.seq), jnp.int32), text.batches(config.batch, config.seq)

    def data(step: int) -> dict[str, Any]:
        return words(step) | ({"key": np.array([0, 0, 0, step], np.uint32)} if config.dropout else {})

    return trace_training(
        make_loss(config),
        jax.eval_shape(lambda: start(jax.random.key(0))),
        {"tokens": tokens, "targets": tokens} | random_key(config),
        optimizer=optax.adamw(config.learning_rate),
        dims={"batch/tokens": "batch seq", "batch/targets": "batch seq", **dims(config, scan=scan)},
        name=name,
        init=start,
        data=data,
    )
