"""Inference of the decoder Transformer: prefill reads a prompt and fills the cache, decode generates one token per sequence.

    prefill   tokens [batch, seq]  -> the first `seq` positions of the cache, logits of the last token
    decode    tokens [batch]       -> position `length` of the cache, logits; attends to all positions so far

The layers are those of training (`decoder.layer_with`) with another attention. In a scan over layers the stacked
cache is part of the carry, and each layer writes its rows in place: as a scanned input and output it would be held twice.
Local layers have caches of `window` rows, in a stack of their own (`layers.local_attention`).
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from workbench.core.program import Program
from workbench.models.config_fields import WholeFrom0, choose_preset, name_program, one_of, verify_relation
from workbench.models.decoder.decoder import attend_sequence, layer_with
from workbench.models.decoder.decoder_config import PRESETS as TRAINED
from workbench.models.decoder.decoder_config import DecoderArchitecture, DecoderConfig
from workbench.models.decoder.decoder_weights import SHARED_SCALES, dims, init
from workbench.models.layers.decoder_blocks import Params, embed, project_vocab
from workbench.models.layers.kv_cache import (
    Cache,
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
from workbench.models.layers.quantized_weights import PLAIN, WEIGHTS, multiply, quantize_weights, quantized_dims

# Configurations and presets for inference.


@dataclass(frozen=True, slots=True)
class DecoderInferenceConfig(DecoderArchitecture):
    """A decoder-only Transformer in inference: `batch` sequences at once, all of them equally long.

    - `seq`: the tokens of a prompt, which `decoder_prefill` reads, and after which a run of `decoder_decode` begins;
    - `context`: the length of the cache in tokens; as long as the prompt if it is 0;
    - `weights`: the type in which the weights of products are kept (`models.layers.quantized_weights`); those of a type that is not
      computed with are converted at use, and norms and biases are never scaled;
    - `cache`: the type in which keys and values are kept (`models.layers.kv_cache`);
    """

    context: WholeFrom0 = 0
    weights: str = one_of(*WEIGHTS)
    cache: str = one_of(*WEIGHTS)

    def __post_init__(self) -> None:
        DecoderArchitecture.__post_init__(self)
        verify_context(self.seq, self.context)

    @property
    def cache_length(self) -> int:
        return self.context or self.seq

    @property
    def architecture(self) -> DecoderConfig:
        """What the layers take: the same model, with positions for every token of the cache."""
        shared = {attribute.name: getattr(self, attribute.name) for attribute in fields(DecoderArchitecture)}
        params = self.weights if self.weights in PLAIN else "bfloat16"
        return DecoderConfig(**{**shared, "seq": self.cache_length}, params=params)


def verify_context(seq: int, context: int) -> None:
    verify_relation(
        seq <= (context or seq),
        f"`seq` is {seq} and `context` {context}; the cache has a place for every token of the prompt, so `context` is `seq` or more.",
        f"take `context` {seq}",
        f"take `seq` {context}",
    )


def _in_inference(config: DecoderConfig, **changes: Any) -> DecoderInferenceConfig:
    shared = {attribute.name: getattr(config, attribute.name) for attribute in fields(DecoderArchitecture)}
    return DecoderInferenceConfig(**shared | changes)


PRESETS: dict[str, DecoderInferenceConfig] = {
    name: _in_inference(config, **({"seq": 32, "context": 64, "weights": "float32", "cache": "float32"} if name == "tiny" else {}))
    for name, config in TRAINED.items()
}
"""The models of `decoder.config`, with a cache as long as their training sequences; `tiny` is half filled."""


ROWS = dict.fromkeys(("key", "value"), "context kv_heads batch d_head")
"""Cached values of a layer, with their dimensions."""


def prefill(params: Params, cache: Cache, batch: dict[str, Any], config: DecoderConfig) -> tuple[Cache, Any]:
    """The cache filled with prompts int32[batch, seq], and the last tokens' logits float[batch, vocab]."""
    tokens = batch["tokens"]
    seq = tokens.shape[1]

    def attend(config: DecoderConfig, cache: Cache, layer: Any, query: Any, key: Any, value: Any) -> tuple[Any, Cache]:
        rows = cache["key"].shape[-4]
        cache = write_rows(cache, "key", last_rows(key.squeeze(3), rows), 0, layer)
        cache = write_rows(cache, "value", last_rows(value.squeeze(3), rows), 0, layer)
        return attend_sequence(query, key, value, None, config), cache

    x = embed(params, tokens, config, lambda table: table[:seq], einsum=multiply, rows=config.seq)
    x, cache = _run_layers(params, cache, x, config, attend, None)
    return cache | {"length": jnp.full_like(cache["length"], seq)}, project_vocab(params, x[:, -1:], config, multiply)[:, 0]


