"""Inference of the mixture of experts: prefill reads a prompt and fills the cache, decode makes one token more of each sequence.

    prefill   tokens [batch, seq]  -> the cache's first `seq` positions, logits of the last token
    decode    tokens [batch]       -> written at position `length`, attended to with all before it, logits

The layers are those of training (`mixture.dense_layer_with`, `mixture.sparse_layer_with`). Layers with experts are scanned over a stacked
cache that goes along whole; a dense layer before them has a cache of its own.
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
    CACHES,
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
from workbench.models.layers.quantized_weights import PLAIN, WEIGHTS, QuantizedWeight, multiply, quantize_weights, quantized_dims
from workbench.models.mixture.experts import experts
from workbench.models.mixture.latent_attention import attention, project_down, project_heads, project_output
from workbench.models.mixture.mixture import dense_layer_with, sparse_layer_with
from workbench.models.mixture.mixture_config import PRESETS as TRAINED
from workbench.models.mixture.mixture_config import MixtureArchitecture, MixtureConfig
from workbench.models.mixture.mixture_weights import dims, init, shared_scales
from workbench.models.size_limits import verify_divides

# How a mixture of experts is kept and asked in inference, and the presets for it.


@dataclass(frozen=True, slots=True)
class MixtureInferenceConfig(MixtureArchitecture):
    """A Transformer with a mixture of experts in inference: `batch` sequences at once, all of them equally long.

    - `seq`, `context`, `weights`, `cache`: as in `DecoderInferenceConfig`; routers stay in bfloat16 where weights have fewer bits. A latent
      attention caches for each token the latent of keys and values and the position of its key, for all heads together;
    - `token_groups`: in a decoding step, groups of sequences whose tokens choose among the experts together: an expert has places for its
      share of a group, times `capacity_factor`, and computes all of them. If it is 0 each sequence is a group of its own: every expert
      has a place for every token, and none is dropped.
    """

    context: WholeFrom0 = 0
    weights: str = one_of(*WEIGHTS)
    cache: str = one_of(*CACHES)
    token_groups: WholeFrom0 = 0

    def __post_init__(self) -> None:
        MixtureArchitecture.__post_init__(self)
        verify_context(self.seq, self.context)
        if self.token_groups:
            verify_divides("batch", self.batch, self.token_groups, f"its sequences are in {self.token_groups} `token_groups` of as many")

    @property
    def cache_length(self) -> int:
        """Tokens that the cache has places for."""
        return self.context or self.seq

    @property
    def architecture(self) -> MixtureConfig:
        """What the layers take."""
        shared = {each.name: getattr(self, each.name) for each in fields(MixtureArchitecture)}
        return MixtureConfig(**shared, params=self.weights if self.weights in PLAIN else "bfloat16")


def _in_inference(config: MixtureConfig, **changes: Any) -> MixtureInferenceConfig:
    shared = {each.name: getattr(config, each.name) for each in fields(MixtureArchitecture)}
    return MixtureInferenceConfig(**shared | changes)


PRESETS: dict[str, MixtureInferenceConfig] = {
    name: _in_inference(
        config,
        **({"seq": 32, "context": 64, "weights": "float32", "cache": "float32"} if name.startswith("tiny") else {}),
    )
    for name, config in TRAINED.items()
}
"""The models of `mixture.config`, each with its batch and a cache as long as the sequences it was trained on; the tiny ones half filled."""


def prefill(params: Params, cache: Cache, batch: dict[str, Any], config: MixtureInferenceConfig) -> tuple[Cache, Any]:
    """The cache with the prompts int32[batch, seq] at its beginning, and float[batch, vocab], the logits of their last tokens."""
    built = config.architecture
    x = embed(params, batch["tokens"], built, einsum=multiply)
    x, cache = _run_layers(params, cache, x, built, partial(attend_prompt, config=built), partial(experts, config=built, einsum=multiply))
    length = jnp.full_like(cache["length"], config.seq)
    return cache | {"length": length}, project_vocab(params, x[:, -1:], built, multiply)[:, 0]


def decode(params: Params, cache: Cache, batch: dict[str, Any], config: MixtureInferenceConfig) -> tuple[Cache, Any]:
    """The cache with one token more of each sequence, int32[batch], and float[batch, vocab], the logits of the token after it. A full
    cache has its last token replaced."""
    built = config.architecture
    position = jnp.minimum(cache["length"], config.cache_length - 1)
    x = embed(params, batch["tokens"][:, None], built, einsum=multiply)
    attend = partial(attend_token, position=position, config=built)
    x, cache = _run_layers(params, cache, x, built, attend, partial(_mix_tokens, config=config))
    return cache | {"length": position + 1}, project_vocab(params, x, built, multiply)[:, 0]


def _mix_tokens(weights: Params, x: Any, config: MixtureInferenceConfig) -> tuple[Any, Any]:
    """The experts of one token of each sequence, [batch, 1, d_model]: the tokens of a group are to them the tokens of one sequence."""
    groups = config.token_groups or config.batch
    grouped = x.reshape(groups, config.batch // groups, config.d_model)
    change, load = experts(weights, grouped, replace(config.architecture, seq=config.batch // groups), multiply)
    return change.reshape(x.shape), load


def _run_layers(
    params: Params, cache: Cache, x: Any, config: MixtureConfig, attend: Callable[..., Any], mix: Callable[..., Any]
) -> tuple[Any, Cache]:
    """All layers: [batch, seq, d_model] from the same, and the cache."""

    def sparse(weights: Params, x: Any, cached: Cache, layer: Any) -> tuple[Any, Cache]:
        x, _, kept = sparse_layer_with(weights, x, cached, config, partial(attend, layer=layer), mix, einsum=multiply)
        return x, kept

    dense_kept, kept = [], []
    with jax.named_scope("dense"):
        for number, weights in enumerate(params["dense"]):
            with jax.named_scope(str(number)):
                x, one = dense_layer_with(weights, x, cache["dense"][number], config, attend, einsum=multiply)
                dense_kept.append(one)
    with jax.named_scope("layers"):
        if isinstance(params["layers"], dict):

            def step(carry: tuple[Any, Cache], each: tuple[Params, Any]) -> tuple[tuple[Any, Cache], None]:
                return sparse(each[0], *carry, each[1]), None

            (x, layers), _ = jax.lax.scan(step, (x, cache["layers"]), (params["layers"], jnp.arange(config.sparse)))
            return x, cache | {"dense": dense_kept, "layers": layers}
        for number, weights in enumerate(params["layers"]):
            with jax.named_scope(str(number)):
                x, one = sparse(weights, x, cache["layers"][number], None)
                kept.append(one)
    return x, cache | {"dense": dense_kept, "layers": kept}


def make_params(key: Any, config: MixtureInferenceConfig, *, scan: bool) -> Params:
    """The parameters that training begins with, as inference keeps them."""
    return quantize_weights(init(key, config.architecture, scan=scan), shared_scales(config.architecture), config.weights)


def make_cache(config: MixtureInferenceConfig, *, scan: bool, key: Any = None) -> Cache:
    """An empty cache; with a `key`, random tokens up to the end of the prompt, one place left free."""
    built = config.architecture
    sizes = {"batch": config.batch, "context": config.cache_length}
    shapes = {name: tuple(sizes.get(dim) or getattr(built, dim) for dim in row.split()) for name, row in cached_names(built).items()}
    make: Callable[..., Cache] = partial(empty_cache, dtype=config.cache) if key is None else partial(random_cache, key, dtype=config.cache)

    def sparse(*stack: int) -> Cache:
        stacked = {name: (*stack, *shape) for name, shape in shapes.items()}
        return make(stacked) | ({"before": make(stacked)} if config.alternate else {})

    layers = sparse(config.sparse) if scan else [sparse() for _ in range(config.sparse)]
    length = 0 if key is None else min(config.seq, config.cache_length - 1)
    return {"dense": [make(shapes) for _ in range(config.dense)], "layers": layers, "length": jnp.int32(length)}


def build_prefill(*, preset: str = "tiny", scan: bool = True, **changes: Any) -> Program:
    """The program that reads prompts: any size and choice of a preset changed by the name of its field in `MixtureInferenceConfig`.
    Nothing is allocated.

    Raises `DocumentError` for an unknown preset or choice, and for choices that do not go together.
    """
    config = choose_preset(PRESETS, preset, **changes)

    def start(key: Any) -> tuple[Params, Cache]:
        return make_params(key, config, scan=scan), make_cache(config, scan=scan)

    step, name = partial(prefill, config=config), name_program("mixture prefill", preset, changes)
    return trace_prompt(step, start, batch=config.batch, seq=config.seq, dims=_dims(config, scan=scan), name=name)


def build_decode(*, preset: str = "tiny", scan: bool = True, **changes: Any) -> Program:
    """The program that makes one token of each sequence, as `build_prefill`. A live run begins after a prompt of random latents."""
    config = choose_preset(PRESETS, preset, **changes)

    def start(key: Any) -> tuple[Params, Cache]:
        return make_params(key, config, scan=scan), make_cache(config, scan=scan, key=jax.random.fold_in(key, 1))

    step, name = partial(decode, config=config), name_program("mixture decode", preset, changes)
    return trace_token(step, start, batch=config.batch, dims=_dims(config, scan=scan), name=name)


def _dims(config: MixtureInferenceConfig, *, scan: bool) -> dict[str, str]:
    """Path patterns to names, for parameters and cache."""
    built = config.architecture
    params = quantized_dims(dims(built, scan=scan), shared_scales(built), config.weights)
    stack, layers = ("sparse ", "layers") if scan else ("", "layers/*")
    found = {f"params/{path}": each for path, each in params.items()}
    rooms = {f"{layers}/before": stack, layers: stack} if config.alternate else {layers: stack}
    for room, front in (rooms | ({"dense/*": ""} if config.dense else {})).items():
        found |= {f"cache/{room}/{path}": each for path, each in cache_dims(cached_names(built), config.cache, front).items()}
    return found


# The attention of a mixture of experts in inference, to what is cached.
#
# A latent attention caches `latent` [context, batch, d_latent]: of each token the normalised latent of its keys and values, and the turned
# position of its key, both for all heads. In decoding no key or value is made of it: the projection up is absorbed into the query and into
# what is mixed (DeepSeek-AI 2024, arXiv:2405.04434, section 2.1.2), so that all heads read one row of a token.
#
#     scores   q . (W_key c) = (q W_key) . c             once for the new token, not for all that are cached
#     mixed    sum_t share_t (W_value c_t) = W_value (sum_t share_t c_t)
#
# Plain heads cache `key` and `value`. In einsum strings: b batch, s seq, h heads, k a head's width, r a latent.

LATENT_ROWS = {"latent": "context batch d_latent"}
HEAD_ROWS = {"key": "context heads batch d_head", "value": "context heads batch d_value"}
"""What an attention caches, and its dimensions."""


def cached_names(config: MixtureConfig) -> dict[str, str]:
    return LATENT_ROWS if config.attention == "latent" else HEAD_ROWS


def attend_prompt(weights: Params, x: Any, cache: Cache, config: MixtureConfig, layer: Any = None) -> tuple[Any, Cache]:
    """[batch, seq, d_model] from the same, a prompt, each token attending to those before it, and the cache that begins with it."""
    change, (left, right) = attention(weights, x, config, multiply)
    return change, _write(cache, left, right, 0, None, config, layer)


def attend_token(weights: Params, x: Any, cache: Cache, position: Any, config: MixtureConfig, layer: Any = None) -> tuple[Any, Cache]:
    """[batch, 1, d_model] from the same, one token at `position` attending to the cache, and the cache with it."""
    attend = _attend_latents if config.attention == "latent" else _attend_heads
    mixed, cache = attend(weights, x, cache, position, config, layer)
    return project_output(weights, mixed, multiply), cache


def _write(cache: Cache, left: Any, right: Any, start: Any, positions: Any, config: MixtureConfig, layer: Any) -> Cache:
    """The cache with new rows: of keys and values [batch, seq, heads, 1, width], or of a latent and a position yet to be turned."""
    if config.attention != "latent":
        return write_rows(write_rows(cache, "key", left.squeeze(3), start, layer), "value", right.squeeze(3), start, layer)
    turned = kernel("rotary", config, lambda x: rotate(x, positions), right)
    return write_rows(cache, "latent", jnp.concatenate([left, turned], 2), start, layer)


def _attend_heads(weights: Params, x: Any, cache: Cache, position: Any, config: MixtureConfig, layer: Any) -> tuple[Any, Cache]:
    query, key, value = project_heads(weights, x, config, multiply, position[None])
    cache = _write(cache, key, value, position, position[None], config, layer)
    keys, values = read_rows(cache, "key", layer), read_rows(cache, "value", layer)
    fused = "attention" in config.fused.split()
    mixed = attend_cached(query * config.d_head**-0.5, keys, values, position + 1, fused=fused)
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
        query = jnp.concatenate([absorbed, kernel("rotary", config, lambda each: rotate(each, position[None]), rotary)], 3)
    rows = _as_one_head(read_rows(cache, "latent", layer))
    scaled = mark(query, "query")[:, :, None] * config.d_query**-0.5
    mixed = attend_cached(scaled, rows, rows, position + 1, fused="attention" in config.fused.split())
    with jax.named_scope("value"):
        # what is mixed of the keys' position is dropped here: a slice of the cache before would be a copy of it
        return multiply("bshr,rhk->bshk", mixed[:, :, 0, :, : config.kv_rank], value_up.astype(x.dtype)), cache


def _as_one_head(rows: CachedRows) -> CachedRows:
    return CachedRows(rows.values[:, None], None if rows.scale is None else rows.scale[:, None])


def _split_last(weight: Any, sizes: tuple[int, ...]) -> list[Any]:
    return weight.split(sizes) if isinstance(weight, QuantizedWeight) else list(jax.lax.split(weight, sizes, axis=weight.ndim - 1))
