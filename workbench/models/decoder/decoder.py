"""A decoder Transformer with the architecture choices of current models.

Options: grouped-query attention, rotary or learned positions, RMS or layer normalization, SwiGLU or GELU, biases, a
tied head, local attention, float8 products, ring attention, and recomputation.

Dimensions: batch, seq (positions of a query), d_model, kv_heads, q_per_kv (query heads for each key-value head),
d_head, gate_up, d_ff, vocab, layers. In einsum strings they are b, s, d, h, q, k, g, f, v; c is the width of the joint
projection.

A group's queries, its key and its value are one projection (as Megatron-LM stores them), and so are gate and value of
SwiGLU: with heads or `d_ff` sharded, a layer then has two all-reduces forward and two backward (Shoeybi et al. 2019).
With `sequence_parallel` they become all-gathers and reduce-scatters (Korthikanti et al. 2022).
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name

from workbench.core.program import Program
from workbench.errors import TraceError
from workbench.models.config_fields import choose_preset, name_program
from workbench.models.data import english_text
from workbench.models.decoder.decoder_config import PRESETS, DecoderConfig
from workbench.models.decoder.decoder_weights import dims, init, sum_copied_heads
from workbench.models.layers.decoder_blocks import (
    Params,
    add,
    cross_entropy,
    embed,
    flash_attention,
    kernel,
    mark,
    mix,
    mlp,
    normalize,
    rotate,
    softmax,
)
from workbench.models.layers.layer_checkpoint import checkpoint_layer, recompute_all
from workbench.models.layers.local_attention import find_window, of_layer, scanned_reaches
from workbench.models.layers.low_rank_adapters import TRAINED, adapt, with_adapters
from workbench.models.layers.ring_attention import ring_attention, zigzag, zigzag_positions
from workbench.tracing import trace_training
from workbench.tracing.jaxpr.float8_products import Einsum, product_by


def _query_key_value(weights: Params, x: Any, config: DecoderConfig, einsum: Einsum, positions: Any) -> tuple[Any, Any, Any]:
    """Queries [batch, seq, kv_heads, q_per_kv, d_head]; keys and values have 1 instead of `q_per_kv`."""
    product = einsum("bsd,dhck->bshck", x, weights["wqkv"].astype(x.dtype))
    if "bqkv" in weights:
        product += weights["bqkv"].astype(x.dtype)
    query, key, value = jax.lax.split(mark(product, "projected"), (config.q_per_kv // config.kv_copies, 1, 1), axis=3)
    if config.positions == "rotary":
        query, key = kernel("rotary", config, lambda *both: tuple(rotate(part, positions) for part in both), query, key)
    return mark(query, "query"), mark(key, "key"), mark(value, "value")


def _drop(shares: Any, key: Any, rate: float) -> Any:
    """Dropout (Srivastava et al. 2014): zero a share `rate` of the values and scale up the others; key uint32[4]."""
    _, bits = jax.lax.rng_bit_generator(key, shares.shape, dtype=jnp.uint8)
    return jnp.where(bits >= round(256 * rate), shares * (1 / (1 - rate)), 0).astype(shares.dtype)


def _core(query: Any, key: Any, value: Any, random: Any, reach: Any, config: DecoderConfig) -> Any:
    """Attention by separate operations: product, softmax, dropout, product."""
    window = find_window(config, query.shape[1], reach)

    def shares(scores: Any) -> Any:
        probabilities = checkpoint_name(kernel("softmax", config, partial(softmax, window=window), scores), "shares")
        return (
            kernel("dropout", config, lambda shares, key: _drop(shares, key, config.dropout), probabilities, random)
            if config.dropout
            else probabilities
        )

    return mix(query, key, value, shares)


def attend_sequence(query: Any, key: Any, value: Any, random: Any, config: DecoderConfig, reach: Any = None) -> Any:
    """Causal attention [batch, seq, kv_heads, q_per_kv, d_head]; `reach` is the number of tokens that the layer sees.

    Raises `TraceError` for dropout in a ring.
    """
    if config.ring > 1:
        if config.dropout:
            raise TraceError("An attention over a ring has no dropout.", ["set `dropout=0.0`", "set `ring=1`"])
        with jax.named_scope("core"):
            return ring_attention(query, key, value, ring=config.ring, fused="attention" in config.fused.split())
    if "attention" in config.fused.split():
        return flash_attention(query, key, value, find_window(config, query.shape[1], reach))
    with jax.named_scope("core"):
        core = partial(_core, config=config)
        return (recompute_all(core) if config.recompute == "attention" else core)(query, key, value, random, reach)


def layer_with(
    weights: Params, x: Any, config: DecoderConfig, attend: Callable[..., Any], *, einsum: Einsum, positions: Any = None
) -> tuple[Any, Any]:
    """Apply one layer to x [batch, seq, d_model]; also returns the second result of `attend(query, key, value)`.

    `einsum` computes the weight products; `positions` int[seq] are needed unless tokens are in order from 0.
    """
    with jax.named_scope("attention"):
        normal = mark(normalize(weights["norm1"], x, config), "normal")
        attention = weights["attention"]
        with jax.named_scope("query_key_value"):
            heads = _query_key_value(attention, normal, config, einsum, positions)
        mixed, kept = attend(*heads)
        with jax.named_scope("output"):
            change = einsum("bshqk,hqkd->bsd", mark(mixed, "mixed"), attention["wo"].astype(x.dtype))
        x = add(x, change, attention, "bo")
    with jax.named_scope("mlp"):
        normal = mark(normalize(weights["norm2"], x, config), "normal")
        return add(x, mlp(weights["mlp"], normal, config, einsum), weights["mlp"], "b2"), kept


def layer(weights: Params, x: Any, random: Any, reach: Any = None, *, config: DecoderConfig) -> Any:
    """Apply one layer in training to x [batch, seq, d_model]; `random` is the key of its dropout, and `reach` as in `attend_sequence`."""
    positions = zigzag_positions(config.seq, config.ring) if config.ring > 1 else None

    def attend(query: Any, key: Any, value: Any) -> tuple[Any, None]:
        return attend_sequence(query, key, value, random, config, reach), None

    if config.kv_copies > 1:
        weights = {**weights, "attention": sum_copied_heads(weights["attention"], config.kv_copies)}
    einsum = with_adapters(product_by(config.float8)) if config.lora_rank else product_by(config.float8)
    return layer_with(adapt(weights), x, config, attend, einsum=einsum, positions=positions)[0]


def run_layers(params: Params, x: Any, config: DecoderConfig, key: Any = None) -> Any:
    """Apply all layers, scanned if stacked, with the configured recomputation; `key` uint32[4] for dropout."""

    @cache
    def one_layer(config: DecoderConfig) -> Callable[..., Any]:
        return checkpoint_layer(partial(layer, config=config), config.recompute, config.float8)

    with jax.named_scope("layers"):
        keys = None if key is None else key + jnp.arange(config.layers, dtype=key.dtype)[:, None]
        if isinstance(params["layers"], dict):
            scanned, apply = (params["layers"], keys, scanned_reaches(config)), one_layer(config)
            return jax.lax.scan(lambda x, each: (apply(each[0], x, *each[1:]), None), x, scanned)[0]
        for number, weights in enumerate(params["layers"]):
            with jax.named_scope(str(number)):
                apply = one_layer(of_layer(config, config.seq, number))
                x = apply(weights, x, None if keys is None else keys[number], None)
    return x


def dropout_key_spec(config: DecoderConfig) -> dict[str, Any]:
    return {"key": jax.ShapeDtypeStruct((4,), jnp.uint32)} if config.dropout else {}


def begin(params: Params, tokens: Any, config: DecoderConfig) -> Any:
    """Embed the tokens: the input [batch, seq, d_model] of the first layer."""
    return embed(params, tokens, config, partial(zigzag, ring=config.ring))


def make_loss(config: DecoderConfig) -> Callable[[Params, dict[str, Any]], Any]:
    """`loss(params, {"tokens", "targets"})`: mean cross entropy of the next token; zigzag order for a `ring`."""

    def loss(params: Params, batch: dict[str, Any]) -> Any:
        x = run_layers(params, begin(params, batch["tokens"], config), config, batch.get("key"))
        return cross_entropy(params, x, batch["targets"], config)

    return loss


def build(*, preset: str = "tiny", scan: bool = True, recompute: str = "", **changes: Any) -> Program:
    """A training step of a preset, any of its sizes and choices changed by the name of its field in `DecoderConfig`.
    Nothing is allocated.

    Raises `DocumentError` for an unknown preset or choice, and for choices that do not go together.
    """
    config = choose_preset(PRESETS, preset, recompute=recompute or None, **changes)
    return training_step(config, scan=scan, name=name_program("decoder", preset, changes))


def training_step(config: DecoderConfig, *, scan: bool = True, name: str = "decoder") -> Program:
    """A training step; nothing is allocated. Live runs train on the bytes of `models.data.english_text`."""
    start = partial(init, config=config, scan=scan)
    tokens, words = jax.ShapeDtypeStruct((config.batch, config.seq), jnp.int32), english_text.batches(config.batch, config.seq)

    def data(step: int) -> dict[str, Any]:
        rows_of = {name: zigzag(rows, config.ring, axis=1) for name, rows in words(step).items()}
        return rows_of | ({"key": np.array([0, 0, 0, step], np.uint32)} if config.dropout else {})

    return trace_training(
        make_loss(config),
        jax.eval_shape(lambda: start(jax.random.key(0))),
        {"tokens": tokens, "targets": tokens} | dropout_key_spec(config),
        optimizer=f"{config.optimizer} {config.learning_rate}",
        trained=TRAINED if config.lora_rank else "",
        dims={"batch/tokens": "batch seq", "batch/targets": "batch seq", **dims(config, scan=scan)},
        name=name,
        init=start,
        data=data,
    )
