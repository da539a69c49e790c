"""Choosing a preset of a model, and changing some of its choices to what the model can be made of."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from workbench.errors import DocumentError, unknown_name

Config = TypeVar("Config")


def choose_preset(presets: Mapping[str, Config], preset: str, **changes: Any) -> Config:
    """A preset with some of its choices changed; `None` keeps the preset's. Raises `DocumentError` for an unknown preset."""
    if preset not in presets:
        raise DocumentError(*unknown_name("preset", preset, presets))
    return replace(presets[preset], **{name: value for name, value in changes.items() if value is not None})  # type: ignore[type-var]
