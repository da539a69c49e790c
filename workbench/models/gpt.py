"""A decoder-only Transformer in plain JAX (Radford et al. 2019): pre-normalised, GELU, learned positions, causal attention.

Dimensions: batch, seq (positions of a query), d_model, heads, d_head, d_ff, vocab, layers. In einsum strings they are b, s, d, h, k, f, v;
t is the sequence of keys. Each has the name of its field in `GPTConfig`: an argument of `build` that changes a preset. No size is read
from anywhere else.

Three choices are made for the partitioner:

- *The lookup is one-hot x table*, as Mesh-TensorFlow's gather, not `table[tokens]`. Split over `vocab` it is a product with a split
  contraction: one all-reduce of [batch, seq, d_model] forward, and a gradient that is a product too and is sharded like the table. With the
  table split over the axis of the batch (FSDP), XLA makes of a gather a collective-permute, two all-gathers and an all-to-all; of the
  product, one all-gather of the table. The cost is another product of the size of the head's.
- *The target's logit is a masked sum*, not `take_along_axis`: nothing but element-wise operations and sums over `vocab`, for which every
  partitioner has one answer. Split over `vocab`, the loss sends three [batch, seq] arrays (maximum, sum of exponentials, target's logit),
  never the logits.
- *The head is the embedding table* (tied, as in GPT-2): one table of `vocab` x `d_model` is held and updated, with the same sharding at
  both ends. No bytes are saved against two tables: its two gradients are reduced separately.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax

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
"""For `tiny` on eight devices: replicated, data parallel, model parallel, Megatron's two dimensions without and with the vocabulary, FSDP,
FSDP with Megatron, sequences split, the table alone split.

FSDP needs its one constraint: `batch` and `d_model` both claim `data` at the first activation. Weights win if nobody speaks for the
batch, and every device then computes the whole batch (seven times the time of a step). With it, weights are gathered layer by layer."""

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
"""Each weight's path within its layer, and its dimensions."""


def _is_bias(path: str) -> bool:
    return path.rpartition("/")[2].startswith("b")


def _paths(weights: dict[str, str], config: GPTConfig) -> dict[str, str]:
    return {path: dims for path, dims in weights.items() if config.biases or not _is_bias(path)}


def dims(config: GPTConfig, *, scan: bool) -> dict[str, str]:
    """Path patterns to names, for parameters, optimiser state and batch; scanned layers have `layers` in front."""
    stack, prefix = ("layers ", "layers/") if scan else ("", "layers/*/")
    layers = {prefix + path: stack + names for path, names in _paths(LAYER_WEIGHTS, config).items()}
    return {"batch/tokens": "batch seq", "batch/targets": "batch seq", **_paths(WEIGHTS, config), **layers}


def _draw(key: Any, weights: dict[str, str], config: GPTConfig) -> Params:
    """Nested dictionaries of float32 weights.

    Normal, with variance 1 / (3 d_model) as in Megatron-Turing NLG (Smith et al. 2022; GPT-2's 0.02 at its width, and right for narrow
    models too); the two that write to the residual stream smaller by sqrt(2 layers), as in GPT-2.
    """
    params: Params = {}
    spread = (3 * config.d_model) ** -0.5
    for number, (path, names) in enumerate(_paths(weights, config).items()):
        room, _, name = path.rpartition("/")
        shape = tuple(getattr(config, dim) for dim in names.split())
        if name == "scale":
            value = jnp.ones(shape)
        elif _is_bias(path):
            value = jnp.zeros(shape)
        else:
            narrowing = (2 * config.layers) ** -0.5 if name in ("wo", "w2") else 1.0
            value = spread * narrowing * jax.random.normal(jax.random.fold_in(key, number), shape)
        params.setdefault(room, {})[name] = value
    return params


def init(key: Any, config: GPTConfig, *, scan: bool) -> Params:
    """The parameters; both forms hold the same values, `layers` stacked in front if scanned, else as a list of layers."""
    top, below = jax.random.split(key)
    keys = jax.random.split(below, config.layers)
    draw = partial(_draw, weights=LAYER_WEIGHTS, config=config)
    return {**_draw(top, WEIGHTS, config), "layers": jax.vmap(draw)(keys) if scan else [draw(each) for each in keys]}


def _normalize(weights: Params, x: Any) -> Any:
    """Layer normalisation over d_model (Ba et al. 2016), in float32."""
    wide = x.astype(jnp.float32)
    centered = wide - wide.mean(-1, keepdims=True)
    scaled = centered * jax.lax.rsqrt(jnp.square(centered).mean(-1, keepdims=True) + 1e-5) * weights["scale"]
    return (scaled + weights["bias"] if "bias" in weights else scaled).astype(x.dtype)


def _plus_bias(product: Any, weights: Params, bias: str) -> Any:
    return product + weights[bias] if bias in weights else product


def _cast(weights: Params, dtype: Any) -> Params:
    return {name: weight.astype(dtype) for name, weight in weights.items()}


