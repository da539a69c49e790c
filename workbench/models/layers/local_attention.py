"""Local attention: layers whose queries see the last `window` tokens, or the tokens of their own chunk of `window`.

Fields of a configuration: `window` (0 for none), `chunked`, and `pattern`, the kinds of layers from the first one on, `L` for local and
`G` for global, repeated over all layers (`LLLLLG`: five local layers, then a global one); without a pattern, all layers are local.

An attention kernel skips blocks of keys outside the window (FlashAttention-2 since 2.3, Transformer Engine, Pallas' splash attention), and
the cache of a local layer has `window` rows, of which a new token overwrites the oldest (vLLM's and SGLang's caches per kind of layer).
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp

LOCAL, GLOBAL = "local", "global"
_KINDS = {"L": LOCAL, "G": GLOBAL}
_CAUSAL = 0.5
Config = TypeVar("Config", bound=Any)


class Window(NamedTuple):
    """Keys that a layer sees: `reach` tokens, an int or int32[]; `share` is the fraction of all scores that a kernel computes."""

    reach: Any
    chunked: bool
    share: float


def is_local(config: Any, length: int, layer: int) -> bool:
    """Whether a layer sees fewer than `length` tokens."""
    return 0 < config.window < length and (not config.pattern or config.pattern[layer % len(config.pattern)] == "L")


def has_two_kinds(config: Any, length: int) -> bool:
    return len({is_local(config, length, layer) for layer in range(config.layers)}) > 1


def of_layer(config: Config, length: int, layer: int) -> Config:
    """The configuration of one layer, for which all layers are of its kind."""
    if not config.window:
        return config
    return replace(config, pattern="", window=config.window if is_local(config, length, layer) else 0)


def visible_share(length: int, window: int, *, chunked: bool) -> float:
    """The fraction of the scores of `length` tokens that a window and the causal mask leave: 0.5 for a window of all tokens.

    >>> visible_share(8192, 8192, chunked=False), visible_share(8192, 1024, chunked=False), visible_share(8192, 1024, chunked=True)
    (0.5, 0.1171875, 0.0625)
    """
    if not chunked:
        part = min(window / length, 1.0)
        return part - part**2 / 2
    chunks, rest = divmod(length, window)
    return (chunks * window**2 + rest**2) / 2 / length**2


def find_window(config: Any, length: int, reach: Any = None) -> Window | None:
    """The window of local layers over `length` tokens, `None` if they see all of them. With `reach`, of each layer of a scan: its share is
    the mean over the layers, because one body stands for all."""
    if reach is None and not is_local(config, length, 0):
        return None
    share = visible_share(length, config.window, chunked=config.chunked)
    if reach is None:
        return Window(config.window, config.chunked, share)
    local = sum(is_local(config, length, layer) for layer in range(config.layers))
    return Window(reach, config.chunked, (local * share + (config.layers - local) * _CAUSAL) / config.layers)


def scanned_reaches(config: Any) -> Any:
    """How many tokens each scanned layer sees, int32[layers]; `None` if all layers are of one kind."""
    if not has_two_kinds(config, config.seq):
        return None
    return jnp.array([config.window if is_local(config, config.seq, layer) else config.seq for layer in range(config.layers)], jnp.int32)


def sees(window: Window, distance: Any, keys: Any) -> Any:
    """Whether a query sees keys at positions `keys`, `distance` before it, apart from the causal mask."""
    return (distance + keys) // window.reach == keys // window.reach if window.chunked else distance < window.reach


# Caches of local layers.


def split_caches(config: Any, length: int, layers: int, make: Callable[..., Any], *, scan: bool) -> Any:
    """The caches of all layers, each `make(rows, *stack)`: a list, or stacked for a scan, with a stack for each kind of layers."""
    rows = [config.window if is_local(config, length, layer) else length for layer in range(layers)]
    if not scan:
        return [make(number) for number in rows]
    if len(set(rows)) == 1:
        return make(rows[0], layers)
    return {kind: make(number, rows.count(number)) for kind, number in ((LOCAL, config.window), (GLOBAL, length))}


def cache_places(config: Any, length: int, stack: str, *, scan: bool) -> Iterator[tuple[str, str, str]]:
    """For each group of caches in `split_caches` its path, the name of its stack with a space, and that of its rows."""
    if has_two_kinds(config, length):
        names = {True: "window", False: "context"}
        if scan:
            yield from ((f"layers/{kind}", f"{kind}_layers ", names[kind == LOCAL]) for kind in (LOCAL, GLOBAL))
        else:
            yield from ((f"layers/{layer}", "", names[is_local(config, length, layer)]) for layer in range(config.layers))
    else:
        yield "layers" if scan else "layers/*", f"{stack} " if scan else "", "window" if is_local(config, length, 0) else "context"


def place_token(window: Window | None, rows: int, position: Any) -> tuple[Any, Any]:
    """The row of a cache that the token at `position` takes, and how many rows it sees: int32[] each."""
    if window is None:
        return position, position + 1
    row = position % rows
    return row, row + 1 if window.chunked else jnp.minimum(position + 1, rows)


def last_rows(values: Any, rows: int) -> Any:
    """What a cache of `rows` rows keeps of a prompt's `values` [batch, seq, ...], each token where `place_token` expects it."""
    seq = values.shape[1]
    if seq <= rows:
        return values
    kept = jax.lax.slice_in_dim(values, seq - rows, seq, axis=1)
    return jnp.roll(kept, seq % rows, axis=1) if seq % rows else kept


def scan_pattern(config: Any, length: int, layers: Any, caches: Any, x: Any, one: Callable[..., tuple[Any, Any]]) -> tuple[Any, Any]:
    """Apply stacked `layers` of two kinds, a repetition of the pattern after the other, as MaxText scans such models; then what remains.

    `one(weights, cache, number, x, config)` applies a layer of `config` with row `number` of its kind's stacked cache.
    """
    pattern = config.pattern

    def repetition(x: Any, caches: Any, number: Any, size: int) -> tuple[Any, Any]:
        for place, letter in enumerate(pattern[:size]):
            kind = _KINDS[letter]
            row = number * pattern.count(letter) + pattern[:place].count(letter)
            weights = jax.tree.map(_pick(number * len(pattern) + place), layers)
            with jax.named_scope(str(place)):
                x, cache = one(weights, caches[kind], row, x, of_layer(config, length, place))
            caches = caches | {kind: cache}
        return x, caches

    count, rest = divmod(config.layers, len(pattern))

    def step(carry: tuple[Any, Any], number: Any) -> tuple[tuple[Any, Any], None]:
        return repetition(carry[0], carry[1], number, len(pattern)), None

    (x, caches), _ = jax.lax.scan(step, (x, caches), jnp.arange(count))
    return repetition(x, caches, count, rest)


def _pick(layer: Any) -> Callable[[Any], Any]:
    return lambda stacked: jax.lax.dynamic_index_in_dim(stacked, layer, 0, keepdims=False)
