"""Dimension names as the user writes them: path patterns to einops-like strings."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from workbench.core.path_patterns import match_patterns
from workbench.core.tensor import verify_dim_name
from workbench.errors import DimensionError, unknown_name, wrong_type

Names = tuple[str | None, ...]  # None: to be inferred


def user_names(dims: Mapping[str, Any] | None, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Names]:
    """The names of each leaf's dimensions, by path; the longest pattern that matches wins.

    `dims` maps patterns (`path_patterns.matches`) to strings such as `"batch seq"`, where `_` is a dimension to infer
    and `...` any number of them; mappings may nest, `{"params": {"w1": "d_model d_ff"}}`. Raises `DimensionError` for a
    pattern that matches nothing and for a string of the wrong rank.

    >>> user_names({"w1": "d_model ..."}, {"params/w1": (8, 4, 2)})
    {'params/w1': ('d_model', None, None)}
    """
    if dims is not None and not isinstance(dims, Mapping):
        raise DimensionError(
            wrong_type("dims", dims, "names by argument"),
            [f'write {{"{path}": "{" ".join(["batch", *"_" * (len(shape) - 1)])}"}}' for path, shape in list(shapes.items())[-1:] if shape],
        )
    patterns = dict(_flatten("", dims or {}))
    patterns_of = match_patterns(patterns, shapes)
    used_patterns = {pattern for fitting in patterns_of.values() for pattern in fitting}
    for pattern in patterns:
        if pattern not in used_patterns:
            raise DimensionError(*unknown_name("argument", pattern, shapes))
    names: dict[str, Names] = {}
    for path, shape in shapes.items():
        if patterns_of[path]:
            pattern = max(patterns_of[path], key=len)
            described = _described_shape(pattern, path, shapes, patterns_of)
            if described == shape and path.startswith("opt_state/") and _rank(patterns[pattern]) not in (None, len(shape)):
                continue  # `*` also matches a step count
            names[path] = _matching_names(_parse(patterns[pattern], path, described), described, shape)
    return names


def names_of_some(dims: Mapping[str, Any] | None, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Names]:
    """The names that `dims` gives to these leaves, where it has patterns for other ones, too."""
    patterns = dict(_flatten("", dims or {}))
    fitting = {pattern for found in match_patterns(patterns, shapes).values() for pattern in found}
    return user_names({pattern: text for pattern, text in patterns.items() if pattern in fitting}, shapes)


def _rank(text: str) -> int | None:
    words = text.replace(",", " ").split()
    return None if "..." in words else len(words)


def _described_shape(
    pattern: str, path: str, shapes: Mapping[str, tuple[int, ...]], of_path: Mapping[str, Sequence[str]]
) -> tuple[int, ...]:
    """The shape a pattern describes: the parameter's for optimizer state, which may have another (`v_row/w1`)."""
    words = path.split("/")
    tails = ("/".join(words[at:]) for at in range(1, len(words)))
    owners = (f"params/{tail}" for tail in tails) if words[0] == "opt_state" else ()
    return shapes[next((owner for owner in owners if pattern in of_path.get(owner, ())), path)]


def _matching_names(names: Names, described: tuple[int, ...], shape: tuple[int, ...]) -> Names:
    """Names of the dimensions that an array of this shape shares with the described shape; others are inferred.

    A factored optimizer (Adafactor, Shazeer & Stern 2018) stores the state of a matrix as a row and a column vector,
    and a placeholder of one element for unused state. The dimension of a vector follows from the program's operations.

    >>> _matching_names(("d_model", "d_ff"), (64, 256), (64, 1)), _matching_names(("d_model", "d_ff"), (64, 256), (256,))
    (('d_model', None), (None,))
    """
    if len(shape) != len(described):
        return (None,) * len(shape)
    return tuple(name if own_size == size else None for name, own_size, size in zip(names, shape, described, strict=True))


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
    dim_words = [word for word in words if word != "..."]
    for word in dim_words:
        if word != "_":
            verify_dim_name(word)
        if word != "_" and dim_words.count(word) > 1:
            raise DimensionError(f"`{text}` names two dimensions of `{path}` `{word}`.", [f"name the second one `{word}_out`, for example"])
    free = len(shape) - len(dim_words)
    if free < 0 or (free and "..." not in words) or words.count("...") > 1:
        raise DimensionError(
            f"`{path}` has {len(shape)} dimensions, {list(shape)}; `{text}` names {len(dim_words)}.",
            ["one name per dimension", "`_` for one to infer", "`...` for the rest"],
        )
    names: list[str | None] = []
    for word in words:
        names += [None] * free if word == "..." else [None if word == "_" else word]
    return tuple(names)
