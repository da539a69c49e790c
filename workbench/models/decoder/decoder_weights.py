"""The weights of a decoder Transformer: which there are, what their dimensions are called, and how they are drawn."""

from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp

from workbench.models.decoder.decoder_config import DecoderConfig

Params = dict[str, Any]

LAYER_WEIGHTS = {
    "norm1/scale": "d_model",
    "norm1/bias": "d_model",
    "attention/wqkv": "d_model kv_heads qkv d_head",
    "attention/bqkv": "kv_heads qkv d_head",
    "attention/wo": "kv_heads q_per_kv d_head d_model",
    "attention/bo": "d_model",
    "norm2/scale": "d_model",
    "norm2/bias": "d_model",
    "mlp/w1": "d_model gate_up d_ff",
    "mlp/b1": "gate_up d_ff",
    "mlp/w2": "d_ff d_model",
    "mlp/b2": "d_model",
}
"""Each weight's path within its layer, and its dimensions."""

SHARED_SCALES = {"tokens": (-1,), "wqkv": (-4,), "wo": (-4, -3, -2), "w1": (-3,), "w2": (-2,), "w": (-2,)}
"""Weights that may be kept in few bits (`layers.quantized_weights`), and the dimensions that share a scale: those that a product sums, and
of a table those of a row."""


def _has(path: str, config: DecoderConfig) -> bool:
    name = path.rpartition("/")[2]
    return config.norm == "layer" if name == "bias" else config.biases or not name.startswith("b")


def layer_weights(config: DecoderConfig) -> dict[str, str]:
    return {path: names for path, names in LAYER_WEIGHTS.items() if _has(path, config)}


def edge_weights(config: DecoderConfig, *, first: bool = True, last: bool = True) -> dict[str, str]:
    """The weights outside the layers, of a stage that holds the embedding, the head or both. A pipeline's last stage has its own copy of
    a tied table."""
    names: dict[str, str] = {}
    if first or (last and config.tied):
        names["embedding/tokens"] = "vocab d_model"
    if first and config.positions == "learned":
        names["embedding/positions"] = "seq d_model"
    if last:
        names |= {"norm/scale": "d_model"} | ({"norm/bias": "d_model"} if config.norm == "layer" else {})
        names |= {} if config.tied else {"head/w": "d_model vocab"}
    return names


def dims(config: DecoderConfig, *, scan: bool, first: bool = True, last: bool = True) -> dict[str, str]:
    """Path patterns to names, for parameters, optimiser state and gradients; scanned layers have `layers` in front."""
    stack, prefix = ("layers ", "layers/") if scan else ("", "layers/*/")
    return edge_weights(config, first=first, last=last) | {prefix + path: stack + names for path, names in layer_weights(config).items()}


def draw_weights(key: Any, weights: dict[str, str], config: Any) -> Params:
    """Nested dictionaries of weights: normal, variance 1 / (3 d_model), smaller by sqrt(2 layers) for what writes to the stream."""
    params: Params = {}
    for number, (path, names) in enumerate(weights.items()):
        *rooms, name = path.split("/")
        shape = tuple(getattr(config, dim) for dim in names.split())
        if name == "scale":
            value = jnp.ones(shape, config.params)
        elif name.startswith("b"):
            value = jnp.zeros(shape, config.params)
        else:
            spread = (3 * config.d_model) ** -0.5 * ((2 * config.layers) ** -0.5 if name in ("wo", "w2") else 1.0)
            value = (spread * jax.random.normal(jax.random.fold_in(key, number), shape)).astype(config.params)
        reduce(lambda room, each: room.setdefault(each, {}), rooms, params)[name] = value
    return params


def init(key: Any, config: DecoderConfig, *, scan: bool, first: bool = True, last: bool = True) -> Params:
    """The parameters; both forms hold the same values, `layers` stacked in front if scanned, else as a list of layers."""
    top, below = jax.random.split(key)
    keys = jax.random.split(below, config.layers)
    draw = partial(draw_weights, weights=layer_weights(config), config=config)
    layers = jax.vmap(draw)(keys) if scan else [draw(each) for each in keys]
    return {**draw_weights(top, edge_weights(config, first=first, last=last), config), "layers": layers}
