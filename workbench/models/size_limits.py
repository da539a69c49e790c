"""Size limits of zoo models, because names and arguments come from untrusted documents and links.

Each argument has a maximum (`MOST`), far above any published model. In addition, a document may only ask for a limited
number of separately traced layers unless it is allowed more (`verify_pieces`): layers that are not scanned or not
identical take time to trace.
"""

from collections.abc import Callable, Mapping
from typing import Any

from workbench.errors import DocumentError

MOST: Mapping[str, int] = {
    "batch": 1 << 24,  # sequences or images; four thousand are usual
    "seq": 1 << 20,  # tokens, or frames
    "context": 1 << 24,  # cached tokens; the longest published is ten million
    "window": 1 << 24,  # tokens that a local layer sees
    "token_groups": 1 << 24,
    "ring": 1 << 12,  # devices of a ring attention
    "target_seq": 1 << 20,
    "layers": 1 << 14,  # scanned layers take one trace; published models have up to 1,663
    "dense": 64,  # dense layers of a mixture, each traced; published models have up to 3
    "io": 1 << 24,
    "hidden": 1 << 24,
    "vocab": 1 << 24,  # and other widths; published models have up to 256,000 tokens, and a d_model of 25,600
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
    "kv_copies": 1 << 16,
    "lora_rank": 1 << 16,
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
    "channels": 1 << 16,  # per level
    "narrow": 1 << 16,
    "filters": 1 << 14,
    "sizes": 1 << 24,  # dimensions of an einsum
    "size": 1 << 14,  # pixels or voxels along an edge
    "cells": 144,  # each is traced; published models have up to 72
    "convolutions": 96,  # per level, each traced; published models have up to 48
    "levels": 12,  # levels of a U-Net, each traced and half as large as the one before; published models have up to 6
}
"""Maximum of each integer argument."""
MOST_LEVELS = MOST["levels"]
"""Maximum length of a list of sizes, one per level."""
MOST_RATE = 1e6
"""Maximum learning rate, and maximum of other arguments that are not integers."""
MOST_LETTERS = 200
"""Maximum length of a text argument."""

Pieces = Callable[[Mapping[str, Any]], int]
"""Number of separately traced parts of a model, from its arguments including defaults."""


def one_piece(_: Mapping[str, Any]) -> int:
    """Pieces of a model whose size does not affect the time to trace it."""
    return 1


def unrolled_layers(presets: Mapping[str, Any]) -> Pieces:
    """Pieces: the layers, unless they are scanned; then those of a repetition of their pattern, and of an incomplete one."""

    def count(given: Mapping[str, Any]) -> int:
        return max(2 * len(given.get("pattern") or "") - 1, 1) if given["scan"] else _read_choice(given, "layers", presets)

    return count


def unrolled_and_dense_layers(presets: Mapping[str, Any]) -> Pieces:
    """Pieces: those of `unrolled_layers`, and the dense layers before those with experts, which are never scanned."""
    layers = unrolled_layers(presets)
    return lambda given: layers(given) + (_read_choice(given, "dense", presets) if given["scan"] else 0)


def levels(presets: Mapping[str, Any]) -> Pieces:
    """Pieces: the levels of a U-Net with channels given per level."""
    return lambda given: len(given["channels"] or getattr(presets.get(given["preset"]), "channels", ()))


def cells(presets: Mapping[str, Any]) -> Pieces:
    return lambda given: _read_choice(given, "cells", presets)


def convolutions(presets: Mapping[str, Any]) -> Pieces:
    """Pieces: the convolutions of all levels on the way down, at the bottom and on the way up."""
    return lambda given: _read_choice(given, "convolutions", presets) * (2 * _read_choice(given, "levels", presets) + 1)


def _read_choice(given: Mapping[str, Any], name: str, presets: Mapping[str, Any]) -> int:
    value = given[name]
    return int(getattr(presets.get(given["preset"]), name, 0) if value is None else value)


def verify_pieces(whose: str, model: str, pieces: int, most: int) -> None:
    if pieces > most:
        scanned = ["let it be scanned, `scan` true"] if model not in ("amoebanet", "deep_unet", "unet") else []
        raise DocumentError(
            f"{whose} asks for {pieces:,} layers of `{model}` that are each traced by themselves, which takes long; a document may ask for "
            f"{most:,} unless it is allowed more.",
            [*scanned, f"if you want to wait, add `--allow {model}` to the command", f'or load it with `allow="{model}"`'],
        )


def verify_divides(name: str, value: int, parts: int, why: str) -> None:
    """Raise `DocumentError`, with the nearest valid values, unless `parts` divides the value."""
    if value % parts:
        near = (value // parts * parts, -(-value // parts) * parts)
        raise DocumentError(f"`{name}` is {value}; {why}.", [f"take {multiple}" for multiple in near if multiple])
