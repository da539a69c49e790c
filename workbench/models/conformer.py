"""A Conformer encoder for speech (Gulati et al. 2020, arXiv:2005.08100): attention and convolution between two half feed-forward layers.

    x = x + feed_forward(x) / 2        d_model > d_ff > d_model, swish
    x = x + attention(x)               bidirectional
    x = x + convolution(x)             d_model > 2 hidden_channels, gated; depthwise along seq; batch normalization, swish
    x = x + feed_forward(x) / 2
    x = layer_norm(x)

It classifies every frame, as in the pre-training of BigSSL (Zhang et al. 2021).

Dimensions: batch, seq (frames), features (of a frame), d_model, d_ff, heads, d_head, qkv (query, key and value of a head), gate_up,
hidden_channels (of the convolution), kernel (its frames), vocab (classes), layers. In einsum strings: b batch, s seq (of
queries), t seq (of keys), d d_model, h heads, k d_head, g gate_up, c hidden_channels or qkv, f d_ff.

With `seq` sharded, the convolution needs edge frames of neighboring shards (a halo), and the attention needs all keys; with
`hidden_channels` sharded like `d_ff` and `heads`, a layer has four all-reduces in the forward pass, one for each part.
"""

from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from workbench.core.program import Program
from workbench.models.config_fields import FLOATS, choose_preset, name_program, optimizer_named, verify_words, word_or_none
from workbench.models.data import synthetic_data
from workbench.models.layers.norms_and_losses import Loss, batch_norm, classification_loss, layer_norm
from workbench.models.layers.weight_tables import Params, count_parameters, draw, name_dims, nest_tables
from workbench.tracing import checkpoint_name, layer, trace_training

# The sizes of the Conformer, with those of a published model.


@dataclass(frozen=True, slots=True)
class ConformerConfig:
    """One Conformer encoder of speech and how it is trained. Field names of sizes are the names of its dimensions.

    - `features` of a frame, which a front end made; `seq` frames of an utterance; `vocab` classes of a frame;
    - `kernel`: frames that the depthwise convolution sees;
    - `compute`: the type of activations, to which weights are cast where they are used; `None` is that of the parameters;
    - `optimizer`: its name (`tracing.named_optimizers`).
    """

    vocab: int
    features: int
    layers: int
    d_model: int
    heads: int
    d_head: int
    d_ff: int
    kernel: int
    seq: int
    batch: int
    compute: str | None = word_or_none(*FLOATS)
    optimizer: str = optimizer_named("adamw")
    learning_rate: float = 3e-4

    def __post_init__(self) -> None:
        verify_words(self)

    @property
    def hidden_channels(self) -> int:
        return self.d_model

    @property
    def parameters(self) -> int:
        """Number of parameters, from the sizes alone.

        >>> round(PRESETS["bigssl-10b"].parameters / 1e9, 1)
        10.4
        """
        return count_parameters(EDGES, sizes(self)) + self.layers * count_parameters(LAYER, sizes(self))


PRESETS: dict[str, ConformerConfig] = {
    # Small enough to run on eight virtual devices.
    "tiny": ConformerConfig(
        vocab=32, features=16, layers=2, d_model=32, heads=4, d_head=8, d_ff=128, kernel=5, seq=64, batch=16, learning_rate=3e-3
    ),
    # Wang et al. 2023 (ASPLOS, "Overlap communication with dependent computation via decomposition"), table 1: 10.4B parameters, 48 layers,
    # d_model 3072, d_ff 12288, batch 64, without heads, kernel, classes and frames. The model is that of Zhang et
    # al. 2021 (BigSSL, arXiv:2109.13226), whose attention has no relative positions: with them it would have 10.9B.
    "bigssl-10b": ConformerConfig(
        vocab=1024,
        features=320,
        layers=48,
        d_model=3072,
        heads=24,
        d_head=128,
        d_ff=12288,
        kernel=5,
        seq=1024,
        batch=64,
        compute="bfloat16",
    ),
}


