"""The kinds of layers of a model with local attention, from its `config.json`: `LLLLLG`, repeated over the layers.

Files name them in several ways, tried in this order:

    layer_types                  a list, `sliding_attention`, `chunked_attention` or `full_attention` for each layer
    no_rope_layers               a list, 0 for a global layer without positions (Llama 4)
    sliding_window_pattern       `LLLG`, or 4 for the same; older files of Gemma 3 have it with a leading `_`
    no_rope_layer_interval       4 for `LLLG`
    global_attn_every_n_layers   3 for `GLL` (ModernBERT)
    max_window_layers            28 for 28 global layers, then local ones (Qwen 2 and 3)
"""

from collections.abc import Callable, Mapping
from typing import Any

_TYPES = {"sliding_attention": "L", "chunked_attention": "L", "full_attention": "G"}


def read_pattern(values: Mapping[str, Any], layers: int, default: str) -> tuple[str, str]:
    """The pattern of a file, and the key that it is from; the `default` of its family if it has none.

    An empty pattern is one that cannot be read.

    >>> read_pattern({"layer_types": ["sliding_attention", "full_attention"] * 12}, 24, "")
    ('LG', 'layer_types')
    >>> read_pattern({"max_window_layers": 2}, 4, ""), read_pattern({}, 26, "LLLLLG")
    (('GGLL', 'max_window_layers'), ('LLLLLG', ''))
    """
    for key, letters in _READERS.items():
        if values.get(key) is not None:
            return shorten(letters(values[key], layers)[:layers]), key
    return default, ""


def shorten(letters: str) -> str:
    """The shortest pattern that gives these letters when it is repeated.

    >>> shorten("LLLGLLLGLL"), shorten("LLL"), shorten("GGL")
    ('LLLG', 'L', 'GGL')
    """
    sizes = range(1, len(letters))
    return next((letters[:size] for size in sizes if all(letters[i] == letters[i % size] for i in range(len(letters)))), letters)


def _of_types(types: Any, layers: int) -> str:
    if not isinstance(types, list) or len(types) < layers or not all(isinstance(name, str) and name in _TYPES for name in types):
        return ""
    return "".join(_TYPES[name] for name in types)


def _of_flags(flags: Any, layers: int) -> str:
    if not isinstance(flags, list) or not (flags and len(flags) >= layers):
        return ""
    return "".join("L" if flag else "G" for flag in flags)


def _of_pattern(pattern: Any, layers: int) -> str:
    if isinstance(pattern, str):
        return pattern * layers if pattern and set(pattern) <= set("LG") else ""
    return _every(lambda size: "L" * (size - 1) + "G")(pattern, layers)


def _every(repeat: Callable[[int], str]) -> Callable[[Any, int], str]:
    def read(size: Any, layers: int) -> str:
        is_size = isinstance(size, int) and not isinstance(size, bool) and size > 0
        return repeat(min(size, layers + 1)) * layers if is_size else ""

    return read


def _of_first(first: Any, layers: int) -> str:
    is_number = isinstance(first, int) and not isinstance(first, bool) and first >= 0
    return "G" * min(first, layers) + "L" * max(layers - first, 0) if is_number else ""


_READERS: Mapping[str, Callable[[Any, int], str]] = {
    "layer_types": _of_types,
    "no_rope_layers": _of_flags,
    "sliding_window_pattern": _of_pattern,
    "_sliding_window_pattern": _of_pattern,
    "no_rope_layer_interval": _of_pattern,
    "global_attn_every_n_layers": _every(lambda size: "G" + "L" * (size - 1)),
    "max_window_layers": _of_first,
}
