"""Equinox models as trees of shapes."""

from collections.abc import Callable
from typing import Any

import jax


def arrays_of(make: Callable[[Any], Any]) -> tuple[Any, Any]:
    """The floating-point arrays of the model that `make(key)` makes, as shapes, and the rest of it; nothing is allocated."""
    import equinox as eqx

    model = eqx.filter_eval_shape(make, jax.random.key(0))
    return eqx.partition(
        model, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct) and jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating)
    )
