"""Parts of the convolutional models: tables of weights by layer, convolutions and pooling in any number of space dimensions."""

from collections.abc import Mapping
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp

from workbench.models.layers.weight_tables import Params, Table, draw, name_dims
from workbench.tracing import checkpoint_name


def name_tables(tables: Mapping[str, Table]) -> dict[str, str]:
    """Dimension names of the weights of every layer, by path."""
    return {name: dims for path, (weights, _) in tables.items() for name, dims in name_dims(weights, f"{path}/").items()}


def draw_tables(key: Any, tables: Mapping[str, Table]) -> Params:
    """Draw the weights of every layer, for rectifiers; the numbered parts of a path (`cells/0`, `cells/1`) become a list."""
    params: Params = {}
    for number, (path, table) in enumerate(tables.items()):
        branch = reduce(lambda branch, word: branch.setdefault(word, {}), path.split("/"), params)
        branch.update(draw(jax.random.fold_in(key, number), *table, gain=2.0))
    return _number(params)  # type: ignore[no-any-return]


def _number(branch: Any) -> Any:
    if not isinstance(branch, dict):
        return branch
    inner = {word: _number(part) for word, part in branch.items()}
    return [inner[str(number)] for number in range(len(inner))] if all(map(str.isdecimal, inner)) else inner


def convolve(x: Any, kernel: Any, stride: int = 1) -> Any:
    """Convolution of x [batch, *space, channels] with a kernel [*window, channels, outputs], padded by half the window."""
    space = "DHW"[5 - x.ndim :]
    padding = [(size // 2,) * 2 for size in kernel.shape[:-2]]
    layouts = f"N{space}C", f"{space}IO", f"N{space}C"
    made = jax.lax.conv_general_dilated(x, kernel.astype(x.dtype), (stride,) * len(space), padding, dimension_numbers=layouts)
    return checkpoint_name(made, "convolved")


def halve_by_maximum(x: Any) -> Any:
    """Max pooling of pairs along each space dimension of x [batch, *space, channels].

    Pairwise `maximum`, because the gradient of `max` finds the maximum again by equality and divides by the number of
    matches. That is zero if recomputation in the backward pass is fused differently and differs in the last bit.
    """
    for axis in range(1, x.ndim - 1):
        pairs = x.reshape(*x.shape[:axis], x.shape[axis] // 2, 2, *x.shape[axis + 1 :])
        x = jnp.maximum(*(jax.lax.index_in_dim(pairs, half, axis + 1, keepdims=False) for half in (0, 1)))
    return x
