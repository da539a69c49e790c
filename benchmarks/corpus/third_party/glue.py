"""What the glue of several programs has in common: shapes for arguments, and the loss of a classifier."""

from typing import Any

import jax
import jax.numpy as jnp
import optax


def spec(shape: tuple[int, ...], dtype: str = "float32") -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def tokens(batch: int, length: int) -> jax.ShapeDtypeStruct:
    return spec((batch, length), "int32")


def mean_cross_entropy(logits: Any, labels: Any) -> Any:
    """In float32, as trainers do."""
    return optax.softmax_cross_entropy_with_integer_labels(logits.astype(jnp.float32), labels).mean()
