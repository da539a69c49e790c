"""A decoder-only Transformer in plain JAX (Radford et al. 2019): pre-norm, GELU, learned positions, causal attention.

Dimensions: batch, seq (positions of a query), d_model, heads, d_head, d_ff, vocab, layers. In einsum strings they are
b, s, d, h, k, f, v; t is the sequence of keys. Each has the name of its field in `GPTConfig`, which is also the
argument of `build` that changes a preset.

Three choices are made for the partitioner:

- *The lookup is one-hot x table*, as Mesh-TensorFlow's gather, not `table[tokens]`. Sharded over `vocab` it is a
  product with a sharded contraction: one all-reduce of [batch, seq, d_model] forward, and a gradient that is also a
  product and is sharded like the table. With the table sharded over the axis of the batch (FSDP), XLA turns a gather
  into a collective-permute, two all-gathers and an all-to-all, and the product into one all-gather of the table. The
  cost is another product as large as that of the head.
- *The target's logit is a masked sum*, not `take_along_axis`: only elementwise operations and sums over `vocab`, which
  all partitioners handle in the same way. Sharded over `vocab`, the loss sends three [batch, seq] arrays (maximum, sum
  of exponentials, target's logit), never the logits.
- *The head is the embedding table* (tied, as in GPT-2): one table of `vocab` x `d_model` is held and updated, with the
  same sharding at both ends. This saves no communication compared with two tables: its two gradients are reduced
  separately.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from workbench.core.program import Program
from workbench.models.config_fields import choose_preset, name_program
from workbench.models.data import english_text
from workbench.models.gpt_config import PRESETS, GPTConfig
from workbench.tracing import checkpoint_name, layer, trace_training

Params = dict[str, Any]

LAYOUTS = (
    ("data:8", ""),
    ("data:8", "batch:data"),
    ("model:8", "d_ff:model; heads:model; vocab:model"),
    ("data:4 model:2", "batch:data; d_ff:model; heads:model"),
    ("data:2 model:4", "batch:data; d_ff:model; heads:model; vocab:model"),
    ("data:8", "batch:data; d_model:data; @embedding/add=[data, ?, ?]"),
    ("data:4 model:2", "batch:data; d_model:data; d_ff:model; heads:model; vocab:model; @embedding/add=[data, ?, ?]"),
    ("data:4 model:2", "batch:data; seq:model"),
    ("data:8", "batch:data; vocab:data"),
)
"""For `tiny` on eight devices: replicated, data parallel, model parallel, Megatron in two dimensions without and with
the vocabulary, FSDP, FSDP with Megatron, sequences sharded, only the table sharded. FSDP needs its one constraint:
`batch` and `d_model` both claim `data` at the first activation. Without a constraint on the batch the weights win,
and every device computes the whole batch (seven times the step time). With it, weights are gathered layer by layer.
"""

WEIGHTS = {
    "embedding/tokens": "vocab d_model",
    "embedding/positions": "seq d_model",
    "norm/scale": "d_model",
    "norm/bias": "d_model",
}
LAYER_WEIGHTS = {
    "norm1/scale": "d_model",
    "norm1/bias": "d_model",
    "attention/wq": "d_model heads d_head",
    "attention/wk": "d_model heads d_head",
    "attention/wv": "d_model heads d_head",
    "attention/wo": "heads d_head d_model",
    "attention/bq": "heads d_head",
    "attention/bk": "heads d_head",
    "attention/bv": "heads d_head",
    "attention/bo": "d_model",
    "norm2/scale": "d_model",
    "norm2/bias": "d_model",
    "mlp/w1": "d_model d_ff",
    "mlp/b1": "d_ff",
    "mlp/w2": "d_ff d_model",
    "mlp/b2": "d_model",
}
"""Dimensions of each weight by its path within a layer."""


def _is_bias(path: str) -> bool:
    return path.rpartition("/")[2].startswith("b")


def _paths(weights: dict[str, str], config: GPTConfig) -> dict[str, str]:
    return {path: dims for path, dims in weights.items() if config.biases or not _is_bias(path)}


def dims(config: GPTConfig, *, scan: bool) -> dict[str, str]:
    """Dimension names by path pattern; scanned layers have a leading `layers`."""
    stack, prefix = ("layers ", "layers/") if scan else ("", "layers/*/")
    layers = {prefix + path: stack + names for path, names in _paths(LAYER_WEIGHTS, config).items()}
    return {"batch/tokens": "batch seq", "batch/targets": "batch seq", **_paths(WEIGHTS, config), **layers}


def _draw(key: Any, weights: dict[str, str], config: GPTConfig) -> Params:
    """Initialize nested dicts of float32 weights. Normal, with variance 1 / (3 d_model) as in Megatron-Turing NLG
    (Smith et al. 2022; GPT-2's 0.02 at its width, and also suitable for narrow models); the two weights that write
    to the residual stream are smaller by sqrt(2 layers), as in GPT-2.
    """
    params: Params = {}
    spread = (3 * config.d_model) ** -0.5
    for number, (path, names) in enumerate(_paths(weights, config).items()):
        group, _, name = path.rpartition("/")
        shape = tuple(getattr(config, dim) for dim in names.split())
        if name == "scale":
            value = jnp.ones(shape)
        elif _is_bias(path):
            value = jnp.zeros(shape)
        else:
            narrowing = (2 * config.layers) ** -0.5 if name in ("wo", "w2") else 1.0
            value = spread * narrowing * jax.random.normal(jax.random.fold_in(key, number), shape)
        params.setdefault(group, {})[name] = value
    return params


def init(key: Any, config: GPTConfig, *, scan: bool) -> Params:
    top, below = jax.random.split(key)
    keys = jax.random.split(below, config.layers)
    draw = partial(_draw, weights=LAYER_WEIGHTS, config=config)
    return {**_draw(top, WEIGHTS, config), "layers": jax.vmap(draw)(keys) if scan else [draw(layer_key) for layer_key in keys]}


def _normalize(weights: Params, x: Any) -> Any:
    wide = x.astype(jnp.float32)
    centered = wide - wide.mean(-1, keepdims=True)
    scaled = centered * jax.lax.rsqrt(jnp.square(centered).mean(-1, keepdims=True) + 1e-5) * weights["scale"]
    return (scaled + weights["bias"] if "bias" in weights else scaled).astype(x.dtype)


def _plus_bias(product: Any, weights: Params, bias: str) -> Any:
    return product + weights[bias] if bias in weights else product


def _cast(weights: Params, dtype: Any) -> Params:
    return {name: weight.astype(dtype) for name, weight in weights.items()}


def _causal_mask(seq: int) -> Any:
    """Causal mask float32[seq, seq] to add to scores: 0 for a position itself and those before it, else -1e9. It is
    added, not used for selection: the backward pass need not keep it, and a scan makes nothing of size [batch,
    heads, seq, seq] beforehand.
    """
    positions = jnp.arange(seq)
    return jnp.where(positions[:, None] >= positions[None, :], 0.0, -1e9)


def _query_key_value(weights: Params, x: Any) -> tuple[Any, Any, Any]:
    """Query, key and value [batch, seq, heads, d_head] by one product, c over the three. With `heads` sharded, the
    gradient of x is then one all-reduce, as in Megatron-LM (Shoeybi et al. 2019: two forward and two backward per
    layer). Three products would need three: a partitioner does not add partial sums before it reduces them.
    """
    product = jnp.einsum("bsd,cdhk->cbshk", x, jnp.stack([weights["wq"], weights["wk"], weights["wv"]]))
    if "bq" in weights:
        product += jnp.stack([weights["bq"], weights["bk"], weights["bv"]])[:, None, None]
    query, key, value = (part.squeeze(0) for part in jax.lax.split(product, (1, 1, 1)))
    return query, key, value


def _attention(weights: Params, x: Any, mask: Any) -> Any:
    weights = _cast(weights, x.dtype)
    with jax.named_scope("query_key_value"):
        query, key, value = (checkpoint_name(part, "query_key_value") for part in _query_key_value(weights, x))
    with jax.named_scope("scores"):
        scores = jnp.einsum("bshk,bthk->bhst", query * query.shape[-1] ** -0.5, key, preferred_element_type=jnp.float32)
        shares = jax.nn.softmax(scores + mask, axis=-1).astype(x.dtype)
    with jax.named_scope("mix"):
        mixed = checkpoint_name(jnp.einsum("bhst,bthk->bshk", shares, value), "mixed")
    with jax.named_scope("output"):
        return checkpoint_name(_plus_bias(jnp.einsum("bshk,hkd->bsd", mixed, weights["wo"]), weights, "bo"), "attention_out")


def _mlp(weights: Params, x: Any) -> Any:
    weights = _cast(weights, x.dtype)
    with jax.named_scope("up"):
        hidden = jax.nn.gelu(checkpoint_name(_plus_bias(jnp.einsum("bsd,df->bsf", x, weights["w1"]), weights, "b1"), "mlp_hidden"))
    with jax.named_scope("down"):
        return checkpoint_name(_plus_bias(jnp.einsum("bsf,fd->bsd", hidden, weights["w2"]), weights, "b2"), "mlp_out")


def _layer(weights: Params, x: Any, mask: Any) -> Any:
    with jax.named_scope("norm1"):
        normal = _normalize(weights["norm1"], x)
    with jax.named_scope("attention"):
        x = x + _attention(weights["attention"], normal, mask)
    with jax.named_scope("norm2"):
        normal = _normalize(weights["norm2"], x)
    with jax.named_scope("mlp"):
        return x + _mlp(weights["mlp"], normal)


def _embed(table: Params, tokens: Any, compute: str | None) -> Any:
    vocab, compute = table["tokens"].shape[0], compute or table["tokens"].dtype
    one_hot = jax.nn.one_hot(tokens, vocab, dtype=compute)
    return jnp.einsum("bsv,vd->bsd", one_hot, table["tokens"].astype(compute)) + table["positions"].astype(compute)


def _cross_entropy(logits: Any, targets: Any) -> Any:
    """Mean over tokens of logsumexp(logits) - logits[target] in nats; logits float32[batch, seq, vocab]."""
    is_target = targets[..., None] == jnp.arange(logits.shape[-1])
    chosen = jnp.where(is_target, logits, 0).sum(-1)
    return (jax.nn.logsumexp(logits, axis=-1) - chosen).mean()


def apply(params: Params, tokens: Any, config: GPTConfig, *, remat: bool = False) -> Any:
    """Logits float32[batch, seq, vocab] of tokens int32[batch, seq]; stacked layers are scanned.

    Each layer is marked, so that a plan can choose its remat; with `remat` it keeps only its input and recomputes the
    rest in the backward pass (`jax.checkpoint`).
    """
    one_layer = jax.checkpoint(_layer) if remat else layer(_layer)
    with jax.named_scope("embedding"):
        x = _embed(params["embedding"], tokens, config.compute)
    with jax.named_scope("mask"):
        mask = _causal_mask(tokens.shape[1])
    with jax.named_scope("layers"):
        if isinstance(params["layers"], dict):
            x, _ = jax.lax.scan(lambda x, weights: (one_layer(weights, x, mask), None), x, params["layers"])
        else:
            for number, weights in enumerate(params["layers"]):
                with jax.named_scope(str(number)):
                    x = one_layer(weights, x, mask)
    with jax.named_scope("norm"):
        x = _normalize(params["norm"], x)
    with jax.named_scope("head"):
        table = params["embedding"]["tokens"].astype(x.dtype)
        return jnp.einsum("bsd,vd->bsv", x, table, preferred_element_type=jnp.float32)


def make_loss(config: GPTConfig, *, remat: bool = False) -> Callable[[Params, dict[str, Any]], Any]:
    def loss(params: Params, batch: dict[str, Any]) -> Any:
        logits = apply(params, batch["tokens"], config, remat=remat)
        with jax.named_scope("loss"):
            return _cross_entropy(logits, batch["targets"])

    return loss


def build(*, preset: str = "tiny", scan: bool = True, remat: bool = False, **changes: Any) -> Program:
    """Build a training step of a preset; keyword arguments override the fields of `GPTConfig`.

    Live runs train on the bytes of `models.data.english_text`, for every vocabulary. Nothing is allocated, so a laptop
    can plan the largest preset. Raises `DocumentError` for an unknown preset or field.
    """
    config = choose_preset(PRESETS, preset, **changes)
    start = partial(init, config=config, scan=scan)
    tokens = jax.ShapeDtypeStruct((config.batch, config.seq), jnp.int32)
    return trace_training(
        make_loss(config, remat=remat),
        jax.eval_shape(lambda: start(jax.random.key(0))),  # a concrete key would initialize the devices
        {"tokens": tokens, "targets": tokens},
        optimizer=f"{config.optimizer} {config.learning_rate}",
        dims=dims(config, scan=scan),
        name=name_program("gpt", preset, changes),
        init=start,
        data=english_text.batches(config.batch, config.seq),
    )
