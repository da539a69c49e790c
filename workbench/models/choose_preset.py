"""Choosing a preset of a model, and changing some of its choices to what the model can be made of."""

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from workbench.errors import DocumentError, unknown_name

Config = TypeVar("Config")

_KEPT_NAME = (
    *("batch", "layers", "seq", "recompute", "cells", "size", "convolutions", "learning_rate"),
    *("context", "weights", "cache", "token_groups"),
)


def choose_preset(presets: Mapping[str, Config], preset: str, **changes: Any) -> Config:
    """A preset with some of its choices changed; `None` keeps the preset's.

    Raises `DocumentError` for an unknown preset or choice, and for choices that do not go together.
    """
    if preset not in presets:
        raise DocumentError(*unknown_name("preset", preset, presets))
    chosen = presets[preset]
    known = [each.name for each in fields(chosen)]  # type: ignore[arg-type]
    for name in changes:
        if name not in known:
            raise DocumentError(*unknown_name("argument", name, known))
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in changes.items() if value is not None}
    return replace(chosen, **values)  # type: ignore[type-var]


def name_program(model: str, preset: str, changed: Iterable[str]) -> str:
    """What a program is called: by its preset, unless it has other widths than that.

    >>> name_program("decoder", "llama3-8b", ["batch"]), name_program("decoder", "tiny", ["batch", "d_model"])
    ('decoder llama3-8b', 'decoder')
    """
    return f"{model} {preset}" if all(name in _KEPT_NAME for name in changed) else model
