"""The weights of a mixture-of-experts Transformer: paths, dimension names and initialization."""

from functools import partial
from typing import Any

import jax

from workbench.models.decoder.decoder_weights import draw_weights
from workbench.models.layers.decoder_blocks import Params
from workbench.models.mixture.mixture_config import MixtureArchitecture, MixtureConfig

LATENT = {
    "norm1/scale": "d_model",
    "attention/wq_down": "d_model q_rank",
    "attention/q_norm/scale": "q_rank",
    "attention/wq_up": "q_rank heads d_query",
    "attention/wkv_down": "d_model d_latent",
    "attention/kv_norm/scale": "kv_rank",
    "attention/wkv_up": "kv_rank heads d_pair",
    "attention/wo": "heads d_value d_model",
    "norm2/scale": "d_model",
}
HEADS = {
    "norm1/scale": "d_model",
    "attention/wqkv": "d_model heads qkv d_head",
    "attention/wo": "heads d_value d_model",
    "norm2/scale": "d_model",
}
DENSE = {"mlp/w1": "d_model gate_up d_ff", "mlp/w2": "d_ff d_model"}
SHARED = {"shared/w1": "d_model gate_up d_shared", "shared/w2": "d_shared d_model"}
EXPERTS = {
    "experts/router": "d_model choices",
    "experts/w1": "experts d_model expert_gates d_expert",
    "experts/w2": "experts d_expert d_model",
}
"""Dimensions of each weight by its path within a layer."""

SHARED_SCALES = {
    "tokens": (-1,),
    "wqkv": (-4,),
    "wo": (-3, -2),
    "w1": (-3,),
    "w2": (-2,),
    "w": (-2,),
    "wq_down": (-2,),
    "wq_up": (-3,),
    "wkv_down": (-2,),
    "wkv_up": (-3,),
}
"""Weights that may be quantized (`layers.quantized_weights`), with the dimensions that share a scale. These are the
contracted dimensions of a product, and the row of a table. Routers stay as they are.
"""


def shared_scales(config: MixtureArchitecture) -> dict[str, tuple[int, ...]]:
    """`SHARED_SCALES`, including the contracted query heads of grouped queries."""
    return SHARED_SCALES | ({"wo": (-4, -3, -2)} if config.q_per_kv > 1 else {})


def _attention(config: MixtureConfig) -> dict[str, str]:
    grouped = {"attention/wo": "heads q_per_kv d_value d_model"} if config.q_per_kv > 1 else {}
    return LATENT if config.attention == "latent" else HEADS | grouped


def dense_layer(config: MixtureConfig) -> dict[str, str]:
    return _attention(config) | DENSE


def sparse_layer(config: MixtureConfig) -> dict[str, str]:
    """Weights of a layer with experts; with `alternate`, including the dense layer before it."""
    before = {f"before/{path}": names for path, names in dense_layer(config).items()} if config.alternate else {}
    return before | _attention(config) | EXPERTS | (SHARED if config.d_shared else {})


def edge_weights(config: MixtureConfig, *, first: bool = True, last: bool = True) -> dict[str, str]:
    """Weights outside the layers, for a stage with the embedding, the head or both."""
    names = {"embedding/tokens": "vocab d_model"} if first or (last and config.tied) else {}
    names |= {"norm/scale": "d_model"} if last else {}
    return names | ({"head/w": "d_model vocab"} if last and not config.tied else {})


def dims(config: MixtureConfig, *, scan: bool, first: bool = True, last: bool = True) -> dict[str, str]:
    """Dimension names by path pattern; scanned layers have a leading `sparse`."""
    stack, prefix = ("sparse ", "layers/") if scan else ("", "layers/*/")
    dense = {f"dense/*/{path}": names for path, names in dense_layer(config).items()} if config.dense else {}
    sparse = {prefix + path: stack + names for path, names in sparse_layer(config).items()}
    return edge_weights(config, first=first, last=last) | dense | sparse


def init(key: Any, config: MixtureConfig, *, scan: bool, first: bool = True, last: bool = True) -> Params:
    """Initialize the parameters: `dense` layers as a list, `layers` with experts stacked if scanned."""
    top, below, above = jax.random.split(key, 3)
    draw = partial(draw_weights, weights=sparse_layer(config), config=config)
    keys = jax.random.split(above, config.sparse)
    return {
        **draw_weights(top, edge_weights(config, first=first, last=last), config),
        "dense": [draw_weights(jax.random.fold_in(below, i), dense_layer(config), config) for i in range(config.dense)],
        "layers": jax.vmap(draw)(keys) if scan else [draw(layer_key) for layer_key in keys],
    }
