"""Precision applied at a function's edges: floating-point arrays are cast where they go in, and back where they come out."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from workbench.tracing.model_state import WithState


def cast(tree: Any, dtype: str | None) -> Any:
    """The floating-point leaves of a pytree, arrays or their specs, in `dtype`; `None` leaves them as they are."""
    if dtype is None:
        return tree

    def change(leaf: Any) -> Any:
        if not is_float(leaf) or leaf.dtype == dtype:
            return leaf
        return jax.ShapeDtypeStruct(leaf.shape, dtype) if isinstance(leaf, jax.ShapeDtypeStruct) else leaf.astype(dtype)

    return jax.tree.map(change, tree)


def cast_like(tree: Any, example: Any) -> Any:
    """The tree with each floating-point leaf in the type of its place in `example`."""
    return jax.tree.map(lambda leaf, like: leaf.astype(like.dtype) if is_float(leaf) and leaf.dtype != like.dtype else leaf, tree, example)


def is_float(leaf: Any) -> bool:
    """Whether an array holds floating-point numbers (random keys and whole numbers are never cast)."""
    dtype = getattr(leaf, "dtype", None)
    return dtype is not None and not jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key) and jnp.issubdtype(dtype, jnp.floating)


def compute_in(fn: Callable[..., Any], dtype: str | None, results: Any) -> Callable[..., Any]:
    """`fn`, its arguments cast to `dtype` and its results to the types of `results`. A model's state is not cast: running averages would
    stand still in few bits."""
    if dtype is None:
        return fn

    def call(*args: Any) -> Any:
        with jax.named_scope("precision"):
            given = tuple(
                each._replace(batch=cast(each.batch, dtype)) if isinstance(each, WithState) else cast(each, dtype) for each in args
            )
        found = fn(*given)
        with jax.named_scope("precision"):
            return cast_like(found, results)

    return call
