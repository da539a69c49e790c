"""The weights of a decoder Transformer: paths, dimension names and initialization."""

from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp

from workbench.models.decoder.decoder_config import DecoderConfig
from workbench.models.layers.low_rank_adapters import adapter_dims
from workbench.models.layers.quantized_weights import quantize_weights, quantized_dims

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
"""Dimensions of each weight by its path within a layer."""

_LAYER_SCALES = {"wqkv": (-4,), "wo": (-4, -3, -2), "w1": (-3,), "w2": (-2,)}
SHARED_SCALES = {"tokens": (-1,), **_LAYER_SCALES, "w": (-2,)}
"""Weights that may be quantized (`layers.quantized_weights`), with the dimensions that share a scale. These are the
contracted dimensions of a product, and the row of a table.
"""


def _has(path: str, config: DecoderConfig) -> bool:
    name = path.rpartition("/")[2]
    return config.norm == "layer" if name == "bias" else config.biases or not name.startswith("b")


def layer_weights(config: DecoderConfig) -> dict[str, str]:
    names = {path: names for path, names in LAYER_WEIGHTS.items() if _has(path, config)}
    return names | (adapter_dims(names, _LAYER_SCALES) if config.lora_rank else {})


def edge_weights(config: DecoderConfig, *, first: bool = True, last: bool = True) -> dict[str, str]:
    """Weights outside the layers; the last stage of a pipeline has its own copy of a tied table."""
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
    """Dimension names by path pattern; scanned layers have a leading `layers`."""
    stack, prefix = ("layers ", "layers/") if scan else ("", "layers/*/")
    layers = quantized_dims({path: stack + names for path, names in layer_weights(config).items()}, _LAYER_SCALES, config.base or "float32")
    return edge_weights(config, first=first, last=last) | {prefix + path: names for path, names in layers.items()}


def draw_weights(key: Any, weights: dict[str, str], config: Any) -> Params:
    """Normal weights with variance 1 / (3 d_model), less by sqrt(2 layers) before the residual stream."""
    params: Params = {}
    for number, (path, names) in enumerate(weights.items()):
        *parents, name = path.split("/")
        shape = tuple(getattr(config, dim) for dim in names.split())
        if name == "scale":
            value = jnp.ones(shape, config.params)
        elif name.startswith("b") or name.endswith("_b"):
            value = jnp.zeros(shape, config.params)
        else:
            spread = (3 * config.d_model) ** -0.5 * ((2 * config.layers) ** -0.5 if name in ("wo", "w2") else 1.0)
            value = (spread * jax.random.normal(jax.random.fold_in(key, number), shape)).astype(config.params)
        reduce(lambda branch, part: branch.setdefault(part, {}), parents, params)[name] = value
    return params


def copy_kv_heads(layers: Any, copies: int) -> Any:
    """The weights of layers with `copies` of each head of keys and values, each copy with a part of its queries."""

    def split(weight: Any, queries: int, *, is_projection: bool) -> Any:
        """[..., heads, queries, d_head] with `copies` times the heads; a projection has the key and the value behind the queries."""
        *front, heads, _, d_head = weight.shape
        parts = weight[..., :queries, :].reshape(*front, heads * copies, queries // copies, d_head)
        return jnp.concatenate([parts, jnp.repeat(weight[..., queries:, :], copies, axis=-3)], -2) if is_projection else parts

    def change(path: Any, weight: Any) -> Any:
        name = getattr(path[-1], "key", "")
        if copies == 1 or name not in ("wqkv", "bqkv", "wo"):
            return weight
        if name == "wo":
            turned = jnp.moveaxis(weight, -1, 0)
            return jnp.moveaxis(split(turned, weight.shape[-3], is_projection=False), 0, -1)
        return split(weight, weight.shape[-2] - 2, is_projection=True)

    return jax.tree_util.tree_map_with_path(change, layers)


def sum_copied_heads(weights: Params, copies: int) -> Params:
    """The attention's weights of one layer; copies of a head of keys and values get the sum of their gradients."""

    def add_copies(gradient: Any) -> Any:
        *front, heads, _, d_head = gradient.shape
        parts = gradient[..., -2:, :].reshape(*front, heads // copies, copies, 2, d_head)
        total = jnp.broadcast_to(parts.sum(-3, keepdims=True), parts.shape).reshape(*front, heads, 2, d_head)
        return jnp.concatenate([gradient[..., :-2, :], total], -2)

    tied = jax.custom_vjp(lambda weights: weights)
    tied.defvjp(
        lambda weights: (weights, None),
        lambda _, arriving: ({name: add_copies(part) if name in ("wqkv", "bqkv") else part for name, part in arriving.items()},),
    )
    return tied(weights)


def init(key: Any, config: DecoderConfig, *, scan: bool, first: bool = True, last: bool = True) -> Params:
    top, below = jax.random.split(key)
    keys = jax.random.split(below, config.layers)
    draw = partial(draw_weights, weights=layer_weights(config), config=config)
    layers = jax.vmap(draw)(keys) if scan else [draw(layer_key) for layer_key in keys]
    layers = quantize_weights(layers, _LAYER_SCALES, config.base) if config.base else layers
    return {**draw_weights(top, edge_weights(config, first=first, last=last), config), "layers": copy_kv_heads(layers, config.kv_copies)}
