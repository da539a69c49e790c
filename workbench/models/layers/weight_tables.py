"""Weights by a table of their paths and dimensions.

`"mlp/w1": "d_model > d_ff"` says what a product sums over, and then what it makes; without `>` it is a scale, which begins as ones, or a
bias, which begins as zeros.
"""

from collections.abc import Mapping
from math import prod
from typing import Any

import jax
import jax.numpy as jnp

Params = dict[str, Any]


def nest_tables(**parts: Mapping[str, str]) -> dict[str, str]:
    """One table of several: each part's paths below its name."""
    return {f"{part}/{path}": dims for part, weights in parts.items() for path, dims in weights.items()}


def name_dims(weights: Mapping[str, str], prefix: str = "", stack: str = "") -> dict[str, str]:
    """Paths under `prefix` to the names of dimensions, `stack` in front of them, as tracing takes them."""
    return {prefix + path: " ".join((stack + " " + dims).replace(">", "").split()) for path, dims in weights.items()}


def draw(key: Any, weights: Mapping[str, str], sizes: Mapping[str, int], *, gain: float = 1.0) -> Params:
    """Nested dictionaries of float32 weights: normal, of variance `gain` over the number of terms that a product sums (LeCun et al. 1998;
    `gain` 2 before rectifiers, He et al. 2015)."""
    params: Params = {}
    for number, (path, dims) in enumerate(weights.items()):
        *parents, name = path.split("/")
        node = params
        for each in parents:
            node = node.setdefault(each, {})
        summed, product, made = dims.partition(">")
        shape = tuple(sizes[dim] for dim in (summed + made).split())
        if not product:
            node[name] = jnp.ones(shape) if name == "scale" else jnp.zeros(shape)
        else:
            stddev = (gain / prod(sizes[dim] for dim in summed.split())) ** 0.5
            node[name] = stddev * jax.random.normal(jax.random.fold_in(key, number), shape)
    return params


def count_parameters(weights: Mapping[str, str], sizes: Mapping[str, int]) -> int:
    """The number of parameters in a table.

    >>> count_parameters({"w1": "d_model > d_ff", "b1": "d_ff"}, {"d_model": 4, "d_ff": 16})
    80
    """
    return sum(prod(sizes[dim] for dim in dims.replace(">", "").split()) for dims in weights.values())
