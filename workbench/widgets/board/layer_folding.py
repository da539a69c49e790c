"""Repeated layers folded into one row: paths that differ only in layer numbers become `layers[0..95]/w1`."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from workbench.core.derived_value_cache import cache_with_program
from workbench.core.path_patterns import matches
from workbench.core.path_patterns import template as _template
from workbench.core.program import Program

template = lru_cache(maxsize=1 << 16)(_template)


class Folded(NamedTuple):
    """Folded paths: `subject` is a pattern of `path_patterns.matches` for all of them, `label` the text to show."""

    subject: str
    label: str


def fold_paths(paths: Sequence[str]) -> Folded:
    """Fold paths of one template.

    >>> fold_paths(["mu/0/layers/0/w1", "mu/0/layers/1/w1", "mu/0/layers/3/w1"])
    Folded(subject='mu/0/layers/*/w1', label='mu/0/layers[0..1,3]/w1')
    >>> fold_paths(["params/w1"])
    Folded(subject='params/w1', label='params/w1')
    """
    if len(paths) == 1:
        return Folded(paths[0], paths[0])
    subject, label = [], []
    for words in zip(*(path.split("/") for path in paths), strict=True):
        if len(set(words)) == 1:
            subject.append(words[0])
            label.append(words[0])
            continue
        stem = words[0].rstrip("0123456789")
        subject.append(f"{stem}*")
        ranges = f"[{number_ranges(int(word[len(stem) :]) for word in words)}]"
        if stem or not label:
            label.append(stem + ranges)
        else:
            label[-1] += ranges
    return Folded("/".join(subject), "/".join(label))


def number_ranges(numbers: Iterable[int]) -> str:
    """Format numbers as ranges.

    >>> number_ranges([0, 1, 2, 5, 7, 8])
    '0..2,5,7..8'
    """
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}..{last}" for first, last in runs)


def is_named(subject: str, path: str) -> bool:
    """Whether `path` is the subject or one of the layers folded in it."""
    return subject == path or matches(f"/{subject}", path)


def pattern_of(subject: str, paths: Iterable[str]) -> str:
    """Return the shortest pattern for the subject that matches none of the other `paths`.

    A leading slash is added if the subject is also the tail of another path.

    >>> pattern_of("w1", ["w1", "w2"]), pattern_of("w1", ["w1", "mu/w1"])
    ('w1', '/w1')
    """
    return f"/{subject}" if any(matches(subject, path) and not is_named(subject, path) for path in paths) else subject


@cache_with_program(5)
def group_arguments(program: Program) -> tuple[tuple[int, ...], ...]:
    """Group argument indices by kind, repeated layers together; independent of the layout."""
    alike: dict[tuple[object, ...], list[int]] = {}
    for index, tensor in enumerate(program.arguments):
        alike.setdefault((template(tensor.path), tensor.shape, tensor.dtype, tensor.dims, tensor.role), []).append(index)
    return tuple(map(tuple, alike.values()))


def stacked_layers(path: str, dims: tuple[str, ...], shape: tuple[int, ...]) -> str:
    """Label a scanned stack of layers, whose first dimension has the name of a part of the path; empty for any other
    tensor.

    >>> stacked_layers("params/layers/mlp/w1", ("layers", "d_model"), (96, 8))
    'params/layers[0..95]/mlp/w1'
    """
    if not dims or dims[0] not in path.split("/"):
        return ""
    return re.sub(rf"(^|/){re.escape(dims[0])}(?=/|$)", rf"\g<0>[0..{shape[0] - 1}]", path, count=1)
