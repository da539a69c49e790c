"""Quantized weights for inference with a scale per output channel: int8, int4, float8.

    W ~ values x scale          scale float32, the largest magnitude / the dtype's maximum, shared along contracted dimensions
    x W = (x values) x scale    the product converts the values as it reads them; the scale is applied to the result

If the contraction is over the other dimensions (weights of a latent attention, absorbed into its query), the scale is applied to x.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from workbench.tracing.jaxpr.float8_products import align_scale, split_subscripts

PLAIN = ("bfloat16", "float32")
"""Dtypes of stored weights, and of a cache, without a scale."""
SCALED_TYPES = ("int8", "int4", "float8_e4m3fn")
"""Dtypes with a scale."""
WEIGHTS = (*PLAIN, *SCALED_TYPES)
"""Dtypes for stored weights, and for a cache."""
_SMALLEST = 1e-12
"""Lower limit of the largest magnitude, so that zeros have a scale."""

SharedDims = Mapping[str, tuple[int, ...]]
"""Names of weights, and the dimensions, counted from the last, that share a scale: the contracted ones."""


@partial(jax.tree_util.register_dataclass, data_fields=("values", "scale"), meta_fields=("shared", "dtype"))
@dataclass(frozen=True)
class QuantizedWeight:
    """A weight as low-precision `values` and a float32 `scale`, which lacks the dimensions in `shared`.

    It is converted to `dtype` at use. Layers accept it instead of an array, with `multiply` instead of `jnp.einsum`.

    **Invariants**

    - `shared` are negative, so a leading stack of layers changes nothing.
    """

    values: Any
    scale: Any
    shared: tuple[int, ...]
    dtype: Any = jnp.float32

    def astype(self, dtype: Any) -> "QuantizedWeight":
        """Return the weight with another dtype of computation."""
        return replace(self, dtype=jnp.dtype(dtype))

    @property
    def T(self) -> "QuantizedWeight":  # noqa: N802 - the name of the array attribute
        """The transposed matrix."""
        return replace(self, values=self.values.T, shared=tuple(-3 - dim for dim in self.shared))

    def __getitem__(self, rows: Any) -> Any:
        """Look up rows of a table with a scale per row, int[...] -> [..., width]."""
        return (self.values[rows].astype(jnp.float32) * self.scale[rows][..., None]).astype(self.dtype)

    def split(self, sizes: tuple[int, ...]) -> list["QuantizedWeight"]:
        """Split the last dimension, along which scales are not shared."""
        values, scales = (jax.lax.split(array, sizes, axis=array.ndim - 1) for array in (self.values, self.scale))
        return [replace(self, values=value, scale=scale) for value, scale in zip(values, scales, strict=True)]


def multiply(subscripts: str, x: Any, weight: Any) -> Any:
    """Compute `jnp.einsum(subscripts, x, weight)` in the dtype of x; `weight` is an array or a `QuantizedWeight`."""
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
    """x in a low-precision dtype, and the scale that restores it, without the dimensions `dims`."""
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
    """Convert the weights named in `shared` to `dtype`, by a cast or to `QuantizedWeight`s; other parameters stay."""

    def keep(path: Any, leaf: Any) -> Any:
        dims = shared.get(getattr(path[-1], "key", ""))
        if dims is None:
            return leaf
        return leaf.astype(dtype) if dtype in PLAIN else QuantizedWeight(*quantize(leaf, dims, dtype), dims)

    return jax.tree_util.tree_map_with_path(keep, params)


def quantized_dims(names: Mapping[str, str], shared: SharedDims, dtype: str) -> dict[str, str]:
    """Dimension names of parameters (by path) after `quantize_weights`.

    >>> quantized_dims({"mlp/w1": "d_model d_ff", "norm/scale": "d_model"}, {"w1": (-2,)}, "int8")
    {'mlp/w1/values': 'd_model d_ff', 'mlp/w1/scale': 'd_ff', 'norm/scale': 'd_model'}
    """
    if dtype in PLAIN:
        return dict(names)
    named = {}
    for path, dims in names.items():
        words, along = dims.split(), shared.get(path.rpartition("/")[2])
        if along is None:
            named[path] = dims
            continue
        named[f"{path}/values"] = dims
        named[f"{path}/scale"] = " ".join(word for at, word in enumerate(words, -len(words)) if at not in along)
    return named
