"""Fields of a model's configuration that say what they may be: `positions: str = one_of("rotary", "learned")`.

A configuration checks itself when it is made (`verify_words`), whether by a document, on the command line or in Python; the registry checks
the types of what documents and the command line give.
"""

import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from workbench.errors import DocumentError, unknown_name

FLOATS = ("float32", "bfloat16", "float16")
"""Types of parameters and activations."""
WholeFrom0 = Annotated[int, "from 0"]
NumberFrom0 = Annotated[float, "from 0"]
"""Types of fields that may be 0; other numbers are above it."""


def one_of(default: str, *others: str) -> Any:
    """A field that is one of these words."""
    return field(default=default, metadata={"words": tuple(dict.fromkeys((default, *others)))})


def word_or_none(*words: str) -> Any:
    """A field that is one of these words, or `None`, as by default."""
    return field(default=None, metadata={"words": words})


def several_of(*words: str) -> Any:
    """A field that is some of these words, with spaces between them; none by default."""
    return field(default="", metadata={"words": words, "several": True})


@dataclass(frozen=True, slots=True)
class ArgumentKind:
    """What an argument of a model may be: `kind` is the Python type; numbers are above 0, and 0 too with `from_zero`."""

    kind: type
    from_zero: bool = False

    def accepts(self, value: Any) -> bool:
        """Whether a value is of this kind: NaN, and a truth value in place of a number, are not."""
        if self.kind is tuple:
            return (
                isinstance(value, list | tuple) and bool(value) and all(ArgumentKind(int, self.from_zero).accepts(each) for each in value)
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
    """Each field of a configuration, and what may be given for it."""
    if config is None:
        return {}
    return {name: _kind_of(hint) for name, hint in get_type_hints(config, include_extras=True).items()}


def _kind_of(hint: Any) -> ArgumentKind:
    from_zero = get_origin(hint) is Annotated
    hint = get_args(hint)[0] if from_zero else hint
    if isinstance(hint, types.UnionType):  # or `None`
        hint = next(each for each in get_args(hint) if each is not types.NoneType)
    return ArgumentKind(get_origin(hint) or hint, from_zero)


def argument_words(config: type | None, argument: str) -> tuple[str, ...]:
    """The words that a field may be; none where it is no word."""
    found = next((each for each in fields(config) if each.name == argument), None) if config else None
    return tuple(found.metadata.get("words", ())) if found else ()


def verify_words(config: Any) -> None:
    """Raises `DocumentError` for a field of a configuration that is none of the words it may be."""
    for each in fields(config):
        words, value = each.metadata.get("words"), getattr(config, each.name)
        if words is None or value is None:
            continue
        for word in str(value).split() if "several" in each.metadata else (value,):
            if word not in words:
                shown = ", ".join(f"`{known}`" for known in words)
                several = "some of" if "several" in each.metadata else "one of"
                raise DocumentError(
                    f"`{each.name}` is {str(value)[:80]!r}; it should be {several} {shown}.", unknown_name(each.name, str(word), words)[1]
                )


def verify_relation(holds: bool, message: str, *ways_out: str) -> None:
    """Raises `DocumentError` for sizes that do not go together."""
    if not holds:
        raise DocumentError(message, ways_out)


def verify_halves(name: str, size: int, applies: bool, why: str) -> None:
    """Raises `DocumentError` for an odd size that is halved, where that `applies`."""
    verify_relation(not applies or size % 2 == 0, f"`{name}` is {size}; {why}, so it must be even.", f"take {size - 1}", f"take {size + 1}")


# Choosing a preset of a model, and changing some of its choices to what the model can be made of.

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
