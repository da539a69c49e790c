"""An encoder-decoder Transformer, T5 (Raffel et al. 2020, arXiv:1910.10683): Mesh-TensorFlow's `Bitransformer`.

    source [batch, seq] -> embedding -> encoder: (attention, mlp) x layers -> memory [batch, seq, d_model]
    tokens [batch, target_seq] -> embedding -> decoder: (attention, cross attention to the memory, mlp) x layers -> head

Sublayers have RMS normalization at their input and no biases; positions are a bias on the scores by relative distance,
with one table for all layers of the encoder and one for the decoder.

Dimensions: batch, seq (input tokens), target_seq (output tokens), d_model, heads, d_head, qkv (query, key and value of a head), pairs
(key and value), d_ff, gate_up, buckets (of distance), vocab, layers. In einsum strings: b batch, s seq of queries, t seq of keys, d
d_model, h heads, k d_head, c qkv or pairs, g gate_up, f d_ff, v vocab, n buckets.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from math import log
from typing import Any

import jax
import jax.numpy as jnp

from workbench.core.program import Program
from workbench.models.config_fields import FLOATS, choose_preset, name_program, optimizer_named, verify_relation, verify_words, word_or_none
from workbench.models.data import english_text
from workbench.models.layers.norms_and_losses import Loss, classification_loss, rms_norm
from workbench.models.layers.weight_tables import Params, count_parameters, draw, name_dims, nest_tables
from workbench.tracing import checkpoint_name, layer, trace_training

# The sizes of the encoder-decoder Transformer, with those of published models.


@dataclass(frozen=True, slots=True)
class T5Config:
    """One encoder-decoder Transformer and how it is trained. Field names of sizes are the names of its dimensions.

    - `layers` of the encoder, and as many of the decoder;
    - `seq` tokens are read and `target_seq` written;
    - `gate_up`: 2 for GELU times a second projection (Shazeer 2020, T5 1.1), 1 for a rectifier (T5);
    - `buckets` of relative distance, each with a bias for every head;
    - `tied`: the head is the table of the embedding;
    - `compute`: the type of activations, to which weights are cast where they are used; `None` is that of the parameters;
    - `optimizer`: its name (`tracing.named_optimizers`).
    """

    vocab: int
    layers: int
    d_model: int
    heads: int
    d_head: int
    d_ff: int
    seq: int
    target_seq: int
    batch: int
    gate_up: int = 2
    buckets: int = 32
    tied: bool = False
    compute: str | None = word_or_none(*FLOATS)
    optimizer: str = optimizer_named("adamw")
    learning_rate: float = 3e-4

    def __post_init__(self) -> None:
        verify_words(self)
        verify_relation(
            self.gate_up in (1, 2), f"`gate_up` is {self.gate_up}; a layer has 2 (GELU, gated) or 1 (a rectifier).", "take 1", "take 2"
        )
        verify_relation(
            self.buckets >= 4 and self.buckets % 2 == 0,
            f"`buckets` is {self.buckets}; half of them are of the future, and half of each side of single distances.",
            "take an even number from 4",
        )

    @property
    def parameters(self) -> int:
        """Number of parameters, from the sizes alone.

        >>> round(PRESETS["t5-base"].parameters / 1e6), round(PRESETS["t5-300b"].parameters / 1e9)
        (223, 291)
        """
        both = sum(count_parameters(table, sizes(self)) for table in (ENCODER, DECODER))
        return count_parameters(edges(self), sizes(self)) + self.layers * both


PRESETS: dict[str, T5Config] = {
    # Small enough to run on eight virtual devices; tokens are bytes.
    "tiny": T5Config(
        vocab=256, layers=2, d_model=32, heads=4, d_head=8, d_ff=64, seq=32, target_seq=16, batch=16, buckets=8, learning_rate=3e-3
    ),
    # Raffel et al. 2020 (arXiv:1910.10683), section 3.1.2 and 3.7: 220 million and 11 billion parameters. 128 sequences of 512 in a batch,
    # with up to 114 output tokens: here 128. The larger model is wide: d_ff is 64 times d_model.
    "t5-base": T5Config(
        32128, layers=12, d_model=768, heads=12, d_head=64, d_ff=3072, seq=512, target_seq=128, batch=128, gate_up=1, tied=True
    ),
    "t5-11b": T5Config(
        32128,
        layers=24,
        d_model=1024,
        heads=128,
        d_head=128,
        d_ff=65536,
        seq=512,
        target_seq=128,
        batch=2048,
        gate_up=1,
        tied=True,
        compute="bfloat16",
    ),
    # Wang et al. 2023 (ASPLOS, "Overlap communication with dependent computation via decomposition"), table 1: 290B parameters, 64 layers,
    # d_model 12288, d_ff 36864, batch 3,072. The count implies 64 layers in both encoder and decoder, and two projections to d_ff.
    "t5-300b": T5Config(
        32128, layers=64, d_model=12288, heads=96, d_head=128, d_ff=36864, seq=512, target_seq=128, batch=3072, compute="bfloat16"
    ),
}


LAYOUTS = (
    ("data:8", ""),
    ("data:8", "batch:data"),
    ("data:4 model:2", "batch:data; d_ff:model; heads:model"),
    ("data:2 model:4", "batch:data; d_ff:model; heads:model; vocab:model"),
)
"""For `tiny` on eight devices: replicated, data parallel, Megatron in two dimensions without and with the vocabulary."""

ATTENTION = {"norm/scale": "d_model", "wqkv": "d_model > qkv heads d_head", "wo": "heads d_head > d_model"}
CROSS = {"norm/scale": "d_model", "wq": "d_model > heads d_head", "wkv": "d_model > pairs heads d_head", "wo": "heads d_head > d_model"}
MLP = {"norm/scale": "d_model", "w1": "d_model > gate_up d_ff", "w2": "d_ff > d_model"}
ENCODER = nest_tables(attention=ATTENTION, mlp=MLP)
DECODER = nest_tables(attention=ATTENTION, cross=CROSS, mlp=MLP)
"""Dimensions of each weight by its path within a layer."""


def edges(config: T5Config) -> dict[str, str]:
    """Weights outside the layers. A one-hot vector selects a row of a table, so a table contracts nothing."""
    weights = {"embedding/tokens": "> vocab d_model", "encoder_end/scale": "d_model", "decoder_end/scale": "d_model"}
    weights |= {"encoder_bias/table": "buckets heads", "decoder_bias/table": "buckets heads"}
    return weights if config.tied else weights | {"head/w": "d_model > vocab"}


def sizes(config: T5Config) -> dict[str, int]:
    return {name: value for name, value in asdict(config).items() if isinstance(value, int)} | {"qkv": 3, "pairs": 2}


def dims(config: T5Config, *, scan: bool) -> dict[str, str]:
    """Dimension names by path pattern; scanned layers have a leading `layers`."""
    named = {
        "batch/source": "batch seq",
        "batch/tokens": "batch target_seq",
        "batch/targets": "batch target_seq",
        **name_dims(edges(config)),
    }
    for side, table in {"encoder": ENCODER, "decoder": DECODER}.items():
        named |= name_dims(table, f"{side}/", "layers") if scan else name_dims(table, f"{side}/*/")
    return named


def init(key: Any, config: T5Config, *, scan: bool) -> Params:
    top, *below = jax.random.split(key, 3)
    params = draw(top, edges(config), sizes(config))
    for seed, side, table in zip(below, ("encoder", "decoder"), (ENCODER, DECODER), strict=True):
        init_layer, keys = partial(draw, weights=table, sizes=sizes(config)), jax.random.split(seed, config.layers)
        params[side] = jax.vmap(init_layer)(keys) if scan else [init_layer(layer_key) for layer_key in keys]
    return params


def buckets(distance: Any, number: int, *, both_ways: bool) -> Any:
    """Bucket of each distance, key minus query position: one per small distance, wider ones up to 128, the last one
    beyond; with `both_ways` half of them are for the future.
    """
    half = number // 2 if both_ways else number
    past = jnp.abs(distance) if both_ways else jnp.maximum(-distance, 0)
    exact = half // 2
    wide = exact + (jnp.log(jnp.maximum(past, 1) / exact) / log(128 / exact) * (half - exact)).astype(jnp.int32)
    bucket = jnp.where(past < exact, past, jnp.minimum(wide, half - 1))
    return bucket + half * (distance > 0) if both_ways else bucket


def _bias(table: Any, seq: int, *, both_ways: bool) -> Any:
    distance = jnp.arange(seq)[None, :] - jnp.arange(seq)[:, None]
    bucket_mask = jax.nn.one_hot(buckets(distance, table.shape[0], both_ways=both_ways), table.shape[0])
    bias = jnp.einsum("stn,nh->hst", bucket_mask, table)
    return bias if both_ways else bias + jnp.where(distance > 0, -1e9, 0.0)


def _mix(query: Any, key: Any, value: Any, bias: Any) -> Any:
    """Attention [batch, seq, heads, d_head]; `bias` [heads, queries, keys] is added to the scores, if given."""
    with jax.named_scope("scores"):
        scores = jnp.einsum("bshk,bthk->bhst", query * query.shape[-1] ** -0.5, key, preferred_element_type=jnp.float32)
        shares = jax.nn.softmax(scores if bias is None else scores + bias, axis=-1).astype(query.dtype)
    with jax.named_scope("mix"):
        return checkpoint_name(jnp.einsum("bhst,bthk->bshk", shares, value), "mixed")


def _output(weights: Params, mixed: Any) -> Any:
    with jax.named_scope("output"):
        return jnp.einsum("bshk,hkd->bsd", mixed, weights["wo"].astype(mixed.dtype))


def _attention(weights: Params, x: Any, bias: Any) -> Any:
    normal = rms_norm(weights["norm"], x)
    with jax.named_scope("query_key_value"):
        product = jnp.einsum("bsd,dchk->cbshk", normal, weights["wqkv"].astype(x.dtype))
        query, key, value = (part.squeeze(0) for part in jax.lax.split(checkpoint_name(product, "query_key_value"), (1, 1, 1)))
    return _output(weights, _mix(query, key, value, bias))


def _cross(weights: Params, x: Any, memory: Any) -> Any:
    normal = rms_norm(weights["norm"], x)
    with jax.named_scope("query"):
        query = checkpoint_name(jnp.einsum("bsd,dhk->bshk", normal, weights["wq"].astype(x.dtype)), "query")
    with jax.named_scope("key_value"):
        product = jnp.einsum("bsd,dchk->cbshk", memory, weights["wkv"].astype(x.dtype))
        key, value = (part.squeeze(0) for part in jax.lax.split(checkpoint_name(product, "key_value"), (1, 1)))
    return _output(weights, _mix(query, key, value, None))


def _mlp(weights: Params, x: Any) -> Any:
    normal = rms_norm(weights["norm"], x)
    with jax.named_scope("up"):
        up = checkpoint_name(jnp.einsum("bsd,dgf->bsgf", normal, weights["w1"].astype(x.dtype)), "mlp_hidden")
        hidden = jax.nn.gelu(up[:, :, 0]) * up[:, :, 1] if up.shape[2] > 1 else jax.nn.relu(up[:, :, 0])
    with jax.named_scope("down"):
        return jnp.einsum("bsf,fd->bsd", hidden, weights["w2"].astype(x.dtype))


def _layer(weights: Params, x: Any, bias: Any, memory: Any = None) -> Any:
    with jax.named_scope("attention"):
        x = x + _attention(weights["attention"], x, bias)
    if memory is not None:
        with jax.named_scope("cross"):
            x = x + _cross(weights["cross"], x, memory)
    with jax.named_scope("mlp"):
        return x + _mlp(weights["mlp"], x)


def _run_layers(layers: Any, x: Any, *context: Any) -> Any:
    one_layer = layer(_layer)
    if isinstance(layers, dict):
        return jax.lax.scan(lambda x, weights: (one_layer(weights, x, *context), None), x, layers)[0]
    for number, weights in enumerate(layers):
        with jax.named_scope(str(number)):
            x = one_layer(weights, x, *context)
    return x


def _embed(table: Any, tokens: Any) -> Any:
    return jnp.einsum("bsv,vd->bsd", jax.nn.one_hot(tokens, table.shape[0], dtype=table.dtype), table)


def apply(params: Params, source: Any, tokens: Any, config: T5Config) -> Any:
    """Logits float32[batch, target_seq, vocab] of source int32[batch, seq] and tokens int32[batch, target_seq]."""
    table = params["embedding"]["tokens"]
    table = table.astype(config.compute or table.dtype)
    with jax.named_scope("encoder"):
        bias = _bias(params["encoder_bias"]["table"], config.seq, both_ways=True)
        memory = rms_norm(params["encoder_end"], _run_layers(params["encoder"], _embed(table, source), bias))
    with jax.named_scope("decoder"):
        bias = _bias(params["decoder_bias"]["table"], config.target_seq, both_ways=False)
        x = rms_norm(params["decoder_end"], _run_layers(params["decoder"], _embed(table, tokens), bias, memory))
    with jax.named_scope("head"):
        weights = table.T * config.d_model**-0.5 if config.tied else params["head"]["w"].astype(x.dtype)
        return jnp.einsum("bsd,dv->bsv", x, weights, preferred_element_type=jnp.float32)


def make_loss(config: T5Config) -> Loss:
    """`loss(params, {"source", "tokens", "targets"})`: mean cross entropy of the next output token in nats."""
    return classification_loss(partial(apply, config=config), "source", "tokens")


def passage_batches(config: T5Config) -> Callable[[int], dict[str, Any]]:
    """Function from step to passages of `models.data.english_text` and their continuations."""
    words = english_text.batches(config.batch, config.seq + config.target_seq)

    def data(step: int) -> dict[str, Any]:
        window = words(step)
        written = {name: window[name][:, config.seq :] for name in ("tokens", "targets")}
        return {"source": window["tokens"][:, : config.seq], **written}

    return data


def build(*, preset: str = "tiny", scan: bool = True, **changes: Any) -> Program:
    """Build a training step of a preset with AdamW; keyword arguments override the fields of `T5Config`.

    Nothing is allocated. Raises `DocumentError` for an unknown preset or field, and for incompatible values.
    """
    config = choose_preset(PRESETS, preset, **changes)
    start = partial(init, config=config, scan=scan)
    source, target = (jax.ShapeDtypeStruct((config.batch, length), jnp.int32) for length in (config.seq, config.target_seq))
    return trace_training(
        make_loss(config),
        jax.eval_shape(lambda: start(jax.random.key(0))),  # a concrete key would initialize the devices
        {"source": source, "tokens": target, "targets": target},
        optimizer=f"{config.optimizer} {config.learning_rate}",
        dims=dims(config, scan=scan),
        name=name_program("t5", preset, changes),
        init=start,
        data=passage_batches(config),
    )