def _causal_mask(seq: int) -> Any:
    """float32[seq, seq] to add to scores: 0 where a position may look (itself and those before it), -1e9 where not.

    Added, not selected with: the backward pass need not keep it, and in a scan nothing of size [batch, heads, seq, seq] is made beforehand.
    """
    positions = jnp.arange(seq)
    return jnp.where(positions[:, None] >= positions[None, :], 0.0, -1e9)


def _query_key_value(weights: Params, x: Any) -> tuple[Any, Any, Any]:
    """Three of [batch, seq, heads, d_head], by one product, c over the three.

    With `heads` split, the gradient of x is then one all-reduce, as in Megatron-LM (Shoeybi et al. 2019: two forward and two backward a
    layer). By three products it would be three: a partitioner does not add partial sums before it reduces them.
    """
    product = jnp.einsum("bsd,cdhk->cbshk", x, jnp.stack([weights["wq"], weights["wk"], weights["wv"]]))
    if "bq" in weights:
        product += jnp.stack([weights["bq"], weights["bk"], weights["bv"]])[:, None, None]
    query, key, value = (each.squeeze(0) for each in jax.lax.split(product, (1, 1, 1)))
    return query, key, value


def _attention(weights: Params, x: Any, mask: Any) -> Any:
    """[batch, seq, d_model] from the same."""
    weights = _cast(weights, x.dtype)
    with jax.named_scope("query_key_value"):
        query, key, value = (checkpoint_name(each, "query_key_value") for each in _query_key_value(weights, x))
    with jax.named_scope("scores"):
        scores = jnp.einsum("bshk,bthk->bhst", query * query.shape[-1] ** -0.5, key, preferred_element_type=jnp.float32)
        shares = jax.nn.softmax(scores + mask, axis=-1).astype(x.dtype)
    with jax.named_scope("mix"):
        mixed = checkpoint_name(jnp.einsum("bhst,bthk->bshk", shares, value), "mixed")
    with jax.named_scope("output"):
        return checkpoint_name(_plus_bias(jnp.einsum("bshk,hkd->bsd", mixed, weights["wo"]), weights, "bo"), "attention_out")


def _mlp(weights: Params, x: Any) -> Any:
    """[batch, seq, d_model] from the same, through d_ff."""
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
    """[batch, seq, d_model] from int32[batch, seq]."""
    vocab, compute = table["tokens"].shape[0], compute or table["tokens"].dtype
    one_hot = jax.nn.one_hot(tokens, vocab, dtype=compute)
    return jnp.einsum("bsv,vd->bsd", one_hot, table["tokens"].astype(compute)) + table["positions"].astype(compute)


def _cross_entropy(logits: Any, targets: Any) -> Any:
    """The mean over tokens of logsumexp(logits) - logits[target], in nats; logits float32[batch, seq, vocab]."""
    is_target = targets[..., None] == jnp.arange(logits.shape[-1])
    chosen = jnp.where(is_target, logits, 0).sum(-1)
    return (jax.nn.logsumexp(logits, axis=-1) - chosen).mean()


def apply(params: Params, tokens: Any, config: GPTConfig, *, remat: bool = False) -> Any:
    """float32[batch, seq, vocab] of logits from int32[batch, seq]; layers are scanned if they are stacked.

    Each is marked as a layer, so that a plan can say what it keeps; with `remat` it says so itself: its input alone, the rest is computed
    again in the backward pass (`jax.checkpoint`).
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
    """`loss(params, {"tokens", "targets"})`: the mean cross entropy of the next token."""

    def loss(params: Params, batch: dict[str, Any]) -> Any:
        logits = apply(params, batch["tokens"], config, remat=remat)
        with jax.named_scope("loss"):
            return _cross_entropy(logits, batch["targets"])

    return loss


def build(*, preset: str = "tiny", scan: bool = True, remat: bool = False, **changes: Any) -> Program:
    """A training step of a preset, any of its sizes and choices changed, by the names of `GPTConfig`'s fields; text for live runs are the
    bytes of `models.data.english_text`, in every vocabulary.

    Nothing is allocated, so that the largest preset plans on a laptop. Raises `DocumentError` for an unknown preset or choice.
    """
    config = choose_preset(PRESETS, preset, **changes)
    start = partial(init, config=config, scan=scan)
    tokens = jax.ShapeDtypeStruct((config.batch, config.seq), jnp.int32)
    optimizer = {"adam": optax.adam, "adamw": optax.adamw}[config.optimizer]
    return trace_training(
        make_loss(config, remat=remat),
        jax.eval_shape(lambda: start(jax.random.key(0))),  # a key made outside would wake the devices
        {"tokens": tokens, "targets": tokens},
        optimizer=optimizer(config.learning_rate),
        dims=dims(config, scan=scan),
        name=name_program("gpt", preset, changes),
        init=start,
        data=english_text.batches(config.batch, config.seq),
    )