LAYOUTS = (
    ("data:8", "batch:data"),
    ("data:4 model:2", "batch:data; d_ff:model; heads:model; hidden_channels:model"),
    ("data:2 model:4", "batch:data; d_ff:model; heads:model; hidden_channels:model; vocab:model"),
    ("data:2 context:4", "batch:data; seq:context"),
)
"""For `tiny` on eight devices: data parallel, tensor parallel without and with the classes, frames sharded."""

EDGES = {"input/w": "features > d_model", "input/bias": "d_model", "head/w": "d_model > vocab", "head/bias": "vocab"}
NORM = {"norm/scale": "d_model", "norm/bias": "d_model"}
FEED_FORWARD = {**NORM, "w1": "d_model > d_ff", "b1": "d_ff", "w2": "d_ff > d_model", "b2": "d_model"}
ATTENTION = {**NORM, "wqkv": "d_model > heads qkv d_head", "wo": "heads d_head > d_model", "bo": "d_model"}
CONVOLUTION = {
    **NORM,
    "w1": "d_model > gate_up hidden_channels",
    "b1": "gate_up hidden_channels",
    "kernel": "kernel one > hidden_channels",
    "batch_norm/scale": "hidden_channels",
    "batch_norm/bias": "hidden_channels",
    "w2": "hidden_channels > d_model",
    "b2": "d_model",
}
LAYER = nest_tables(feed_forward1=FEED_FORWARD, attention=ATTENTION, convolution=CONVOLUTION, feed_forward2=FEED_FORWARD) | NORM
"""Dimensions of each weight by its path within a layer."""


def sizes(config: ConformerConfig) -> dict[str, int]:
    integers = {name: value for name, value in asdict(config).items() if isinstance(value, int)}
    return integers | {"hidden_channels": config.hidden_channels, "qkv": 3, "gate_up": 2, "one": 1}


def dims(*, scan: bool) -> dict[str, str]:
    """Dimension names by path pattern; scanned layers have a leading `layers`."""
    layers = name_dims(LAYER, "layers/", "layers") if scan else name_dims(LAYER, "layers/*/")
    return {"batch/frames": "batch seq features", "batch/targets": "batch seq", **name_dims(EDGES), **layers}


def init(key: Any, config: ConformerConfig, *, scan: bool) -> Params:
    top, below = jax.random.split(key)
    keys = jax.random.split(below, config.layers)
    init_layer = partial(draw, weights=LAYER, sizes=sizes(config))
    return {
        **draw(top, EDGES, sizes(config)),
        "layers": jax.vmap(init_layer)(keys) if scan else [init_layer(layer_key) for layer_key in keys],
    }


def _feed_forward(weights: Params, x: Any) -> Any:
    normal = layer_norm(weights["norm"], x)
    with jax.named_scope("up"):
        up = jnp.einsum("bsd,df->bsf", normal, weights["w1"].astype(x.dtype)) + weights["b1"].astype(x.dtype)
        hidden = jax.nn.swish(checkpoint_name(up, "feed_forward_hidden"))
    with jax.named_scope("down"):
        return jnp.einsum("bsf,fd->bsd", hidden, weights["w2"].astype(x.dtype)) + weights["b2"].astype(x.dtype)


def _attention(weights: Params, x: Any) -> Any:
    """Bidirectional attention on [batch, seq, d_model]; query, key and value of a head are one projection."""
    normal = layer_norm(weights["norm"], x)
    with jax.named_scope("query_key_value"):
        product = jnp.einsum("bsd,dhck->bshck", normal, weights["wqkv"].astype(x.dtype))
        query, key, value = (part.squeeze(3) for part in jax.lax.split(checkpoint_name(product, "query_key_value"), (1, 1, 1), axis=3))
    with jax.named_scope("scores"):
        scores = jnp.einsum("bshk,bthk->bhst", query * query.shape[-1] ** -0.5, key, preferred_element_type=jnp.float32)
        shares = jax.nn.softmax(scores, axis=-1).astype(x.dtype)
    with jax.named_scope("mix"):
        mixed = checkpoint_name(jnp.einsum("bhst,bthk->bshk", shares, value), "mixed")
    with jax.named_scope("output"):
        return jnp.einsum("bshk,hkd->bsd", mixed, weights["wo"].astype(x.dtype)) + weights["bo"].astype(x.dtype)


