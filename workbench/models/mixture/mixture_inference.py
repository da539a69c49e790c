"""Inference of the mixture of experts: prefill reads a prompt and fills the cache, decode makes one token more of each sequence.

    prefill   tokens [batch, seq]  -> the cache's first `seq` positions, logits of the last token
    decode    tokens [batch]       -> written at position `length`, attended to with all before it, logits

The layers are those of training (`mixture.dense_layer_with`, `mixture.sparse_layer_with`). Layers with experts are scanned over a stacked
cache that goes along whole; a dense layer before them has a cache of its own.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from workbench.core.program import Program
from workbench.models.choose_preset import choose_preset, name_program
from workbench.models.layers.decoder_blocks import Params, embed, project_vocab
from workbench.models.layers.inference_step import trace_prompt, trace_token
from workbench.models.layers.kv_cache import Cache, cache_dims, empty_cache, random_cache
from workbench.models.layers.quantized_weights import multiply, quantize_weights, quantized_dims
from workbench.models.mixture.cached_attention import attend_prompt, attend_token, cached_names
from workbench.models.mixture.config import MixtureConfig
from workbench.models.mixture.experts import experts
from workbench.models.mixture.inference_config import PRESETS, MixtureInferenceConfig
from workbench.models.mixture.mixture import dense_layer_with, sparse_layer_with
from workbench.models.mixture.weights import SHARED_SCALES, dims, init


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
    return quantize_weights(init(key, config.architecture, scan=scan), SHARED_SCALES, config.weights)


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
    params = quantized_dims(dims(built, scan=scan), SHARED_SCALES, config.weights)
    stack, layers = ("sparse ", "layers") if scan else ("", "layers/*")
    found = {f"params/{path}": each for path, each in params.items()}
    rooms = {f"{layers}/before": stack, layers: stack} if config.alternate else {layers: stack}
    for room, front in (rooms | ({"dense/*": ""} if config.dense else {})).items():
        found |= {f"cache/{room}/{path}": each for path, each in cache_dims(cached_names(built), config.cache, front).items()}
    return found
