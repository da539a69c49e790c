"""A mixture-of-experts Transformer, like DeepSeek-V2 and V3, or like GShard and GLaM.

DeepSeek-V2 and V3 (arXiv:2405.04434, arXiv:2412.19437) have latent attention; GShard (arXiv:2006.16668) and GLaM
(arXiv:2112.06905) have plain heads and two experts per token in every other layer.

Dimensions: batch, seq, d_model, heads, d_head, d_query, d_pair, d_value, q_rank, kv_rank, d_latent, d_ff, gate_up,
experts, choices (experts in the routing), d_expert, expert_gates, d_shared, vocab, sparse (scanned layers with
experts).
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp

from workbench.core.program import Program
from workbench.models.config_fields import choose_preset, name_program
from workbench.models.data import english_text
from workbench.models.layers.decoder_blocks import Params, add, cross_entropy, embed, mark, mlp, normalize
from workbench.models.layers.layer_checkpoint import checkpoint_layer
from workbench.models.layers.local_attention import of_layer, scanned_reaches
from workbench.models.mixture.experts import experts
from workbench.models.mixture.latent_attention import attention
from workbench.models.mixture.mixture_config import PRESETS, MixtureConfig
from workbench.models.mixture.mixture_weights import dims, init
from workbench.tracing import layer, trace_training
from workbench.tracing.jaxpr.float8_products import Einsum

Attend = Callable[[Params, Any, Any], tuple[Any, Any]]
"""`attend(weights, x, cached) -> (change, cached)`: attention over x, and over the cache if there is one."""


def _add_attention(weights: Params, x: Any, cached: Any, config: MixtureConfig, attend: Attend) -> tuple[Any, Any]:
    with jax.named_scope("attention"):
        normal = mark(normalize(weights["norm1"], x, config), "normal")
        change, cached = attend(weights["attention"], normal, cached)
        return add(x, change, {}, ""), cached


def dense_layer_with(
    weights: Params, x: Any, cached: Any, config: MixtureConfig, attend: Attend, *, einsum: Einsum = jnp.einsum
) -> tuple[Any, Any]:
    """Apply a dense layer to x [batch, seq, d_model]; also returns its cache. `einsum` computes the weight products."""
    x, cached = _add_attention(weights, x, cached, config, attend)
    with jax.named_scope("mlp"):
        normal = mark(normalize(weights["norm2"], x, config), "normal")
        return add(x, mlp(weights["mlp"], normal, config, einsum), {}, ""), cached


def sparse_layer_with(
    weights: Params, x: Any, cached: Any, config: MixtureConfig, attend: Attend, mix: Callable[..., Any], *, einsum: Einsum = jnp.einsum
) -> tuple[Any, Any, Any]:
    """A layer with experts `mix(weights, x)`; also returns the load imbalance [batch] and its cache, a dict with that
    of a preceding dense layer under `before`.
    """
    before: dict[str, Any] = {}
    if config.alternate:
        with jax.named_scope("before"):
            x, kept = dense_layer_with(weights["before"], x, cached.get("before", {}), config, attend, einsum=einsum)
            before = {"before": kept}
    x, cached = _add_attention(weights, x, cached, config, attend)
    with jax.named_scope("mixture"):
        normal = mark(normalize(weights["norm2"], x, config), "normal")
        change, load = mix(weights["experts"], normal)
        if config.d_shared:
            with jax.named_scope("shared"):
                change = change + mlp(weights["shared"], normal, config, einsum)
        return add(x, change, {}, ""), load, cached | before


def _attend(config: MixtureConfig, reach: Any = None) -> Attend:
    return lambda weights, x, cached: (attention(weights, x, config, reach=reach)[0], cached)


def dense_layer(weights: Params, x: Any, config: MixtureConfig) -> Any:
    """Apply a dense layer in training to x [batch, seq, d_model]."""
    return dense_layer_with(weights, x, {}, config, _attend(config))[0]


def sparse_layer(weights: Params, x: Any, reach: Any, config: MixtureConfig) -> tuple[Any, Any]:
    """Apply a layer with experts in training to x [batch, seq, d_model], with attention to `reach` tokens if there are two kinds of layers;
    also returns the load imbalance [batch]."""
    return sparse_layer_with(weights, x, {}, config, _attend(config, reach), partial(experts, config=config))[:2]


def run_layers(params: Params, x: Any, config: MixtureConfig) -> tuple[Any, Any]:
    """Apply all layers to x [batch, seq, d_model]; also returns the mean total load imbalance."""
    keep = layer if config.recompute == "none" else partial(checkpoint_layer, recompute=config.recompute)
    dense = keep(partial(dense_layer, config=config))

    @cache
    def sparse(config: MixtureConfig) -> Callable[..., Any]:
        return keep(partial(sparse_layer, config=config))

    with jax.named_scope("dense"):
        for number, weights in enumerate(params["dense"]):
            with jax.named_scope(str(number)):
                x = dense(weights, x)
    loads = jnp.zeros(x.shape[0])
    with jax.named_scope("layers"):
        if isinstance(params["layers"], dict):
            scanned, one = (params["layers"], scanned_reaches(config)), sparse(config)
            x, stacked_loads = jax.lax.scan(lambda x, each: one(each[0], x, each[1]), x, scanned)
            return x, stacked_loads.sum(0).mean()
        for number, weights in enumerate(params["layers"]):
            with jax.named_scope(str(number)):
                x, load = sparse(of_layer(config, config.seq, number))(weights, x, None)
                loads += load
    return x, loads.mean()


def make_loss(config: MixtureConfig) -> Callable[[Params, dict[str, Any]], Any]:
    """`loss(params, {"tokens", "targets"})`: mean cross entropy of the next token, plus the weighted load imbalance."""

    def loss(params: Params, batch: dict[str, Any]) -> Any:
        x, load = run_layers(params, embed(params, batch["tokens"], config), config)
        return cross_entropy(params, x, batch["targets"], config) + config.balance * load

    return loss


def build(*, preset: str = "tiny", scan: bool = True, recompute: str = "", **changes: Any) -> Program:
    """A training step of a preset, any of its sizes and choices changed by the name of its field in `MixtureConfig`.
    Nothing is allocated.

    Raises `DocumentError` for an unknown preset or choice, and for choices that do not go together.
    """
    config = choose_preset(PRESETS, preset, recompute=recompute or None, **changes)
    return training_step(config, scan=scan, name=name_program("mixture", preset, changes))


def training_step(config: MixtureConfig, *, scan: bool = True, name: str = "mixture") -> Program:
    """A training step; nothing is allocated. Live runs train on the bytes of `models.data.english_text`."""
    start = partial(init, config=config, scan=scan)
    tokens = jax.ShapeDtypeStruct((config.batch, config.seq), jnp.int32)
    return trace_training(
        make_loss(config),
        jax.eval_shape(lambda: start(jax.random.key(0))),
        {"tokens": tokens, "targets": tokens},
        optimizer=f"{config.optimizer} {config.learning_rate}",
        dims={"batch/tokens": "batch seq", "batch/targets": "batch seq", **dims(config, scan=scan)},
        name=name,
        init=start,
        data=english_text.batches(config.batch, config.seq),
    )


# Layouts of a mixture of experts that use its marks.


def expert_parallel(*, batch: str, experts: str = "expert", shares: bool = True) -> str:
    """Constraints that shard tokens along the batch outside the experts, and along the experts inside: two all-to-alls.

    `batch` are the axes of the batch; `experts` is the one of them that shards the experts; `shares`: token weights are
    sent too, as when tokens are gathered.
    """
    rest = "+".join(axis for axis in batch.split("+") if axis != experts) or "-"
    outside, inside = f"[{batch}, -, -", f"[{rest}, {experts}, -"
    places = {"sent": f"{outside}, ?]", "received": f"{inside}, ?]", "made": f"{inside}, ?]", "returned": f"{outside}, ?]"}
    places |= {"share_sent": f"{outside}]", "share_received": f"{inside}]"} if shares else {}
    return f"batch:{batch}; experts:{experts}; " + "; ".join(f"@{place}/reduce_precision={dims}" for place, dims in places.items())


LAYOUTS = (
    ("expert:8", expert_parallel(batch="expert")),
    ("data:8", "batch:data"),
    ("data:2 expert:4", expert_parallel(batch="data+expert")),
    ("expert:4 model:2", expert_parallel(batch="expert") + "; heads:model; d_ff:model; d_expert:model; d_shared:model"),
)
"""For `tiny` on eight devices: expert parallel, data parallel, both, experts and attention sharded further."""

DECODE_LAYOUTS = (
    ("data:8", "batch:data"),
    ("expert:8", expert_parallel(batch="expert")),
    ("data:2 expert:4", expert_parallel(batch="data+expert")),
    ("data:2 context:4", "batch:data; context:context; d_expert:context; d_shared:context; d_ff:context"),
    ("data:2 model:4", "batch:data; heads:model; d_ff:model; d_expert:model; d_shared:model; vocab:model"),
)
"""For decoding of `tiny` on eight devices: the cache sharded by sequence, also with expert parallelism; by position;
Megatron. The cache of latents has no heads, so each device of Megatron's axis has all of it.
"""

PREFILL_LAYOUTS = (
    ("data:8", "batch:data"),
    ("expert:8", expert_parallel(batch="expert")),
    ("data:2 expert:4", expert_parallel(batch="data+expert")),
    ("data:2 model:4", "batch:data; heads:model; d_ff:model; d_expert:model; d_shared:model; vocab:model"),
)
"""For prefill of `tiny` on eight devices: data parallel, expert parallel, both, Megatron."""
