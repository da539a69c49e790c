"""How large a model of the zoo may be asked for. Its name and arguments come from documents and links of anyone.

There are two limits. Each argument has a largest value (`MOST`), far above any published model. And a document may ask for only so many
separately traced layers unless it is allowed more (`verify_pieces`): tracing takes time for every layer that is not like the one before it,
or is not scanned.
"""

from collections.abc import Callable, Mapping
from typing import Any

from workbench.errors import DocumentError

MOST: Mapping[str, int] = {
    "batch": 1 << 24,  # sequences, pictures; four thousand are usual
    "seq": 1 << 20,  # tokens, or frames
    "context": 1 << 24,  # tokens of a cache; ten million are the longest published
    "token_groups": 1 << 24,
    "ring": 1 << 12,  # devices that a sequence goes around
    "target_seq": 1 << 20,
    "layers": 1 << 14,  # scanned, any number takes one trace; published models have up to 1,663
    "dense": 64,  # of a mixture, each traced; published models have up to 3
    "io": 1 << 24,
    "hidden": 1 << 24,
    "vocab": 1 << 24,  # and other widths; published models have up to 256,000 tokens, and a stream of 25,600
    "d_model": 1 << 20,
    "d_ff": 1 << 22,
    "d_expert": 1 << 22,
    "d_shared": 1 << 22,
    "d_head": 1 << 16,
    "d_value": 1 << 16,
    "d_rotary": 1 << 16,
    "q_rank": 1 << 20,
    "kv_rank": 1 << 20,
    "heads": 1 << 16,
    "kv_heads": 1 << 16,
    "q_per_kv": 1 << 16,
    "gate_up": 2,
    "expert_gates": 2,
    "experts": 1 << 16,
    "top_k": 1 << 10,
    "groups": 1 << 10,
    "top_groups": 1 << 10,
    "buckets": 1 << 10,
    "features": 1 << 20,
    "kernel": 1 << 10,
    "classes": 1 << 20,
    "image_channels": 1 << 12,
    "channels": 1 << 16,  # of a level, where there is one for each
    "narrow": 1 << 16,
    "filters": 1 << 14,
    "sizes": 1 << 24,  # of an einsum's dimensions
    "size": 1 << 14,  # pixels or voxels along an edge
    "cells": 144,  # each is traced; published models have up to 72
    "convolutions": 96,  # of a level, each traced; published models have up to 48
    "levels": 12,  # of a U-Net, each traced and half as large as the one before; published models have up to 6
}
"""The largest value of each argument that counts something."""
MOST_LEVELS = MOST["levels"]
"""Of an argument that is a list of sizes, one for each level."""
MOST_RATE = 1e6
"""The largest learning rate, or other argument that is no whole number."""
MOST_LETTERS = 200
"""Of an argument that is text."""

Pieces = Callable[[Mapping[str, Any]], int]
"""How many parts of a model are traced separately, by its arguments; those that are left out have their defaults."""


def one_piece(_: Mapping[str, Any]) -> int:
    """A model whose size does not affect the time to trace it."""
    return 1


def unrolled_layers(presets: Mapping[str, Any]) -> Pieces:
    """The layers, where they are not scanned."""
    return lambda given: 1 if given["scan"] else _read_choice(given, "layers", presets)


def layers_beside_dense(presets: Mapping[str, Any]) -> Pieces:
    """The layers, where they are not scanned, and the dense ones that stand before those with experts: they never are."""
    return lambda given: _read_choice(given, "dense", presets) + 1 if given["scan"] else _read_choice(given, "layers", presets)


def levels(presets: Mapping[str, Any]) -> Pieces:
    """Those of a U-Net whose channels are given level by level."""
    return lambda given: len(given["channels"] or getattr(presets.get(given["preset"]), "channels", ()))


def cells(presets: Mapping[str, Any]) -> Pieces:
    return lambda given: _read_choice(given, "cells", presets)


def convolutions(presets: Mapping[str, Any]) -> Pieces:
    """Those of all levels: on the way down, at the bottom, on the way up."""
    return lambda given: _read_choice(given, "convolutions", presets) * (2 * _read_choice(given, "levels", presets) + 1)


def _read_choice(given: Mapping[str, Any], name: str, presets: Mapping[str, Any]) -> int:
    """The argument as given, or as in the preset; an unknown preset is reported when the model is built."""
    value = given[name]
    return int(getattr(presets.get(given["preset"]), name, 0) if value is None else value)


def verify_pieces(whose: str, model: str, pieces: int, most: int) -> None:
    """Raises `DocumentError` for a model with more separately traced parts than a document may ask for."""
    if pieces > most:
        scanned = ["let it be scanned, `scan` true"] if model not in ("amoebanet", "deep_unet", "unet") else []
        raise DocumentError(
            f"{whose} asks for {pieces:,} layers of `{model}` that are each traced by themselves, which takes long; a document may ask for "
            f"{most:,} unless it is allowed more.",
            [*scanned, f"if you want to wait, add `--allow {model}` to the command", f'or load it with `allow="{model}"`'],
        )


def verify_divides(name: str, value: int, parts: int, why: str) -> None:
    """Raises `DocumentError`, with the nearest values that do, for a choice that `parts` does not divide."""
    if value % parts:
        near = (value // parts * parts, -(-value // parts) * parts)
        raise DocumentError(f"`{name}` is {value}; {why}.", [f"take {each}" for each in near if each])
