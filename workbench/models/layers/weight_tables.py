"""Tables of weights by path and dimensions.

`"mlp/w1": "d_model > d_ff"` lists the contracted dimensions of a product, then its output dimensions; without `>` it is
a scale, initialized to ones, or a bias, initialized to zeros.
"""

from collections.abc import Mapping
from math import prod
from typing import Any

import jax
import jax.numpy as jnp

Params = dict[str, Any]


def nest_tables(**parts: Mapping[str, str]) -> dict[str, str]:
    """Merge tables, with each part's paths below its name."""
    return {f"{part}/{path}": dims for part, weights in parts.items() for path, dims in weights.items()}


def name_dims(weights: Mapping[str, str], prefix: str = "", stack: str = "") -> dict[str, str]:
    """Dimension names by path under `prefix` for tracing, with `stack` prepended."""
    return {prefix + path: " ".join((stack + " " + dims).replace(">", "").split()) for path, dims in weights.items()}


def draw(key: Any, weights: Mapping[str, str], sizes: Mapping[str, int], *, gain: float = 1.0) -> Params:
    """Normal float32 weights with variance `gain` / contracted terms (LeCun et al. 1998; `gain` 2 before rectifiers, He
    et al. 2015).
    """
    params: Params = {}
    for number, (path, dims) in enumerate(weights.items()):
        *parents, name = path.split("/")
        node = params
        for parent in parents:
            node = node.setdefault(parent, {})
        summed, product, made = dims.partition(">")
        shape = tuple(sizes[dim] for dim in (summed + made).split())
        if not product:
            node[name] = jnp.ones(shape) if name == "scale" else jnp.zeros(shape)
        else:
            stddev = (gain / prod(sizes[dim] for dim in summed.split())) ** 0.5
            node[name] = stddev * jax.random.normal(jax.random.fold_in(key, number), shape)
    return params


def count_parameters(weights: Mapping[str, str], sizes: Mapping[str, int]) -> int:
    """Count the parameters in a table.

    >>> count_parameters({"w1": "d_model > d_ff", "b1": "d_ff"}, {"d_model": 4, "d_ff": 16})
    80
    """
    return sum(prod(sizes[dim] for dim in dims.replace(">", "").split()) for dims in weights.values())
