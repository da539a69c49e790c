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
    "layers": 1 << 14,  # scanned, any number takes one trace; published models have up to 1,663
    "io": 1 << 24,
    "hidden": 1 << 24,
    "size": 1 << 14,  # pixels or voxels along an edge
    "cells": 144,  # each is traced; published models have up to 72
    "convolutions": 96,  # of a level, each traced; published models have up to 48
}
"""The largest value of each argument that counts something."""
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


def cells(presets: Mapping[str, Any]) -> Pieces:
    return lambda given: _read_choice(given, "cells", presets)


def convolutions(presets: Mapping[str, Any]) -> Pieces:
    """Those of all levels: on the way down, at the bottom, on the way up."""
    return lambda given: _read_choice(given, "convolutions", presets) * (2 * getattr(presets.get(given["preset"]), "levels", 0) + 1)


def _read_choice(given: Mapping[str, Any], name: str, presets: Mapping[str, Any]) -> int:
    """The argument as given, or as in the preset; an unknown preset is reported when the model is built."""
    value = given[name] or getattr(presets.get(given["preset"]), name, 0)
    return int(value)


def verify_pieces(whose: str, model: str, pieces: int, most: int) -> None:
    """Raises `DocumentError` for a model with more separately traced parts than a document may ask for."""
    if pieces > most:
        scanned = ["let it be scanned, `scan` true"] if model not in ("amoebanet", "deep_unet") else []
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
