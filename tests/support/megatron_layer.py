"""Megatron-LM's layer as Korthikanti et al. 2022 count what it keeps for its backward pass (figure 2 and equation 1 there).

Letters: s sequence, b batch, h width, a heads, t devices that share a layer. Of a layer 34 sbh + 5 a s s b bytes are kept in 16 bits: of
the attention 11 sbh (its input, queries, keys, values, what the output projection reads, a mask of one byte) and 5 a s s b (the softmax,
its mask, its result), of the MLP 19 sbh (its input, both sides of GELU, each four times as wide, a mask), of two normalisations 4 sbh.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name

from workbench.core.program import Program
from workbench.tracing import trace

KEPT = ("normal", "query", "key", "value", "mixed", "mask", "stream", "up", "hidden")
CORE = ("shares", "shares_mask", "dropped")
"""What selective recomputation computes again: the attention's core."""
SPLIT_HEADS = "heads:model; d_ff:model"
SEQUENCE_PARALLEL = f"{SPLIT_HEADS}; x=[-, model, -]; @normal/reduce_precision=[-, model, -]; @stream/reduce_precision=[-, model, -]"
"""And the sequence where no product is made."""
DIMS = {"wqkv": "which d_model heads d_head", "wo": "heads d_head d_model", "w1": "d_model d_ff", "w2": "d_ff d_model"}


def _drop(x: Any, bits: Any, name: str) -> Any:
    """A tenth of the values set to zero; the mask, a byte a value, is kept. The scale of the others is left out."""
    mask = checkpoint_name(bits < 230, name)
    return jnp.where(mask, x, jnp.zeros((), x.dtype))


def _normalize(x: Any) -> Any:
    wide = x.astype(jnp.float32)
    wide = wide - wide.mean(-1, keepdims=True)
    return (wide * jax.lax.rsqrt(jnp.square(wide).mean(-1, keepdims=True) + 1e-5)).astype(x.dtype)


def _mark(value: Any, name: str) -> Any:
    """`value` under a name that a remat policy and a layout's constraint can use."""
    kind = jnp.finfo(value.dtype)
    with jax.named_scope(name):
        return checkpoint_name(jax.lax.reduce_precision(value, kind.nexp, kind.nmant), name)


@jax.custom_vjp
def _softmax(scores: Any) -> Any:
    """Keeps its result alone: JAX's own keeps a value that no name reaches."""
    return jax.nn.softmax(scores, axis=-1)


def _softmax_kept(scores: Any) -> Any:
    shares = _mark(jax.nn.softmax(scores, axis=-1), "shares")
    return shares, shares


def _softmax_grad(shares: Any, cotangent: Any) -> Any:
    scaled = shares * cotangent
    return (scaled - shares * scaled.sum(-1, keepdims=True),)


_softmax.defvjp(_softmax_kept, _softmax_grad)


def _attend(weights: Any, x: Any, bits: Any) -> Any:
    query, key, value = (
        _mark(jnp.einsum("bsd,dhk->bshk", x, weights["wqkv"][i]), name) for i, name in enumerate(("query", "key", "value"))
    )
    shares = _softmax(jnp.einsum("bshk,bthk->bhst", query, key))
    dropped = _mark(_drop(shares, bits, "shares_mask"), "dropped")
    return jnp.einsum("bshk,hkd->bsd", _mark(jnp.einsum("bhst,bthk->bshk", dropped, value), "mixed"), weights["wo"])


def _layer(weights: Any, x: Any, bits: Any) -> Any:
    attended = _attend(weights, _mark(_normalize(x), "normal"), bits["core"])
    x = _mark(x + _drop(attended, bits["attention"], "mask"), "stream")
    up = _mark(_mark(_normalize(x), "normal") @ weights["w1"], "up")
    return _mark(x + _drop(_mark(jax.nn.gelu(up), "hidden") @ weights["w2"], bits["mlp"], "mask"), "stream")


def _random(seed: Any, batch: int, seq: int, width: int, heads: int) -> Any:
    sizes = {"attention": (batch, seq, width), "mlp": (batch, seq, width), "core": (batch, heads, seq, seq)}
    return {name: jax.lax.rng_bit_generator(seed, size, dtype=jnp.uint8)[1] for name, size in sizes.items()}


def megatron_layers(layers: int, seq: int, width: int, heads: int, *, selective: bool, batch: int = 1) -> Program:
    """Forward and backward pass of a stack of layers, which keeps what the layer keeps; with `selective` recomputation not its core."""
    policy = jax.checkpoint_policies.save_only_these_names(*KEPT, *(() if selective else CORE))

    def one(weights: Any, x: Any, seed: Any) -> Any:
        return _layer(weights, x, _random(seed, batch, seq, width, heads))

    def passes(params: Any, x: Any, seed: Any) -> Any:
        return jax.grad(lambda params: _run(jax.checkpoint(one, policy=policy), params, x, seed))(params)

    sizes = {"wqkv": (3, width, heads, width // heads), "wo": (heads, width // heads, width), "w1": (width, 4 * width)}
    weights = {name: jax.ShapeDtypeStruct(size, jnp.bfloat16) for name, size in {**sizes, "w2": (4 * width, width)}.items()}
    dims = {f"params/*/{name}": names for name, names in DIMS.items()} | {"x": "batch seq d_model"}
    x, seed = jax.ShapeDtypeStruct((batch, seq, width), jnp.bfloat16), jax.ShapeDtypeStruct((4,), jnp.uint32)
    return trace(passes, [weights] * layers, x, seed, dims=dims)


def _run(layer: Callable[..., Any], params: Any, x: Any, seed: Any) -> Any:
    for number, weights in enumerate(params):
        with jax.named_scope(f"layers/{number}"):
            x = layer(weights, x, seed + jnp.uint32(number))
    return x.astype(jnp.float32).sum()