def decode(params: Params, cache: Cache, batch: dict[str, Any], config: DecoderConfig) -> tuple[Cache, Any]:
    """The cache with one more token int32[batch] (a full one loses its last), and the next logits [batch, vocab]."""
    position = jnp.minimum(cache["length"], config.seq - 1)

    def attend(config: DecoderConfig, cache: Cache, layer: Any, query: Any, key: Any, value: Any) -> tuple[Any, Cache]:
        row, visible = place_token(find_window(config, config.seq), cache["key"].shape[-4], position)
        cache = write_rows(cache, "key", key.squeeze(3), row, layer)
        cache = write_rows(cache, "value", value.squeeze(3), row, layer)
        cached = read_rows(cache, "key", layer), read_rows(cache, "value", layer)
        fused = "attention" in config.fused.split()
        return attend_cached(query * query.shape[-1] ** -0.5, *cached, visible, fused=fused), cache

    def arrange(table: Any) -> Any:
        return jax.lax.dynamic_slice_in_dim(table, position, 1)

    x = embed(params, batch["tokens"][:, None], config, arrange, einsum=multiply, rows=config.seq)
    x, cache = _run_layers(params, cache, x, config, attend, position[None])
    return cache | {"length": position + 1}, project_vocab(params, x, config, multiply)[:, 0]


def _run_layers(
    params: Params, cache: Cache, x: Any, config: DecoderConfig, attend: Callable[..., tuple[Any, Cache]], positions: Any
) -> tuple[Any, Cache]:
    def one(weights: Params, cached: Cache, layer: Any, x: Any, config: DecoderConfig) -> tuple[Any, Cache]:
        return layer_with(weights, x, config, partial(attend, config, cached, layer), einsum=multiply, positions=positions)

    with jax.named_scope("layers"):
        if isinstance(params["layers"], dict) and has_two_kinds(config, config.seq):
            x, layers = scan_pattern(config, config.seq, params["layers"], cache["layers"], x, one)
            return x, cache | {"layers": layers}
        if isinstance(params["layers"], dict):

            def step(carry: tuple[Any, Cache], layer: tuple[Params, Any]) -> tuple[tuple[Any, Cache], None]:
                return one(layer[0], carry[1], layer[1], carry[0], config), None

            (x, layers), _ = jax.lax.scan(step, (x, cache["layers"]), (params["layers"], jnp.arange(config.layers)))
            return x, cache | {"layers": layers}
        layers_cache = []
        for number, weights in enumerate(params["layers"]):
            with jax.named_scope(str(number)):
                x, cached = one(weights, cache["layers"][number], None, x, of_layer(config, config.seq, number))
                layers_cache.append(cached)
    return x, cache | {"layers": layers_cache}


def make_params(key: Any, config: DecoderInferenceConfig, *, scan: bool) -> Params:
    """Initialize the parameters and convert them for inference."""
    return quantize_weights(init(key, config.architecture, scan=scan), SHARED_SCALES, config.weights)


def make_cache(config: DecoderInferenceConfig, *, scan: bool, key: Any = None) -> Cache:
    """Empty cache; with a `key`, random keys and values up to the end of the prompt, one position free."""
    shape = config.kv_copies * config.kv_heads, config.batch, config.d_head
    make: Callable[..., Cache] = partial(empty_cache, dtype=config.cache) if key is None else partial(random_cache, key, dtype=config.cache)

    def make_rows(rows: int, *stack: int) -> Cache:
        return make(dict.fromkeys(ROWS, (*stack, rows, *shape)))

    length = 0 if key is None else min(config.seq, config.cache_length - 1)
    return {"layers": split_caches(config, config.cache_length, config.layers, make_rows, scan=scan), "length": jnp.int32(length)}


def build_prefill(*, preset: str = "tiny", scan: bool = True, **changes: Any) -> Program:
    """Build the prefill program; keyword arguments override the fields of `DecoderInferenceConfig`.

    Nothing is allocated. Raises `DocumentError` for an unknown preset or field, and for incompatible values.
    """
    config = choose_preset(PRESETS, preset, **changes)

    def start(key: Any) -> tuple[Params, Cache]:
        return make_params(key, config, scan=scan), make_cache(config, scan=scan)

    step, name = partial(prefill, config=config.architecture), name_program("decoder prefill", preset, changes)
    return trace_prompt(step, start, batch=config.batch, seq=config.seq, dims=_dims(config, scan=scan), name=name)


def build_decode(*, preset: str = "tiny", scan: bool = True, **changes: Any) -> Program:
    """Build the decoding program. A live run begins after a prompt of random keys and values."""
    config = choose_preset(PRESETS, preset, **changes)

    def start(key: Any) -> tuple[Params, Cache]:
        return make_params(key, config, scan=scan), make_cache(config, scan=scan, key=jax.random.fold_in(key, 1))

    step, name = partial(decode, config=config.architecture), name_program("decoder decode", preset, changes)
    return trace_token(step, start, batch=config.batch, dims=_dims(config, scan=scan), name=name)


def _dims(config: DecoderInferenceConfig, *, scan: bool) -> dict[str, str]:
    params = quantized_dims(dims(config.architecture, scan=scan), SHARED_SCALES, config.weights)
    named = {f"params/{path}": names for path, names in params.items()}
    for path, stack, rows in cache_places(config, config.cache_length, "layers", scan=scan):
        cached = cache_dims({name: dims.replace("context", rows) for name, dims in ROWS.items()}, config.cache, stack)
        named |= {f"cache/{path}/{row}": names for row, names in cached.items()}
    return named
