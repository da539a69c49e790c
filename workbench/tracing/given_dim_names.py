"""Dimension names as the user writes them: path patterns to einops-like strings."""

from collections.abc import Iterable, Mapping
from typing import Any

from workbench.core.path_patterns import match_patterns
from workbench.core.tensor import verify_dim_name
from workbench.errors import DimensionError, unknown_name, wrong_type

Names = tuple[str | None, ...]  # None: to be inferred


def user_names(dims: Mapping[str, Any] | None, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Names]:
    """The names given to each leaf, by path; the most specific (longest) pattern that matches wins.

    `dims` maps patterns (`path_patterns.matches`) to strings such as `"batch seq"`, where `_` is a dimension to infer and `...` any number
    of them; mappings may nest, `{"params": {"w1": "d_model d_ff"}}`.

    Raises `DimensionError` for a pattern that matches nothing and for a string whose rank is wrong.

    >>> user_names({"w1": "d_model ..."}, {"params/w1": (8, 4, 2)})
    {'params/w1': ('d_model', None, None)}
    """
    if dims is not None and not isinstance(dims, Mapping):
        raise DimensionError(
            wrong_type("dims", dims, "names by argument"),
            [f'write {{"{path}": "{" ".join(["batch", *"_" * (len(shape) - 1)])}"}}' for path, shape in list(shapes.items())[-1:] if shape],
        )
    patterns = dict(_flatten("", dims or {}))
    of_path = match_patterns(patterns, shapes)
    fitted = {pattern for fitting in of_path.values() for pattern in fitting}
    for pattern in patterns:
        if pattern not in fitted:
            raise DimensionError(*unknown_name("argument", pattern, shapes))
    given: dict[str, Names] = {}
    for path, shape in shapes.items():
        fitting = of_path[path]
        if fitting and not (path.startswith("opt_state/") and _rank(patterns[max(fitting, key=len)]) not in (None, len(shape))):
            given[path] = _parse(patterns[max(fitting, key=len)], path, shape)
    return given


def _rank(text: str) -> int | None:
    """How many dimensions a string names; `None` if any number. A factored optimiser keeps a matrix's state in vectors, which its
    pattern names by their path alone: their names are inferred."""
    words = text.replace(",", " ").split()
    return None if "..." in words else len(words)


def _flatten(prefix: str, dims: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    for key, value in dims.items():
        pattern = f"{prefix}/{key}" if prefix else str(key)
        if isinstance(value, Mapping):
            yield from _flatten(pattern, value)
        elif isinstance(value, str):
            yield pattern, value
        elif not isinstance(value, Iterable):
            raise DimensionError(f"`{pattern}` is named {value!r}.", ['write a string such as "batch seq"'])
        else:
            yield pattern, " ".join("_" if name is None else str(name) for name in value)


def _parse(text: str, path: str, shape: tuple[int, ...]) -> Names:
    words = text.replace(",", " ").split()
    named = [word for word in words if word != "..."]
    for word in named:
        if word != "_":
            verify_dim_name(word)
        if word != "_" and named.count(word) > 1:
            raise DimensionError(f"`{text}` names two dimensions of `{path}` `{word}`.", [f"name the second one `{word}_out`, say"])
    free = len(shape) - len(named)
    if free < 0 or (free and "..." not in words) or words.count("...") > 1:
        raise DimensionError(
            f"`{path}` has {len(shape)} dimensions, {list(shape)}; `{text}` names {len(named)}.",
            ["one name a dimension", "`_` for one to infer", "`...` for the rest"],
        )
    names: list[str | None] = []
    for word in words:
        names += [None] * free if word == "..." else [None if word == "_" else word]
    return tuple(names)
