"""Inference of the mixture model: prefill reads a prompt and fills the cache, decode generates one token per sequence.

    prefill   tokens [batch, seq]  -> the first `seq` positions of the cache, logits of the last token
    decode    tokens [batch]       -> position `length` of the cache, logits; attends to all positions so far

The layers are those of training (`mixture.dense_layer_with`, `mixture.sparse_layer_with`). Layers with experts are scanned over a stacked
cache in the carry; each dense layer before them has its own cache.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from workbench.core.program import Program
from workbench.models.config_fields import WholeFrom0, choose_preset, name_program, one_of
from workbench.models.decoder.decoder_inference import verify_context
from workbench.models.layers.decoder_blocks import Params, embed, kernel, mark, project_vocab, rotate
from workbench.models.layers.kv_cache import (
    Cache,
    CachedRows,
    attend_cached,
    cache_dims,
    empty_cache,
    random_cache,
    read_rows,
    trace_prompt,
    trace_token,
    write_rows,
)
from workbench.models.layers.local_attention import (
    cache_places,
    find_window,
    has_two_kinds,
    last_rows,
    of_layer,
    place_token,
    scan_pattern,
    split_caches,
)
from workbench.models.layers.quantized_weights import PLAIN, WEIGHTS, QuantizedWeight, multiply, quantize_weights, quantized_dims
from workbench.models.mixture.experts import experts
from workbench.models.mixture.latent_attention import attention, project_down, project_heads, project_output
from workbench.models.mixture.mixture import dense_layer_with, sparse_layer_with
from workbench.models.mixture.mixture_config import PRESETS as TRAINED
from workbench.models.mixture.mixture_config import MixtureArchitecture, MixtureConfig
from workbench.models.mixture.mixture_weights import dims, init, shared_scales
from workbench.models.size_limits import verify_divides

# Configurations and presets for inference.


@dataclass(frozen=True, slots=True)
class MixtureInferenceConfig(MixtureArchitecture):
    """A mixture-of-experts Transformer in inference with `batch` sequences of equal length.

    - `seq`, `context`, `weights`, `cache`: as in `DecoderInferenceConfig`; routers stay in bfloat16 if weights have
      fewer bits. A latent attention caches per token the latent of keys and values and the key position, for all heads
      together;
    - `token_groups`: groups of sequences whose tokens share the capacity of the experts in a decoding step: an expert
      has slots for its share of a group, times `capacity_factor`, and computes all of them. 0: each sequence is a
      group, so every expert has a slot for every token and none is dropped.
    """

    context: WholeFrom0 = 0
    weights: str = one_of(*WEIGHTS)
    cache: str = one_of(*WEIGHTS)
    token_groups: WholeFrom0 = 0

    def __post_init__(self) -> None:
        MixtureArchitecture.__post_init__(self)
        verify_context(self.seq, self.context)
        if self.token_groups:
            verify_divides("batch", self.batch, self.token_groups, f"its sequences form {self.token_groups} `token_groups` of equal size")

    @property
    def cache_length(self) -> int:
        return self.context or self.seq

    @property
    def architecture(self) -> MixtureConfig:
        shared = {attribute.name: getattr(self, attribute.name) for attribute in fields(MixtureArchitecture)}
        return MixtureConfig(**shared, params=self.weights if self.weights in PLAIN else "bfloat16")


def _in_inference(config: MixtureConfig, **changes: Any) -> MixtureInferenceConfig:
    shared = {attribute.name: getattr(config, attribute.name) for attribute in fields(MixtureArchitecture)}
    return MixtureInferenceConfig(**shared | changes)


PRESETS: dict[str, MixtureInferenceConfig] = {
    name: _in_inference(config, **({"seq": 32, "context": 64, "weights": "float32", "cache": "float32"} if name.startswith("tiny") else {}))
    for name, config in TRAINED.items()
}
"""The models of `mixture.config`, with a cache as long as their training sequences; tiny ones half filled."""


def prefill(params: Params, cache: Cache, batch: dict[str, Any], config: MixtureInferenceConfig) -> tuple[Cache, Any]:
    """The cache filled with prompts int32[batch, seq], and the last tokens' logits float[batch, vocab]."""
    layer_config = config.architecture
    x = embed(params, batch["tokens"], layer_config, einsum=multiply)
    x, cache = _run_layers(
        params, cache, x, layer_config, config.cache_length, attend_prompt, partial(experts, config=layer_config, einsum=multiply)
    )
    length = jnp.full_like(cache["length"], config.seq)
    return cache | {"length": length}, project_vocab(params, x[:, -1:], layer_config, multiply)[:, 0]