def _depthwise(x: Any, kernel: Any) -> Any:
    return jax.lax.conv_general_dilated(x, kernel, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"), feature_group_count=x.shape[-1])


def _convolution(weights: Params, x: Any) -> Any:
    normal = layer_norm(weights["norm"], x)
    with jax.named_scope("gated"):
        up = jnp.einsum("bsd,dgc->bsgc", normal, weights["w1"].astype(x.dtype)) + weights["b1"].astype(x.dtype)
        up = checkpoint_name(up, "convolution_hidden")
        gated = up[:, :, 0] * jax.nn.sigmoid(up[:, :, 1])
    with jax.named_scope("depthwise"):
        mixed = checkpoint_name(_depthwise(gated, weights["kernel"].astype(x.dtype)), "convolved")
    with jax.named_scope("batch_norm"):
        mixed = jax.nn.swish(batch_norm(weights["batch_norm"], mixed))
    with jax.named_scope("down"):
        return jnp.einsum("bsc,cd->bsd", mixed, weights["w2"].astype(x.dtype)) + weights["b2"].astype(x.dtype)


def _layer(weights: Params, x: Any) -> Any:
    with jax.named_scope("feed_forward1"):
        x = x + 0.5 * _feed_forward(weights["feed_forward1"], x)
    with jax.named_scope("attention"):
        x = x + _attention(weights["attention"], x)
    with jax.named_scope("convolution"):
        x = x + _convolution(weights["convolution"], x)
    with jax.named_scope("feed_forward2"):
        x = x + 0.5 * _feed_forward(weights["feed_forward2"], x)
    with jax.named_scope("norm"):
        return layer_norm(weights["norm"], x)


def apply(params: Params, frames: Any, config: ConformerConfig) -> Any:
    """Logits float32[batch, seq, vocab] of frames [batch, seq, features]; stacked layers are scanned."""
    one_layer = layer(_layer)
    with jax.named_scope("input"):
        x = frames.astype(config.compute or frames.dtype)
        x = jnp.einsum("bsi,id->bsd", x, params["input"]["w"].astype(x.dtype)) + params["input"]["bias"].astype(x.dtype)
    with jax.named_scope("layers"):
        if isinstance(params["layers"], dict):
            x, _ = jax.lax.scan(lambda x, weights: (one_layer(weights, x), None), x, params["layers"])
        else:
            for number, weights in enumerate(params["layers"]):
                with jax.named_scope(str(number)):
                    x = one_layer(weights, x)
    with jax.named_scope("head"):
        logits = jnp.einsum("bsd,dv->bsv", x, params["head"]["w"].astype(x.dtype), preferred_element_type=jnp.float32)
        return logits + params["head"]["bias"]


def make_loss(config: ConformerConfig) -> Loss:
    """`loss(params, {"frames", "targets"})`: mean cross entropy of the frame class in nats."""
    return classification_loss(partial(apply, config=config), "frames")


def build(*, preset: str = "tiny", scan: bool = True, **changes: Any) -> Program:
    """Build a training step of a preset with AdamW; keyword arguments override the fields of `ConformerConfig`.

    Nothing is allocated. Live runs train on synthetic speech. Raises `DocumentError` for an unknown preset or field,
    and for incompatible values.
    """
    config = choose_preset(PRESETS, preset, **changes)
    start = partial(init, config=config, scan=scan)
    specs = {
        "frames": jax.ShapeDtypeStruct((config.batch, config.seq, config.features), jnp.float32),
        "targets": jax.ShapeDtypeStruct((config.batch, config.seq), jnp.int32),
    }
    return trace_training(
        make_loss(config),
        jax.eval_shape(lambda: start(jax.random.key(0))),  # a concrete key would initialize the devices
        specs,
        optimizer=f"{config.optimizer} {config.learning_rate}",
        dims=dims(scan=scan),
        name=name_program("conformer", preset, changes),
        init=start,
        data=synthetic_data.speech(config.batch, config.seq, config.features, config.vocab),
    )
