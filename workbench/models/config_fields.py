"""Configuration fields with their allowed words: `positions: str = one_of("rotary", "learned")`.

A configuration checks itself when it is made (`verify_words`), from a document, the command line or Python; the
registry checks the types of values from documents and the command line.
"""

import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from workbench.errors import DocumentError, unknown_name
from workbench.tracing.named_optimizers import OPTIMIZERS

FLOATS = ("float32", "bfloat16", "float16")
"""Dtypes of parameters and activations."""
WholeFrom0 = Annotated[int, "from 0"]
NumberFrom0 = Annotated[float, "from 0"]
"""Types of fields that may be 0; other numbers must be positive."""


def one_of(default: str, *others: str) -> Any:
    """Field that is one of these words."""
    return field(default=default, metadata={"words": tuple(dict.fromkeys((default, *others)))})


def optimizer_named(default: str) -> Any:
    """A field that is the name of an optimizer."""
    return one_of(default, *OPTIMIZERS)


def word_or_none(*words: str) -> Any:
    """Field that is one of these words, or `None` (the default)."""
    return field(default=None, metadata={"words": words})


def several_of(*words: str) -> Any:
    """Field that is any number of these words, separated by spaces; none by default."""
    return field(default="", metadata={"words": words, "several": True})


@dataclass(frozen=True, slots=True)
class ArgumentKind:
    """Type of an argument of a model; numbers must be positive, or also 0 with `from_zero`."""

    kind: type
    from_zero: bool = False

    def accepts(self, value: Any) -> bool:
        """Whether a value is valid; NaN is not, nor is a bool as a number."""
        if self.kind is tuple:
            return (
                isinstance(value, list | tuple) and bool(value) and all(ArgumentKind(int, self.from_zero).accepts(item) for item in value)
            )
        if self.kind in (bool, str):
            return isinstance(value, self.kind)
        if isinstance(value, bool) or not isinstance(value, (int, float) if self.kind is float else int):
            return False
        return bool(value > 0 or (self.from_zero and value == 0))

    def __str__(self) -> str:
        start = "from 0" if self.from_zero else "above 0" if self.kind is float else "from 1"
        numbers = {int: "a whole number", float: "a number", tuple: "a list of whole numbers"}
        return {bool: "true or false", str: "text"}.get(self.kind) or f"{numbers[self.kind]} {start}"


@cache
def argument_kinds(config: type | None) -> Mapping[str, ArgumentKind]:
    """The argument kind of each field of a configuration."""
    if config is None:
        return {}
    return {name: _kind_of(hint) for name, hint in get_type_hints(config, include_extras=True).items()}


def _kind_of(hint: Any) -> ArgumentKind:
    from_zero = get_origin(hint) is Annotated
    hint = get_args(hint)[0] if from_zero else hint
    if isinstance(hint, types.UnionType):  # or `None`
        hint = next(member for member in get_args(hint) if member is not types.NoneType)
    return ArgumentKind(get_origin(hint) or hint, from_zero)


def argument_words(config: type | None, argument: str) -> tuple[str, ...]:
    """The allowed words of a field; empty if it is not a word."""
    matching = next((candidate for candidate in fields(config) if candidate.name == argument), None) if config else None
    return tuple(matching.metadata.get("words", ())) if matching else ()


def verify_words(config: Any) -> None:
    """Raise `DocumentError` if a field of a configuration is not one of its allowed words."""
    for attribute in fields(config):
        words, value = attribute.metadata.get("words"), getattr(config, attribute.name)
        if words is None or value is None:
            continue
        for word in str(value).split() if "several" in attribute.metadata else (value,):
            if word not in words:
                shown = ", ".join(f"`{known}`" for known in words)
                several = "some of" if "several" in attribute.metadata else "one of"
                raise DocumentError(
                    f"`{attribute.name}` is {str(value)[:80]!r}; it should be {several} {shown}.",
                    unknown_name(attribute.name, str(word), words)[1],
                )


def verify_relation(holds: bool, message: str, *ways_out: str) -> None:
    """Raise `DocumentError` unless a relation between sizes holds."""
    if not holds:
        raise DocumentError(message, ways_out)


def verify_halves(name: str, size: int, applies: bool, why: str) -> None:
    """Raise `DocumentError` if a size that must be halved is odd."""
    verify_relation(not applies or size % 2 == 0, f"`{name}` is {size}; {why}, so it must be even.", f"take {size - 1}", f"take {size + 1}")


def verify_pattern(pattern: str) -> None:
    """Raise `DocumentError` unless a pattern of layers has only letters for local and global ones."""
    verify_relation(
        set(pattern) <= set("LG"),
        f"`pattern` is {pattern[:80]!r}; it has a letter for each layer, L for a local and G for a global one.",
        'take `pattern` "LLLLLG"',
        "leave `pattern` out: all layers are local",
    )


# Presets of models, and changes to their fields.

Config = TypeVar("Config")

_KEPT_NAME = (
    *("batch", "layers", "seq", "recompute", "cells", "size", "convolutions", "learning_rate", "optimizer"),
    *("context", "weights", "cache", "token_groups", "lora_rank", "base"),
)


def choose_preset(presets: Mapping[str, Config], preset: str, **changes: Any) -> Config:
    """Return a preset with some fields changed; `None` keeps the preset's value.

    Raises `DocumentError` for an unknown preset or field, and for incompatible values.
    """
    if preset not in presets:
        raise DocumentError(*unknown_name("preset", preset, presets))
    chosen = presets[preset]
    names = [attribute.name for attribute in fields(chosen)]  # type: ignore[arg-type]
    for name in changes:
        if name not in names:
            raise DocumentError(*unknown_name("argument", name, names))
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in changes.items() if value is not None}
    return replace(chosen, **values)  # type: ignore[type-var]


def name_program(model: str, preset: str, changed: Iterable[str]) -> str:
    """Name a program after its preset, unless it has other widths.

    >>> name_program("decoder", "llama3-8b", ["batch"]), name_program("decoder", "tiny", ["batch", "d_model"])
    ('decoder llama3-8b', 'decoder')
    """
    return f"{model} {preset}" if all(name in _KEPT_NAME for name in changed) else model