def decode(params: Params, cache: Cache, batch: dict[str, Any], config: MixtureInferenceConfig) -> tuple[Cache, Any]:
    """The cache with one more token int32[batch] (a full one loses its last), and the next logits [batch, vocab]."""
    layer_config = config.architecture
    position = jnp.minimum(cache["length"], config.cache_length - 1)
    x = embed(params, batch["tokens"][:, None], layer_config, einsum=multiply)
    attend = partial(attend_token, position=position, length=config.cache_length)
    x, cache = _run_layers(params, cache, x, layer_config, config.cache_length, attend, partial(_mix_tokens, config=config))
    return cache | {"length": position + 1}, project_vocab(params, x, layer_config, multiply)[:, 0]


def _mix_tokens(weights: Params, x: Any, config: MixtureInferenceConfig) -> tuple[Any, Any]:
    """Apply the experts to one token per sequence, [batch, 1, d_model]; a group counts as one sequence."""
    groups = config.token_groups or config.batch
    grouped = x.reshape(groups, config.batch // groups, config.d_model)
    change, load = experts(weights, grouped, replace(config.architecture, seq=config.batch // groups), multiply)
    return change.reshape(x.shape), load


def _run_layers(
    params: Params, cache: Cache, x: Any, config: MixtureConfig, length: int, attend: Callable[..., Any], mix: Callable[..., Any]
) -> tuple[Any, Cache]:
    def sparse(weights: Params, cached: Cache, layer: Any, x: Any, config: MixtureConfig) -> tuple[Any, Cache]:
        x, _, new_cache = sparse_layer_with(weights, x, cached, config, partial(attend, config=config, layer=layer), mix, einsum=multiply)
        return x, new_cache

    dense_caches, sparse_caches = [], []
    with jax.named_scope("dense"):
        for number, weights in enumerate(params["dense"]):
            with jax.named_scope(str(number)):
                x, layer_cache = dense_layer_with(
                    weights, x, cache["dense"][number], config, partial(attend, config=config), einsum=multiply
                )
                dense_caches.append(layer_cache)
    with jax.named_scope("layers"):
        if isinstance(params["layers"], dict) and has_two_kinds(config, length):
            x, layers = scan_pattern(config, length, params["layers"], cache["layers"], x, sparse)
            return x, cache | {"dense": dense_caches, "layers": layers}
        if isinstance(params["layers"], dict):

            def step(carry: tuple[Any, Cache], layer: tuple[Params, Any]) -> tuple[tuple[Any, Cache], None]:
                return sparse(layer[0], carry[1], layer[1], carry[0], config), None

            (x, layers), _ = jax.lax.scan(step, (x, cache["layers"]), (params["layers"], jnp.arange(config.sparse)))
            return x, cache | {"dense": dense_caches, "layers": layers}
        for number, weights in enumerate(params["layers"]):
            with jax.named_scope(str(number)):
                x, layer_cache = sparse(weights, cache["layers"][number], None, x, of_layer(config, length, number))
                sparse_caches.append(layer_cache)
    return x, cache | {"dense": dense_caches, "layers": sparse_caches}


def make_params(key: Any, config: MixtureInferenceConfig, *, scan: bool) -> Params:
    """Initialize the parameters and convert them for inference."""
    return quantize_weights(init(key, config.architecture, scan=scan), shared_scales(config.architecture), config.weights)


def make_cache(config: MixtureInferenceConfig, *, scan: bool, key: Any = None) -> Cache:
    """Make an empty cache; with a `key`, random rows up to the end of the prompt, with at least one free position."""
    layer_config = config.architecture
    make: Callable[..., Cache] = partial(empty_cache, dtype=config.cache) if key is None else partial(random_cache, key, dtype=config.cache)

    def dense(rows: int, *stack: int) -> Cache:
        sizes = {"batch": config.batch, "context": rows}
        named = cached_names(layer_config).items()
        return make({name: (*stack, *(sizes.get(dim) or getattr(layer_config, dim) for dim in dims.split())) for name, dims in named})

    def sparse(rows: int, *stack: int) -> Cache:
        return dense(rows, *stack) | ({"before": dense(rows, *stack)} if config.alternate else {})

    places = config.cache_length
    return {
        "dense": [dense(places) for _ in range(config.dense)],
        "layers": split_caches(config, places, config.sparse, sparse, scan=scan),
        "length": jnp.int32(0 if key is None else min(config.seq, places - 1)),
    }


def build_prefill(*, preset: str = "tiny", scan: bool = True, **changes: Any) -> Program:
    """Build the prefill program; keyword arguments override the fields of `MixtureInferenceConfig`.

    Nothing is allocated. Raises `DocumentError` for an unknown preset or field, and for incompatible values.
    """
    config = choose_preset(PRESETS, preset, **changes)

    def start(key: Any) -> tuple[Params, Cache]:
        return make_params(key, config, scan=scan), make_cache(config, scan=scan)

    step, name = partial(prefill, config=config), name_program("mixture prefill", preset, changes)
    return trace_prompt(step, start, batch=config.batch, seq=config.seq, dims=_dims(config, scan=scan), name=name)


def build_decode(*, preset: str = "tiny", scan: bool = True, **changes: Any) -> Program:
    """Build the decoding program. A live run begins after a prompt of random latents."""
    config = choose_preset(PRESETS, preset, **changes)

    def start(key: Any) -> tuple[Params, Cache]:
        return make_params(key, config, scan=scan), make_cache(config, scan=scan, key=jax.random.fold_in(key, 1))

    step, name = partial(decode, config=config), name_program("mixture decode", preset, changes)
    return trace_token(step, start, batch=config.batch, dims=_dims(config, scan=scan), name=name)


def _dims(config: MixtureInferenceConfig, *, scan: bool) -> dict[str, str]:
    built = config.architecture
    params = quantized_dims(dims(built, scan=scan), shared_scales(built), config.weights)
    named = {f"params/{path}": names for path, names in params.items()}
    places = [*cache_places(config, config.cache_length, "sparse", scan=scan), *([("dense/*", "", "context")] if config.dense else [])]
    if config.alternate:
        places = [(f"{path}/before", stack, rows) for path, stack, rows in places if path.startswith("layers")] + places
    for path, stack, rows in places:
        cached = cache_dims({name: dims.replace("context", rows) for name, dims in cached_names(built).items()}, config.cache, stack)
        named |= {f"cache/{path}/{row}": names for row, names in cached.items()}
    return named


# Attention to the cache.
#
# A latent attention caches `latent` [context, batch, d_latent]: per token the normalized latent of its keys and values, and the rotated
# position of its key, both for all heads. Decoding does not expand it to keys and values: the up projection is absorbed into the query and
# the mixed latent (DeepSeek-AI 2024, arXiv:2405.04434, section 2.1.2), so all heads read one row per token.
#
#     scores   q . (W_key c) = (q W_key) . c             once for the new token, not for all cached tokens
#     mixed    sum_t share_t (W_value c_t) = W_value (sum_t share_t c_t)
#
# Plain heads cache `key` and `value`. In einsum strings: b batch, s seq, h heads, k head width, r latent.

LATENT_ROWS = {"latent": "context batch d_latent"}
HEAD_ROWS = {"key": "context heads batch d_head", "value": "context heads batch d_value"}
"""Cached values of an attention, with their dimensions."""


def cached_names(config: MixtureConfig) -> dict[str, str]:
    return LATENT_ROWS if config.attention == "latent" else HEAD_ROWS


def attend_prompt(weights: Params, x: Any, cache: Cache, config: MixtureConfig, layer: Any = None) -> tuple[Any, Cache]:
    """Causal attention over a prompt x [batch, seq, d_model]; also returns the cache that begins with it."""
    change, (left, right) = attention(weights, x, config, multiply)
    if config.window:
        left, right = (last_rows(rows, cache["key"].shape[-4]) for rows in (left, right))
    return change, _write(cache, left, right, 0, None, config, layer)


def attend_token(
    weights: Params, x: Any, cache: Cache, position: Any, length: int, config: MixtureConfig, layer: Any = None
) -> tuple[Any, Cache]:
    """Attention of one token x [batch, 1, d_model] at `position` to a cache for `length` tokens; also returns the new cache."""
    if config.attention == "latent":
        mixed, cache = _attend_latents(weights, x, cache, position, config, layer)
    else:
        mixed, cache = _attend_heads(weights, x, cache, position, length, config, layer)
    return project_output(weights, mixed, multiply), cache


def _write(cache: Cache, left: Any, right: Any, start: Any, positions: Any, config: MixtureConfig, layer: Any) -> Cache:
    """The cache with new rows: keys and values, or a latent and a position before rotation."""
    if config.attention != "latent":
        return write_rows(write_rows(cache, "key", left.squeeze(3), start, layer), "value", right.squeeze(3), start, layer)
    turned = kernel("rotary", config, lambda x: rotate(x, positions), right)
    return write_rows(cache, "latent", jnp.concatenate([left, turned], 2), start, layer)


def _attend_heads(
    weights: Params, x: Any, cache: Cache, position: Any, length: int, config: MixtureConfig, layer: Any
) -> tuple[Any, Cache]:
    query, key, value = project_heads(weights, x, config, multiply, position[None])
    row, visible = place_token(find_window(config, length), cache["key"].shape[-4], position)
    cache = _write(cache, key, value, row, position[None], config, layer)
    keys, values = read_rows(cache, "key", layer), read_rows(cache, "value", layer)
    fused = "attention" in config.fused.split()
    mixed = attend_cached(query * config.d_head**-0.5, keys, values, visible, fused=fused)
    return mixed.squeeze(3) if config.q_per_kv == 1 else mixed, cache


def _attend_latents(weights: Params, x: Any, cache: Cache, position: Any, config: MixtureConfig, layer: Any) -> tuple[Any, Cache]:
    with jax.named_scope("latents"):
        query_low, pair_low, key_position = project_down(weights, x, config, multiply)
    cache = _write(cache, pair_low, key_position, position, position[None], config, layer)
    key_up, value_up = _split_last(weights["wkv_up"], (config.d_head, config.d_value))
    with jax.named_scope("query"):
        query = multiply("bsr,rhk->bshk", query_low, weights["wq_up"].astype(x.dtype))
        plain, rotary = jax.lax.split(query, (config.d_head, config.d_rotary), axis=3)
        absorbed = multiply("bshk,rhk->bshr", plain, key_up.astype(x.dtype))
        query = jnp.concatenate([absorbed, kernel("rotary", config, lambda part: rotate(part, position[None]), rotary)], 3)
    rows = _as_one_head(read_rows(cache, "latent", layer))
    scaled = mark(query, "query")[:, :, None] * config.d_query**-0.5
    mixed = attend_cached(scaled, rows, rows, position + 1, fused="attention" in config.fused.split())
    with jax.named_scope("value"):
        # the mixed key positions are dropped here: a slice of the cache before the attention would be a copy
        return multiply("bshr,rhk->bshk", mixed[:, :, 0, :, : config.kv_rank], value_up.astype(x.dtype)), cache


def _as_one_head(rows: CachedRows) -> CachedRows:
    return CachedRows(rows.values[:, None], None if rows.scale is None else rows.scale[:, None])


def _split_last(weight: Any, sizes: tuple[int, ...]) -> list[Any]:
    return weight.split(sizes) if isinstance(weight, QuantizedWeight) else list(jax.lax.split(weight, sizes, axis=weight.ndim - 1))
