"""Weights kept in few bits with a scale for each output channel, as inference keeps them: int8, int4, float8.

    W ~ values x scale          scale float32, its largest magnitude / the type's largest number, one for all that a product sums
    x W = (x values) x scale    the values are converted as the product reads them, the scale is applied to what it makes

A weight that is multiplied the other way round (a latent attention's, absorbed into its query) has its scale applied to x instead.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from workbench.models.layers.float8_products import align_scale, split_subscripts

WEIGHTS = ("bfloat16", "float32", "int8", "int4", "float8_e4m3fn")
"""Types in which weights may be kept."""
PLAIN = ("bfloat16", "float32")
"""Those of them that need no scale."""
_SMALLEST = 1e-12
"""What a largest magnitude counts as at least, so that zeros have a scale."""

SharedDims = Mapping[str, tuple[int, ...]]
"""Names of weights, and the dimensions, counted from the last, along which a scale is shared: those that its product sums."""


@partial(jax.tree_util.register_dataclass, data_fields=("values", "scale"), meta_fields=("shared", "dtype"))
@dataclass(frozen=True)
class QuantizedWeight:
    """A weight as `values` of few bits and float32 `scale`, whose dimensions are those of `values` without `shared`; it is converted to
    `dtype` where it is used. Layers take it in place of an array, with `multiply` for `jnp.einsum`.

    **Invariants**

    - `shared` are negative: a stack of layers in front changes nothing.
    """

    values: Any
    scale: Any
    shared: tuple[int, ...]
    dtype: Any = jnp.float32

    def astype(self, dtype: Any) -> "QuantizedWeight":
        """The same, to be computed with in another type."""
        return replace(self, dtype=jnp.dtype(dtype))

    @property
    def T(self) -> "QuantizedWeight":  # noqa: N802 - as an array calls it
        """A matrix transposed."""
        return replace(self, values=self.values.T, shared=tuple(-3 - dim for dim in self.shared))

    def __getitem__(self, rows: Any) -> Any:
        """Rows of a table with a scale for each, int[...] -> [..., width]."""
        return (self.values[rows].astype(jnp.float32) * self.scale[rows][..., None]).astype(self.dtype)

    def split(self, sizes: tuple[int, ...]) -> list["QuantizedWeight"]:
        """Parts of its last dimension, which has a scale each."""
        values, scales = (jax.lax.split(each, sizes, axis=each.ndim - 1) for each in (self.values, self.scale))
        return [replace(self, values=value, scale=scale) for value, scale in zip(values, scales, strict=True)]


def multiply(subscripts: str, x: Any, weight: Any) -> Any:
    """`jnp.einsum(subscripts, x, weight)`, of x's type, where `weight` is an array or a `QuantizedWeight`."""
    if not isinstance(weight, QuantizedWeight):
        return jnp.einsum(subscripts, x, weight)
    left, right, out = split_subscripts(subscripts)
    letters = "".join(letter for at, letter in enumerate(right, -len(right)) if at not in weight.shared)
    values = weight.values.astype(weight.dtype)
    if set(letters) <= set(out):
        return _rescale(jnp.einsum(subscripts, x, values), weight.scale, letters, out)
    return jnp.einsum(subscripts, _rescale(x, weight.scale, letters, left), values)


def _rescale(x: Any, scale: Any, letters: str, onto: str) -> Any:
    with jax.named_scope("scale"):
        return (x.astype(jnp.float32) * align_scale(scale, letters, onto)).astype(x.dtype)


def quantize(x: Any, dims: tuple[int, ...], dtype: Any, scale_dtype: Any = jnp.float32) -> tuple[Any, Any]:
    """x in a type of few bits, and what to multiply it by to have x again, without the dimensions `dims`, along which it is shared."""
    kind = jnp.dtype(dtype)
    is_whole = jnp.issubdtype(kind, jnp.integer)
    most = float((jnp.iinfo if is_whole else jnp.finfo)(kind).max)
    with jax.named_scope("quantize"):
        wide = x.astype(jnp.float32)
        largest = jnp.maximum(jnp.max(jnp.abs(wide), axis=dims, keepdims=True), _SMALLEST)
        scale = (largest / most).astype(scale_dtype)
        scaled = jnp.clip(wide / scale.astype(jnp.float32), -most, most)
        return (jnp.round(scaled) if is_whole else scaled).astype(kind), scale.squeeze(dims)


def quantize_weights(params: Any, shared: SharedDims, dtype: str) -> Any:
    """A tree of parameters whose weights, those with a name in `shared`, are kept in `dtype`: cast, or as `QuantizedWeight`s. The others
    stay in the type they have."""

    def keep(path: Any, leaf: Any) -> Any:
        dims = shared.get(getattr(path[-1], "key", ""))
        if dims is None:
            return leaf
        return leaf.astype(dtype) if dtype in PLAIN else QuantizedWeight(*quantize(leaf, dims, dtype), dims)

    return jax.tree_util.tree_map_with_path(keep, params)


def quantized_dims(names: Mapping[str, str], shared: SharedDims, dtype: str) -> dict[str, str]:
    """The names of dimensions of parameters (paths to names) where they are kept in `dtype`.

    >>> quantized_dims({"mlp/w1": "d_model d_ff", "norm/scale": "d_model"}, {"w1": (-2,)}, "int8")
    {'mlp/w1/values': 'd_model d_ff', 'mlp/w1/scale': 'd_ff', 'norm/scale': 'd_model'}
    """
    if dtype in PLAIN:
        return dict(names)
    found = {}
    for path, dims in names.items():
        words, along = dims.split(), shared.get(path.rpartition("/")[2])
        if along is None:
            found[path] = dims
            continue
        found[f"{path}/values"] = dims
        found[f"{path}/scale"] = " ".join(word for at, word in enumerate(words, -len(words)) if at not in along)
    return found
